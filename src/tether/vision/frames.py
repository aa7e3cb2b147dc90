"""Training data for eyes: labelled frames rendered from the world, in shards that are made once and kept.

States come from rollouts of an oracle under the real profile, as they are and scattered; see `tether.world.labelled`
for what is varied in the look. Frames are kept as the network sees them: resized, uint8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tether.assembly import make_world, profile
from tether.config import bounded
from tether.contracts import F32, F64, U8
from tether.errors import Fault, InvalidInputError
from tether.files import replaced
from tether.progress import Progress
from tether.rollout import Rollout
from tether.vision.geometry import HEIGHT, WIDTH
from tether.vision.resize import area_resize

if TYPE_CHECKING:
    from tether.world.labelled import LabelledCamera

TASKS = ("pick", "pick_moving")
_TICKS_A_STATE = 3
_KEPT_SHARE = 0.55
"""Share of frames whose state is one of a rollout's; the others are scattered from it."""
TRAIN_SEED, HELD_OUT_SEED = 10_000_000, 11_000_000
"""First world seeds of the rollouts that states come from. Evaluation and other trainings use others."""
VISIBLE_MIN = 0.25
"""Share of the cube's outline in sight from which on a frame has a box."""
HIDDEN_MAX = 0.10
"""Share in sight up to which a frame has none. Between the two it counts neither way."""


@dataclass(frozen=True)
class FramesConfig:
    """What is rendered. Everything that changes a frame is here; a folder holds one configuration."""

    frames: int = bounded(1, 1_000_000, default=24_000)
    episodes: int = bounded(1, 10_000, default=60, doc="rollouts of each task that states come from")
    seed: int = bounded(0, None, default=0)
    profile: str = "real"
    shard: int = bounded(1, 100_000, default=500, doc="frames a file")
    first_world_seed: int = bounded(0, None, default=TRAIN_SEED)


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames with labels, in the picture's own 128 x 96 pixels.

    pictures: (N, 96, 128, 3) uint8. boxes: (N, 4) float32 x1, y1, x2, y2 from the picture's upper left corner.
    visible: (N,) float32. p_base_cube: (N, 3) float32. joints: (N, 6) float32.
    """

    pictures: U8
    boxes: F32
    visible: F32
    p_base_cube: F32
    joints: F32

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def shown(self) -> NDArray[np.bool_]:
        """(N,) where there is a box to be found."""
        return self.visible >= VISIBLE_MIN

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """(N,) where there is none."""
        return self.visible <= HIDDEN_MAX


def make_frames(folder: Path, config: FramesConfig) -> Frames:
    """The frames of `config`, rendered where `folder` does not hold them yet; may be interrupted and called again.

    Raises InvalidInputError where the folder holds frames of another configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _require_same(folder / "frames.json", config)
    shards = range(-(-config.frames // config.shard))
    missing = [shard for shard in shards if not _shard_path(folder, shard).exists()]
    if missing:
        states = _states(folder / "states.npy", config)
        world = make_world("pick_moving", config.profile, truth_age_ns=None, pictures=False)
        from tether.world.labelled import LabelledCamera  # needs GL

        camera = LabelledCamera(world.model, world.index, profile(config.profile).camera)
        progress = Progress(len(missing) * config.shard, "frames rendered")
        try:
            for shard in missing:
                rng = np.random.default_rng([config.seed, shard])
                made = _render(camera, states, config.shard, rng, progress)
                _save(_shard_path(folder, shard), list(made))
        finally:
            camera.close()
    return load_frames(folder, config)


def load_frames(folder: Path, config: FramesConfig) -> Frames:
    """The frames of a folder in memory (37 kB each)."""
    parts = []
    for shard in range(-(-config.frames // config.shard)):
        with np.load(_shard_path(folder, shard), allow_pickle=False) as data:
            parts.append({name: data[name] for name in data.files})
    whole = {name: np.concatenate([part[name] for part in parts])[: config.frames] for name in parts[0]}
    return Frames(**whole)


Row = tuple[U8, F64, float, F64, F64]


def _render(
    camera: LabelledCamera, states: F64, count: int, rng: np.random.Generator, progress: Progress
) -> Iterator[Row]:
    for _ in range(count):
        state = states[int(rng.integers(len(states)))]
        scatter = camera.moved_state if rng.uniform() < _KEPT_SHARE else camera.random_state
        seen = camera.picture(scatter(state, rng), rng)
        height, width = seen.rgb.shape[:2]
        small = area_resize(height, width, HEIGHT, WIDTH)(seen.rgb)
        scale = np.array([WIDTH / width, HEIGHT / height] * 2)
        yield small, (seen.box + 0.5) * scale, seen.visible, seen.p_base_cube, seen.joint_position
        progress.step()


def _save(path: Path, rows: list[Row]) -> None:
    pictures, boxes, visible, places, joints = zip(*rows, strict=True)
    with replaced(path) as stream:
        np.savez(
            stream,
            pictures=np.array(pictures),
            boxes=np.array(boxes, np.float32),
            visible=np.array(visible, np.float32),
            p_base_cube=np.array(places, np.float32),
            joints=np.array(joints, np.float32),
        )


def _states(path: Path, config: FramesConfig) -> F64:
    """(n, nq) states of the world every 30 ms of the rollouts."""
    if not path.exists():
        rows: list[F64] = []
        progress = Progress(config.episodes * len(TASKS), "rollouts for states")
        for task in TASKS:
            with Rollout("scripted", task, config.profile) as rollout:
                for episode in range(config.episodes):
                    for delivery, _ in rollout.ticks(config.first_world_seed + episode):
                        if delivery.tick % _TICKS_A_STATE == 0:
                            rows.append(rollout.world.data.qpos.copy())
                    progress.step()
        with replaced(path) as stream:
            np.save(stream, np.array(rows))
    states: F64 = np.load(path, allow_pickle=False)
    return states


def _shard_path(folder: Path, shard: int) -> Path:
    return folder / f"shard-{shard:04d}.npz"


def _require_same(path: Path, config: FramesConfig) -> None:
    wanted = {key: value for key, value in asdict(config).items() if key != "frames"}
    if not path.exists():
        path.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        fault = Fault(str(path), "no JSON object", "the settings of the frames beside it")
        raise InvalidInputError(f"frames in {path.parent}", [fault], "name another folder, or delete this one")
    if found != wanted:
        faults = [
            Fault(key, repr(found.get(key)), repr(wanted[key])) for key in wanted if found.get(key) != wanted[key]
        ]
        raise InvalidInputError(f"frames in {path.parent}", faults, "name another folder, or delete this one")
