"""What fusion asks of a state estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tether.contracts import Estimate, ExecutedCommand, ImageFeature, ImuBatch, JointSample, SkillContext


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Everything that arrived since the previous decision, each stream in order of its stamps.

    imu: at most one batch as the estimator sees it; the fusion stage joins what came.
    """

    imu: Sequence[ImuBatch]
    pictures: Sequence[ImageFeature]
    joints: Sequence[JointSample]
    executed: Sequence[ExecutedCommand]


class Estimator(Protocol):
    """Turns arrivals into the policy's own view of the object at the decision time.

    Deterministic: its state is a function of the reset and of the sequence of (stamp_ns, arrivals).
    """

    def reset(self, skill: SkillContext) -> None:
        """Forget everything."""

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """Take what arrived and estimate the object at `stamp_ns`."""

    def state_hash(self) -> str:
        """Hex digest of the recurrent state."""


class NoEstimator:
    """For oracles, whose estimate is the truth they are given."""

    def reset(self, skill: SkillContext) -> None:
        """Nothing to forget."""

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """An invalid estimate: nothing was looked at."""
        return Estimate.none(stamp_ns)

    def state_hash(self) -> str:
        """Constant: there is no state."""
        return "stateless"
