"""Eyes on the pictures that a robot really gets: those of rollouts, by the way they take, against the world's truth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tether.assembly import profile
from tether.contracts import F64, ImageSample
from tether.ingest.encoder import PictureEncoder
from tether.rollout import Rollout
from tether.vision.geometry import iou

SCORED_SEED = 12_000_000
"""First world seed of the rollouts that eyes are scored on; trained and held-out frames use others."""
TASKS = ("pick", "pick_moving")


def scores_on_rollouts(
    encoders: dict[str, PictureEncoder], profile_name: str, episodes: int, first_seed: int = SCORED_SEED
) -> dict[str, dict[str, float]]:
    """Encoder → figures over the pictures of `classic` on both tasks: `pictures`, `found` (share in which the best box
    has IoU ≥ 0.5 with the truth's), and of those the centre's and size's error in pixels of the original picture.
    """
    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in encoders}
    pictures = 0
    for task in TASKS:
        for sample, truth in _pictures(task, profile_name, range(first_seed, first_seed + episodes)):
            pictures += 1
            for name, encoder in encoders.items():
                found = encoder.look(sample.rgb, sample.camera).detections
                if len(found) and float(iou(found[0], truth.astype(np.float32))) >= 0.5:
                    error = found[0, :4] - truth
                    centre = float(np.hypot(*(0.5 * (error[:2] + error[2:]))))
                    errors[name].append((centre, float(np.abs(error[2:] - error[:2]).mean())))
    return {name: _figures(rows, pictures) for name, rows in errors.items()}


def _figures(rows: list[tuple[float, float]], pictures: int) -> dict[str, float]:
    centre, size = np.array(rows).reshape(-1, 2).T
    figures = {"pictures": float(pictures), "found": len(rows) / max(pictures, 1)}
    if len(rows):
        figures["centre_error_px_p50"], figures["centre_error_px_p95"] = np.percentile(centre, (50, 95)).tolist()
        figures["size_error_px_p50"] = float(np.median(size))
    return figures


def _pictures(task: str, profile_name: str, seeds: Iterable[int]) -> Iterable[tuple[ImageSample, F64]]:
    """Pictures as they are delivered, each with the box that the world's state gave when it was taken."""
    from tether.world.camera import camera_model  # MuJoCo is needed by those who render only
    from tether.world.outline import present_outline

    camera = camera_model(profile(profile_name).camera)
    with Rollout("classic", task, profile_name) as rollout:
        world = rollout.world
        for seed in seeds:
            truth: dict[int, F64] = {}
            for delivery, _ in rollout.ticks(seed):
                truth[delivery.stamp_ns], _ = present_outline(world.model, world.data, world.index, camera)
                for sample in delivery.samples:
                    if isinstance(sample, ImageSample):
                        yield sample, truth[sample.ref.stamp_ns]
