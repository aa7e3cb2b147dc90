"""Baselines that need no training: the student with its view of time made worse. Chosen by name, `student+padded`.

What they share with the student, so that a comparison says something of the delays alone: eyes, models, policy, gate,
and the loops of the primitives, which close on fresh joints at 100 Hz in any case.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TypeVar

import numpy as np

from tether.contracts import Estimate, ExecutedCommand, ImageFeature, ImuBatch, JointSample, SkillContext
from tether.fusion.estimator import Arrivals
from tether.policy.stage import digest
from tether.student.carry import straight_line
from tether.student.estimator import StudentEstimator
from tether.student.observation import AGE_S, DROPS, NOMINAL_M, PLACE_M, Observation

_OPEN_M = 0.038
"""Opening between the pads from which on nothing is in the hand."""
_LONGEST_NS = 1_000_000_000
"""Nothing is held back for longer: boxes of that age say nothing any more."""
LINE_BOXES = 2
"""Boxes that a straight line goes through: of 2 to 8 the number with the least error on collected episodes, see
docs/student.md. The cube's path against the base is bent, and more boxes reach further back along it."""

_S = TypeVar("_S", ImageFeature, JointSample, ExecutedCommand)


class Baseline(Enum):
    """What is taken from the student.

    PADDED: every delay is padded to its maximum. Nothing is used before it is as old as the newest picture has been at
    its oldest in this episode, so that all streams are of one age and that age is constant.
    CONSTANT_VELOCITY: before a grasp the cube moves on at the speed of a straight line through the two newest boxes. No
    IMU, no acceleration, and nothing that was learned, in the place of the state predictor.
    """

    PADDED = "padded"
    CONSTANT_VELOCITY = "constant_velocity"


class Held:
    """Arrivals that are kept until they are old enough. Deterministic in the sequence of calls."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self.pad_ns = 0
        self._newest_picture_ns = -1
        self._pictures: list[ImageFeature] = []
        self._imu: list[ImuBatch] = []
        self._joints: list[JointSample] = []
        self._executed: list[ExecutedCommand] = []

    def release(self, stamp_ns: int, arrivals: Arrivals) -> Arrivals:
        """Take what arrived by `stamp_ns`; what is at least `pad_ns` old now, in the order of its stamps."""
        pictures = [p for p in arrivals.pictures if p.rejected is None]
        self._newest_picture_ns = max([self._newest_picture_ns, *(p.ref.stamp_ns for p in pictures)])
        if self._newest_picture_ns >= 0:
            self.pad_ns = min(max(self.pad_ns, stamp_ns - self._newest_picture_ns), _LONGEST_NS)
        until_ns = stamp_ns - self.pad_ns
        self._pictures, old = _split([*self._pictures, *pictures], until_ns)
        self._joints, joints = _split([*self._joints, *arrivals.joints], until_ns)
        self._executed, executed = _split([*self._executed, *arrivals.executed], until_ns)
        singles = [
            replace(batch, stamp_ns=sample.ref.stamp_ns, samples=(sample,))
            for batch in arrivals.imu
            for sample in batch.samples
        ]
        self._imu = sorted([*self._imu, *singles], key=lambda batch: batch.stamp_ns)
        ready = [batch for batch in self._imu if batch.stamp_ns <= until_ns]
        self._imu = self._imu[len(ready) :]
        return Arrivals(ready, old, joints, executed)

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        kept = (self._pictures, self._joints, self._executed)
        refs = [sample.ref for samples in kept for sample in samples]
        return repr(
            (self.pad_ns, self._newest_picture_ns, refs, [batch.samples[0].ref for batch in self._imu])
        ).encode()


class PaddedEstimator(StudentEstimator):
    """The student on samples that were held back; it is told their true ages."""

    _held: Held

    def reset(self, skill: SkillContext) -> None:
        """Start an episode."""
        super().reset(skill)
        self._held = Held()

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """Estimate the cube at `stamp_ns` from what is old enough."""
        return super().update(stamp_ns, self._held.release(stamp_ns, arrivals))

    def state_hash(self) -> str:
        """Digest of everything that later estimates depend on."""
        return digest(super().state_hash().encode(), self._held.dump())


class ConstantVelocityEstimator(StudentEstimator):
    """The student with a straight line in the place of what it carries boxes by, and of its estimate before a grasp."""

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """The line's place and speed at `stamp_ns`, once boxes came and while nothing is in the hand."""
        estimate = super().update(stamp_ns, arrivals)
        line, there = self._line["coasted"], self._line["coasted_mask"][0] > 0.0
        if not there or self.observation["tool"][3] < _OPEN_M:
            return estimate
        p, v = line[:3].astype(np.float64), line[3:6].astype(np.float64)
        return Estimate(stamp_ns, p, v, np.zeros(3), estimate.sigma_m, estimate.valid)

    def _masked(self, observation: Observation) -> Observation:
        self._line = straightened(observation)
        return super()._masked(self._line)


def straightened(observation: Observation) -> Observation:
    """The observation without IMU, its fit through the boxes replaced by a straight line, carried on to now."""
    out = {name: value.copy() for name, value in observation.items()}
    for name in DROPS["imu"]:
        out[name][:] = 0.0
    n = int(out["boxes_mask"].sum())
    if n == 0:
        return out
    used = min(n, LINE_BOXES)
    places = out["boxes"][:used, 7:9].astype(np.float64) * PLACE_M + NOMINAL_M[:2]
    p, v = straight_line(places, out["boxes_age"][:used, 0].astype(np.float64) * AGE_S)
    height = out["coasted"][2]
    out["coasted"][:9] = (*np.clip(p, -1.0, 1.0), height, *np.clip(v, -1.0, 1.0), 0.0, 0.0, 0.0, 0.0)
    out["boxes"][:n, 9:11] = out["boxes"][:n, 11:13]
    return out


def _split(samples: list[_S], until_ns: int) -> tuple[list[_S], list[_S]]:
    """Those younger than `until_ns`, and the others, each in the order of their stamps."""
    ordered = sorted(samples, key=lambda sample: sample.ref)
    old = [sample for sample in ordered if sample.ref.stamp_ns <= until_ns]
    return ordered[len(old) :], old


ESTIMATORS: dict[Baseline, type[StudentEstimator]] = {
    Baseline.PADDED: PaddedEstimator,
    Baseline.CONSTANT_VELOCITY: ConstantVelocityEstimator,
}


def estimator_type(baseline: Baseline | None) -> type[StudentEstimator]:
    """What stands for the student's estimator under a baseline; its own where there is none."""
    return StudentEstimator if baseline is None else ESTIMATORS[baseline]
