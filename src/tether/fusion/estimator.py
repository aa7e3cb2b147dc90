"""What fusion asks of a state estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from tether.contracts import F32, Estimate, ExecutedCommand, ImageFeature, ImuBatch, JointSample, SkillContext


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


@dataclass(frozen=True, eq=False)
class Insight:
    """What a learned estimator says besides its estimate; see the fields of `FusedState` with these names."""

    features: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    attention: Mapping[str, float] = field(default_factory=dict)
    prediction_error: float | None = None


@runtime_checkable
class Encoder(Protocol):
    """An estimator that encodes: it also has features for a learned policy."""

    def insight(self) -> Insight:
        """Of the newest update."""


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
