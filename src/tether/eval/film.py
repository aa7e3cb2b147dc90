"""Films of episodes: the same seeds again through the core loop, seen by a camera beside the robot."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from tether.contracts import DECISION_NS, TICKS_PER_DECISION, U8
from tether.eval.result import Setting
from tether.rollout import Rollout

WIDTH, HEIGHT = 480, 360
_FRAME_TICKS = TICKS_PER_DECISION
_LAST_FRAME_MS = 1200


def film(setting: Setting, seed: int) -> bytes:
    """The episode of `seed` as an animated WebP at 20 frames per second."""
    frames: list[U8] = []
    with Rollout(setting.policy, setting.task, setting.profile, truth_age_ms=setting.truth_age_ms) as rollout:
        from tether.world.camera import Renderer  # needs GL, which an evaluation without films must not

        renderer = Renderer(rollout.world.model, WIDTH, HEIGHT)
        view = _beside_the_robot()
        for delivery, _ in rollout.ticks(seed):
            if delivery.tick % _FRAME_TICKS == 0 or delivery.result is not None:
                frames.append(renderer.draw_from(rollout.world.data, view))
        renderer.close()
    return _webp(frames)


def _beside_the_robot() -> Any:
    import mujoco

    view = mujoco.MjvCamera()
    view.type = mujoco.mjtCamera.mjCAMERA_FREE
    view.lookat[:] = np.array([0.14, 0.0, 0.08])
    view.distance, view.azimuth, view.elevation = 0.85, 128.0, -24.0
    return view


def _webp(frames: list[U8]) -> bytes:
    from PIL import Image

    pictures = [Image.fromarray(frame) for frame in frames]
    durations = [DECISION_NS // 1_000_000] * (len(pictures) - 1) + [_LAST_FRAME_MS]
    out = io.BytesIO()
    pictures[0].save(
        out, "WEBP", save_all=True, append_images=pictures[1:], duration=durations, loop=0, quality=60, method=0
    )
    return out.getvalue()
