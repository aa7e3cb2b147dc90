"""The motion stage of the graph: the newest proprioception and the decision in force, tick by tick."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from tether.contracts import Command, HybridAction, ImuSample, JointSample
from tether.motion.executor import Executor


class MotionStage:
    """Keeps the newest reading of each sensor for the executor, which runs the primitive."""

    def __init__(self, executor: Executor, decision_max_age_ns: int) -> None:
        self._executor = executor
        self._decision_max_age_ns = decision_max_age_ns
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self._executor.reset()
        self._joints: JointSample | None = None
        self._imu: ImuSample | None = None

    def tick(
        self,
        tick: int,
        now_ns: int,
        joints: Sequence[JointSample],
        imu: Sequence[ImuSample],
        action: HybridAction | None,
        action_age_ns: int,
    ) -> Command | None:
        """The command for this tick from what came since the last; None while there is nothing to go by.

        action_age_ns: since the action was received, on the steady clock (since it was made, in lockstep). One that has
        grown too old is nothing to go by: the gate then misses the command and stops.
        """
        self._joints = _newest(self._joints, joints)
        self._imu = _newest(self._imu, imu)
        if action_age_ns > self._decision_max_age_ns:
            action = None
        command = self._executor.tick(now_ns, self._joints, self._imu, action)
        return None if command is None else dataclasses.replace(command, tick=tick)

    def state_hash(self) -> str:
        """Hex digest of the executor's state."""
        return self._executor.state_hash()


_S = TypeVar("_S", JointSample, ImuSample)


def _newest(kept: _S | None, came: Sequence[_S]) -> _S | None:
    newest = max(came, key=lambda sample: sample.ref.stamp_ns, default=kept)
    if kept is None or newest is None or newest.ref.stamp_ns > kept.ref.stamp_ns:
        return newest
    return kept
