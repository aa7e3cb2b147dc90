"""The fusion stage: bookkeeping of what was used and how old it is, around an estimator."""

from __future__ import annotations

from collections import deque

import numpy as np

from tether.contracts import (
    F32,
    F64,
    FusedState,
    ImuBatch,
    JointSample,
    SampleRef,
    SkillContext,
    Stream,
)
from tether.fusion.estimator import Arrivals, Encoder, Estimator, Insight
from tether.lockstep import in_order
from tether.models.running import runtimes_of

IMU_WINDOW = 100
"""Samples in the IMU window: half a second at 200 Hz."""


class FusionStage:
    """Makes one FusedState per decision from everything that has arrived since the previous one."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._window: deque[F64] = deque(maxlen=IMU_WINDOW)
        self._newest: dict[Stream, int] = {}
        self._joints: JointSample | None = None
        self._detections: F32 = np.zeros((0, 6), np.float32)

    @property
    def runtimes(self) -> dict[str, str]:
        """Of the estimator's models, see `runtimes_of`."""
        return runtimes_of(self._estimator)

    def reset(self, skill: SkillContext) -> None:
        """Start an episode."""
        self._skill = skill
        self._window.clear()
        self._newest.clear()
        self._joints = None
        self._detections = np.zeros((0, 6), np.float32)
        self._estimator.reset(skill)

    def step(self, decision_id: int, stamp_ns: int, arrivals: Arrivals) -> FusedState:
        """The state for decision `decision_id` at `stamp_ns`."""
        arrivals = canonical(arrivals)
        used = self._take(arrivals)
        estimate = self._estimator.update(stamp_ns, arrivals)
        insight = self._estimator.insight() if isinstance(self._estimator, Encoder) else Insight()
        window = np.array(self._window).T if self._window else np.zeros((6, 0))
        return FusedState(
            decision_id=decision_id,
            stamp_ns=stamp_ns,
            used=in_order(used),
            age_ns={stream: stamp_ns - newest for stream, newest in sorted(self._newest.items())},
            estimate=estimate,
            joints=self._joints,
            imu_window=window,
            detections=self._detections,
            features=insight.features,
            skill=self._skill,
            attention=insight.attention,
            prediction_error=insight.prediction_error,
        )

    def state_hash(self) -> str:
        """Hex digest of the estimator's state."""
        return self._estimator.state_hash()

    def _take(self, arrivals: Arrivals) -> list[SampleRef]:
        used: list[SampleRef] = []
        for batch in arrivals.imu:
            for imu in batch.samples:
                self._window.append(np.concatenate((imu.angular_velocity_rad_s, imu.linear_acceleration_m_s2)))
                used.append(imu.ref)
        for joints in arrivals.joints:
            if self._joints is None or joints.ref.stamp_ns > self._joints.ref.stamp_ns:
                self._joints = joints
            used.append(joints.ref)
        for picture in arrivals.pictures:
            used.append(picture.ref)
            newest = self._newest.get(Stream.CAMERA)
            if picture.rejected is None and (newest is None or picture.ref.stamp_ns > newest):
                self._detections = picture.detections
        used += [executed.ref for executed in arrivals.executed]
        rejected = {p.ref for p in arrivals.pictures if p.rejected is not None}
        for ref in used:
            if ref not in rejected:
                self._newest[ref.stream] = max(ref.stamp_ns, self._newest.get(ref.stream, ref.stamp_ns))
        return used


def canonical(arrivals: Arrivals) -> Arrivals:
    """The same arrivals in an order that does not depend on transport: by stamp, IMU samples in one batch.

    What the state becomes then follows from which samples were used, and replay can rebuild it from their names.
    """
    samples = sorted((s for batch in arrivals.imu for s in batch.samples), key=lambda s: s.ref)
    batches: list[ImuBatch] = []
    if samples:
        newest = max(arrivals.imu, key=lambda b: (b.episode, b.tick))
        batches = [ImuBatch(newest.episode, newest.tick, samples[-1].ref.stamp_ns, tuple(samples), newest.token)]
    return Arrivals(
        imu=batches,
        pictures=sorted(arrivals.pictures, key=lambda p: p.ref),
        joints=sorted(arrivals.joints, key=lambda j: j.ref),
        executed=sorted(arrivals.executed, key=lambda e: e.ref),
    )
