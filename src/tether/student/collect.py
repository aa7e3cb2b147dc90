"""Episodes for the student: drawn profiles, a mix of who acts, the teacher's label at every decision. Resumable."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.assembly import (
    make_camera_ingest,
    make_gate_stage,
    make_joint_ingest,
    motion_stage_for,
    policy_kit,
    profile,
    robot,
    skill_of_task,
    skills,
    task,
)
from tether.bridge.stage import StudentAlone
from tether.contracts import TICK_NS, EpisodeSpec, ImageSample, TickDelivery, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.fusion.estimator import Estimator, NoEstimator
from tether.fusion.stage import FusionStage
from tether.ingest.imu import ImuConfig
from tether.ingest.stages import ImuStage
from tether.pipeline import Pipeline, Stages
from tether.policy.protocol import Policy
from tether.policy.stage import PolicyStage
from tether.processes import spread
from tether.robot.description import expand
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world
from tether.student.acting import Actor, NoisyTeacher, WatchedEstimator
from tether.student.labels import Labeller, Scaling, ScriptedLabeller
from tether.student.observation import Observer
from tether.student.profiles import Spread, draw
from tether.student.shards import write_shard
from tether.teacher.model import TeacherNetwork, open_teacher
from tether.teacher.policy import TeacherLabeller
from tether.vision.resize import area_resize
from tether.world.profile import Profile

NOISY = "noisy"
"""Actor: the teacher on a blurred truth. Any other actor is the name of a policy that is no oracle."""
SMALL_SHAPE = (96, 128)
"""Pictures are kept at the image encoder's size."""


@dataclass(frozen=True)
class Collection:
    """What fully determines a collection. mix: actor → weight. spread None: the profile as it is, in every episode.

    profile_episodes: so many episodes in a row share a drawn profile, since a world takes a while to make.
    pictures: keep the newest picture of each decision, reduced to 128 x 96. teacher: folder of the model that labels,
    None for the scripted one.
    """

    task: str
    profile: str
    episodes: int
    seed: int
    mix: Mapping[str, float] = field(default_factory=lambda: {"classic": 0.5, NOISY: 0.5})
    spread: Spread | None = field(default_factory=Spread)
    shard_episodes: int = 20
    profile_episodes: int = 4
    pictures: bool = False
    teacher: Path | None = None

    def __post_init__(self) -> None:
        wrong = [name for name in self.mix if name != NOISY and policy_kit(name).is_oracle]
        if wrong or not self.mix or min(self.mix.values()) < 0.0 or sum(self.mix.values()) <= 0.0:
            fault = Fault("mix", repr(dict(self.mix)), f"{NOISY} or policies that are no oracles, weights above 0")
            raise InvalidInputError("collection", [fault])

    def shards(self) -> list[range]:
        """Numbers of the episodes of each shard."""
        return [
            range(first, min(first + self.shard_episodes, self.episodes))
            for first in range(0, self.episodes, self.shard_episodes)
        ]


def shard_path(folder: Path, episodes: range) -> Path:
    """File of a shard."""
    return folder / f"episodes-{episodes.start:06d}.npz"


def collect(collection: Collection, folder: Path, workers: int = 0, on_shard: Callable[[], None] | None = None) -> int:
    """Collect what is missing in `folder`; returns how many shards were written.

    An episode depends on the collection and its own number alone, so neither workers nor interruptions change it.
    workers: processes; 0 for this one, which then must not train: software rendering and torch's compiler bring an
    LLVM each, and one process cannot have both.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [episodes for episodes in collection.shards() if not shard_path(folder, episodes).exists()]
    for _ in _written(collection, folder, missing, workers):
        if on_shard is not None:
            on_shard()
    return len(missing)


def _written(collection: Collection, folder: Path, missing: Sequence[range], workers: int) -> Iterator[range]:
    if workers == 0 or not missing:
        for episodes in missing:
            collect_shard(collection, folder, episodes)
            yield episodes
        return
    with contextlib.closing(spread(functools.partial(collect_shard, collection, folder), missing, workers)) as done:
        for episodes, _ in done:
            yield episodes


def collect_shard(collection: Collection, folder: Path, episodes: range) -> None:
    """Run the episodes of one shard and write it."""
    with _Collector(collection) as collector:
        done = [collector.episode(number) for number in episodes]
    write_shard(shard_path(folder, episodes), [columns for columns, _ in done], [meta for _, meta in done])


class _Collector:
    """Runs numbered episodes; owns the worlds it made."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._base = profile(collection.profile)
        self._world: Any = None
        self._profile: Profile | None = None

    def __enter__(self) -> _Collector:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._world is not None:
            self._world.close()

    def episode(self, number: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Columns and record of episode `number`."""
        c = self._collection
        drawn = self._base if c.spread is None else draw(self._base, c.spread, _rng(c, 0, number // c.profile_episodes))
        rng = _rng(c, 1, number)
        names = sorted(c.mix)
        weights = np.array([c.mix[name] for name in names])
        who = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        seed = int(rng.integers(1 << 31))
        columns, result = _run(who, self._world_of(drawn), c, drawn, seed, rng)
        return columns, {
            "number": number,
            "seed": seed,
            "actor": who,
            "success": result.success,
            "attempts": result.attempts,
            "failure": result.failure,
            "exact": drawn == self._base,
            "camera_latency_s": drawn.camera.delay.latency_s,
            "profile_sha256": drawn.sha256,
        }

    def _world_of(self, drawn: Profile) -> Any:
        if self._world is None or drawn != self._profile:
            if self._world is not None:
                self._world.close()
            self._world, self._profile = _make_world(self._collection.task, drawn), drawn
        return self._world


def _rng(c: Collection, purpose: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(c.seed, spawn_key=(purpose, number)))


def _make_world(task_name: str, drawn: Profile) -> Any:
    from tether.assembly import ROBOT_FILE
    from tether.resources import resource_path
    from tether.world.mujoco_world import MujocoWorld, TruthChannel

    urdf = expand(resource_path("urdf", ROBOT_FILE))
    return MujocoWorld(urdf, task(task_name), drawn, truth=TruthChannel(0), pictures=True)


def _run(who: str, world: Any, c: Collection, drawn: Profile, seed: int, rng: np.random.Generator) -> Any:
    actor, pipeline = _make_pipeline(who, c, drawn, rng)
    delivery: TickDelivery = world.reset(EpisodeSpec(world.task.name, drawn.name, seed), EPISODE_START_NS)
    pipeline.reset(skill_of_task(c.task), seed)
    pictures: dict[int, NDArray[np.uint8]] = {}
    velocity: list[tuple[int, NDArray[np.float64]]] = []
    while delivery.result is None:
        if c.pictures:
            pictures.update({s.ref.stamp_ns: _small(s.rgb) for s in delivery.samples if isinstance(s, ImageSample)})
        truth: TruthSample = world.truth()
        velocity.append((delivery.stamp_ns, truth.v_base_cube))
        delivery = world.step(for_world(pipeline.tick(delivery).gated))
    columns = actor.columns(_accelerations(velocity))
    if c.pictures:
        blank = np.zeros((*SMALL_SHAPE, 3), np.uint8)
        columns["picture"] = np.stack([pictures.get(int(ns), blank) for ns in columns["picture_ns"]])
    return columns, delivery.result


def _make_pipeline(who: str, c: Collection, drawn: Profile, rng: np.random.Generator) -> tuple[Actor, Pipeline]:
    """The stages of the core loop, with the actor where the policy stands."""
    table = skills()
    labeller = _make_labeller(c.teacher)
    acting: Policy
    estimator: Estimator
    if who == NOISY:
        acting, estimator, eyes = NoisyTeacher(ScriptedLabeller(robot(), table), rng), NoEstimator(), "classic"
    else:
        kit = policy_kit(who)
        acting, estimator, eyes = kit.make(), kit.make_estimator(), who
    watched = WatchedEstimator(estimator, Observer(robot(), task(c.task).cube.side_m))
    actor = Actor(acting, labeller, watched, robot())
    stages = Stages(
        imu=ImuStage(ImuConfig(noiseless_world=drawn.imu.is_noiseless)),
        camera=make_camera_ingest(eyes, noiseless_world=drawn.camera.is_noiseless),
        joints=make_joint_ingest(),
        fusion=FusionStage(watched),
        policy=PolicyStage(actor, table, threads=1),
        bridge=StudentAlone(),
        motion=motion_stage_for(drawn),
        gate=make_gate_stage(eyes),
    )
    return actor, Pipeline(stages)


def _make_labeller(teacher: Path | None) -> Labeller:
    if teacher is None:
        return ScriptedLabeller(robot(), skills())
    network = TeacherNetwork(skills(), open_teacher(teacher, skills()))
    return TeacherLabeller(robot(), network, Scaling(skills()))


def _small(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture reduced to 128 x 96 by the mean of areas."""
    height, width = rgb.shape[:2]
    return area_resize(height, width, *SMALL_SHAPE)(rgb)


def _accelerations(velocity: list[tuple[int, NDArray[np.float64]]]) -> dict[int, NDArray[np.float64]]:
    """Central differences over two ticks, one-sided at the ends."""
    v = np.array([rate for _, rate in velocity])
    if len(v) < 2:
        return {}
    a = np.gradient(v, TICK_NS * 1e-9, axis=0)
    return {stamp_ns: a[i] for i, (stamp_ns, _) in enumerate(velocity)}
