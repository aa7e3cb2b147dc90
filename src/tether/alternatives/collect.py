"""Decisions to learn from: what the sensors told in episodes of `classic`, and the parameters to go with it.

Labels are made on the world's true state, which no model sees. `reach`: where `classic` would have held the tool over
the cube, had it known where that is. `grasp`: the parameters of the SAC teacher.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tether.alternatives.features import state_vector
from tether.alternatives.policy import REPLACED
from tether.assembly import make_pair_stage, robot, skills
from tether.contracts import F32, F64, Primitive, TickDelivery, TruthSample
from tether.files import replaced
from tether.fusion.classic import load_classic_config
from tether.fusion.classic_config import DecisionConfig
from tether.motion.kinematics import ArmKinematics
from tether.pipeline import TickTrace
from tether.processes import spread
from tether.resources import resource_path
from tether.rollout import Rollout
from tether.skills import SkillTable
from tether.student.labels import Scaling
from tether.teacher.model import TeacherNetwork, open_teacher
from tether.teacher.policy import TeacherLabeller

ACTOR = "classic"


@dataclass(frozen=True)
class Collection:
    """What fully determines the data. Episodes have the seeds seed … seed + episodes - 1."""

    task: str = "pick"
    profile: str = "real"
    episodes: int = 60
    seed: int = 100_000


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of one primitive: state (N, SIZE), params (N, n) scaled to -1..1, episode (N,) the seed."""

    state: F32
    params: F32
    episode: np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def collect(collection: Collection, folder: Path, workers: int, on_episode: Callable[[], None]) -> None:
    """Run the episodes that are missing in `folder`, in processes of their own: rendering and torch share none."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = range(collection.seed, collection.seed + collection.episodes)
    missing = [seed for seed in seeds if not _path(folder, collection, seed).exists()]
    for _ in spread(functools.partial(_collect, folder), missing, workers, _start, (collection,)):
        on_episode()


def read(collection: Collection, folder: Path) -> dict[Primitive, Decisions]:
    """The collected decisions, by the primitive whose parameters they hold."""
    rows: dict[Primitive, list[tuple[F32, F32, int]]] = {primitive: [] for primitive in REPLACED.values()}
    for seed in range(collection.seed, collection.seed + collection.episodes):
        with np.load(_path(folder, collection, seed), allow_pickle=False) as file:
            for primitive, mine in rows.items():
                name = primitive.name.lower()
                pairs = zip(file[f"{name}_state"], file[f"{name}_params"], strict=True)
                mine += [(state, params, seed) for state, params in pairs]
    return {
        primitive: Decisions(
            np.stack([state for state, _, _ in mine]),
            np.stack([params for _, params, _ in mine]),
            np.array([seed for _, _, seed in mine]),
        )
        for primitive, mine in rows.items()
    }


def reach_over(p_base_cube: F64, table: SkillTable, config: DecisionConfig) -> F64:
    """Parameters of the reach to where `classic` holds the tool over a cube at (3,) m in the base frame."""
    x, y, z = (float(value) for value in p_base_cube)
    return table.clipped(Primitive.REACH, x=x, y=y, z=z + config.hover_m, opening=config.opening_m)


class _Collector:
    """Runs episodes and keeps the decisions of interest; owns the world."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        pairs = make_pair_stage(lambda pair: None)  # for its truth channel, which `classic` does not see
        self._rollout = Rollout(ACTOR, collection.task, collection.profile, pairs=pairs)
        self._scaling = Scaling(skills())
        network = TeacherNetwork(skills(), open_teacher(resource_path("models", "teacher"), skills()))
        self._teacher = TeacherLabeller(robot(), network, self._scaling)
        self._kinematics = ArmKinematics(robot())
        self._config = load_classic_config(resource_path("config", "classic.yaml")).decision

    def episode(self, seed: int) -> dict[str, Any]:
        """Columns of one episode."""
        rows: dict[Primitive, list[tuple[F32, F64]]] = {primitive: [] for primitive in REPLACED.values()}
        last: Primitive | None = None

        def watch(_: TickDelivery, trace: TickTrace) -> None:
            nonlocal last
            if trace.state is None or trace.decision is None:
                return
            truth = self._rollout.world.truth()
            label = self._teacher.label(truth, last)
            chosen = last = trace.decision.action.primitive
            vector = state_vector(trace.state, self._kinematics)
            wanted = REPLACED.get(chosen)
            if wanted is not None and vector is not None:
                rows[wanted].append((vector, self._reach(truth) if wanted is Primitive.REACH else label.mean[wanted]))

        self._teacher.reset()
        self._rollout.episode(seed, watch)
        return {
            f"{primitive.name.lower()}_{part}": np.array([row[i] for row in mine], np.float32).reshape(len(mine), -1)
            for primitive, mine in rows.items()
            for i, part in enumerate(("state", "params"))
        }

    def _reach(self, truth: TruthSample) -> F64:
        return self._scaling.scaled(Primitive.REACH, reach_over(truth.p_base_cube, skills(), self._config))


_collector: list[_Collector] = []
"""That of this worker process, made once by its initializer."""


def _start(collection: Collection) -> None:
    _collector.append(_Collector(collection))


def _collect(folder: Path, seed: int) -> None:
    columns = _collector[0].episode(seed)
    with replaced(_path(folder, _collector[0].collection, seed)) as file:
        np.savez(file, **columns)


def _path(folder: Path, collection: Collection, seed: int) -> Path:
    return folder / f"{collection.task}-{collection.profile}-{seed}.npz"
