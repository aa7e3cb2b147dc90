"""Online policy distillation in rounds: collect, train, export; then the student acts itself, and so on. Resumable.

Round 0 learns from others' episodes. From round 1 on the student acts in part of the new episodes, the teacher labels
what it meets on the true state, and all episodes so far are learned from (DAgger: Ross, Gordon and Bagnell 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tether.assembly import skills
from tether.errors import Fault, InvalidInputError
from tether.models.manifest import read_manifest
from tether.student.collect import NOISY, Collection, collect
from tether.student.models import EYES
from tether.student.profiles import Spread
from tether.student.tokens import encode_shards
from tether.student.train import TrainConfig, checkpoint_step, load_student, train
from tether.vision.eyes import LearnedEyes

CHECKPOINT = "checkpoint.pt"
_HELD_OUT = 10
"""Every so many shards one is held out for scores."""
_FIRST_MIX = {"classic": 0.4, NOISY: 0.6}


@dataclass(frozen=True)
class Distillation:
    """A whole training. episodes, steps: of each round, the last entry for all further ones.

    student_share: of the episodes from round 1 on in which the student acts. eyes: folder of the image encoder whose
    tokens the student gets, None for a student that goes by boxes alone. teacher: folder of the teacher's model, None
    for the scripted one.
    """

    task: str = "pick_moving"
    profile: str = "real"
    rounds: int = 3
    episodes: tuple[int, ...] = (800, 300)
    steps: tuple[int, ...] = (6000, 3000)
    student_share: float = 0.7
    seed: int = 0
    workers: int = 1
    eyes: Path | None = None
    teacher: Path | None = None
    spread: Spread | None = field(default_factory=Spread)
    training: TrainConfig = field(default_factory=TrainConfig)


Say = Callable[[str], None]


def distil(plan: Distillation, folder: Path, say: Say, on_step: Callable[[str], None] | None = None) -> Path:
    """Run all rounds in `folder`; what is done already is not done again. Returns the last round's folder."""
    _require_runtime()
    last = folder
    for number in range(plan.rounds):
        here = folder / f"round-{number}"
        collection = _collection(plan, number, last)
        say(f"round {number}: {collection.episodes} episodes")
        collect(collection, here / "episodes", max(plan.workers, 1))
        if plan.eyes is not None:
            encode_shards(here / "episodes", here / "tokens", LearnedEyes.load(plan.eyes))
        kept = "episodes" if plan.eyes is None else "tokens"
        shards = [p for n in range(number + 1) for p in sorted((folder / f"round-{n}" / kept).glob("*.npz"))]
        held_out = shards[_HELD_OUT - 1 :: _HELD_OUT]
        config = replace(plan.training, steps=_of(plan.steps, number), seed=plan.seed * 100 + number)
        start_from = last / CHECKPOINT if number > 0 else None
        if checkpoint_step(here / CHECKPOINT) < config.steps:
            say(f"round {number}: {config.steps} steps on {len(shards)} shards, {len(held_out)} held out")
            train(config, [path for path in shards if path not in held_out], here, on_step, start_from)
        export(here, plan, held_out)
        last = here
    return last


def export(folder: Path, plan: Distillation, held_out: Sequence[Path] = ()) -> None:
    """The checkpoint in `folder` as two models beside it, with their scores on held-out shards in the manifest."""
    from tether.student.assess import assess
    from tether.student.data import Episodes
    from tether.student.export import export_student

    net = load_student(folder / CHECKPOINT)
    trained_on = {"task": plan.task, "profile": plan.profile, "randomised": str(plan.spread is not None)}
    trained_on["teacher"] = "scripted" if plan.teacher is None else read_manifest(plan.teacher).sha256
    if plan.eyes is not None:
        trained_on[EYES] = read_manifest(plan.eyes).sha256
    step = checkpoint_step(folder / CHECKPOINT)
    export_student(
        net,
        folder,
        skills(),
        camera=plan.eyes is not None,
        version=f"{folder.name}.{step}",
        seed=plan.seed,
        trained_on=trained_on,
        scores=assess(net, Episodes(held_out)) if held_out else {},
    )


def _collection(plan: Distillation, number: int, last: Path) -> Collection:
    mix = _FIRST_MIX
    if number > 0:
        share = plan.student_share
        mix = {f"student@{last}": share, **{who: weight * (1.0 - share) for who, weight in _FIRST_MIX.items()}}
    return Collection(
        task=plan.task,
        profile=plan.profile,
        episodes=_of(plan.episodes, number),
        seed=plan.seed * 1000 + number,
        mix=mix,
        spread=plan.spread,
        pictures=plan.eyes is not None,
        teacher=plan.teacher,
    )


def _of(values: tuple[int, ...], number: int) -> int:
    return values[min(number, len(values) - 1)]


def _require_runtime() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        fault = Fault(str(error.name), "not installed", "the extra `train`")
        raise InvalidInputError("training", [fault], "pip install 'tether-robotics[train]'") from error
