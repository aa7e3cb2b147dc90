"""The scripted oracle: picks the cube from the world's true state through the same hybrid actions as everybody else.

It takes the truth it is given for the present, however old that is: with a stale truth it is the careful engineer's
controller that does not know about the delay, which is what makes it the yardstick of a task's validity.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from tether.contracts import F64, Estimate, FusedState, HybridAction, Primitive, Source, TruthSample
from tether.motion.kinematics import ArmKinematics
from tether.policy.stage import digest
from tether.robot.model import RobotModel, reorder
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable

_HOVER_M = 0.05
_ALIGNED_M = 0.012
_CLOSING_M = 0.040
"""Opening below which the gripper has begun to close (a grasp opens it to 44 mm)."""
_EMPTY_M = 0.016
"""Opening below which nothing of a 24 mm cube can be between the fingers."""
_STALLED_M_S = 0.010
_LOST_M = 0.035
"""Distance from tool to cube beyond which a cube that should be in the gripper is not."""
_GRASP_OPENING_M = 0.044
_OPEN_M = 0.040
_LIFT_M = 0.09


class Phase(Enum):
    """What the script is at."""

    TRACK = "track"
    GRASP = "grasp"
    LIFT = "lift"
    RETREAT = "retreat"


class ScriptedPolicy:
    """See the module. Works on proprioception (gripper opening, tool position) and the truth about the cube."""

    source = Source.SCRIPTED
    is_oracle = True

    def __init__(self, robot: RobotModel, skills: SkillTable) -> None:
        self._kinematics = ArmKinematics(robot)
        self._skills = skills
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Start over; the script draws no random numbers."""
        self._phase = Phase.TRACK
        self._still = 0
        self._since_ns = 0
        self._last: tuple[int, F64] | None = None

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The next step of the script."""
        if truth is None:
            raise ValueError("the scripted policy is an oracle and needs the truth channel")
        estimate = self._estimate(state.stamp_ns, truth)
        if state.joints is not None:
            names, position, velocity = state.joints.names, state.joints.position, state.joints.velocity
            if names != COMMAND_JOINTS:
                position = reorder(names, position, COMMAND_JOINTS, "joint reading")
                velocity = reorder(names, velocity, COMMAND_JOINTS, "joint reading")
            self._advance(state.stamp_ns, position, velocity, estimate)
        primitive, params = self._action()
        return HybridAction(state.decision_id, state.stamp_ns, primitive, params, estimate, self.source)

    def state_hash(self) -> str:
        """Digest of the script's memory."""
        last = b"" if self._last is None else repr(self._last[0]).encode() + self._last[1].tobytes()
        return digest(self._phase.value.encode(), repr((self._still, self._since_ns)).encode(), last)

    def rng_hash(self) -> str:
        """Constant: nothing is drawn."""
        return "none"

    def _estimate(self, now_ns: int, truth: TruthSample) -> Estimate:
        """The truth as it stands, taken for the present; acceleration from two truths in a row."""
        acceleration = np.zeros(3)
        if self._last is not None and truth.ref.stamp_ns > self._last[0]:
            acceleration = (truth.v_base_cube - self._last[1]) / ((truth.ref.stamp_ns - self._last[0]) * 1e-9)
        self._last = (truth.ref.stamp_ns, truth.v_base_cube)
        return Estimate(now_ns, truth.p_base_cube, truth.v_base_cube, acceleration, 0.0, True)

    def _advance(self, now_ns: int, position: F64, velocity: F64, estimate: Estimate) -> None:
        tool = self._kinematics.tcp(position)
        gap = estimate.p_base_cube - tool
        opening, rate = 2.0 * float(position[-1]), 2.0 * float(velocity[-1])
        if self._phase is Phase.TRACK:
            near = math.hypot(gap[0], gap[1]) < _ALIGNED_M and abs(gap[2] + _HOVER_M) < _HOVER_M / 2
            self._still = self._still + 1 if near else 0
            if self._still >= 2:
                self._go(Phase.GRASP, now_ns)
        elif self._phase is Phase.GRASP:
            stalled = opening < _CLOSING_M and abs(rate) < _STALLED_M_S
            self._still = self._still + 1 if stalled else 0
            if opening < _EMPTY_M:
                self._go(Phase.RETREAT, now_ns)
            elif self._still >= 3:
                self._go(Phase.LIFT, now_ns)
        elif self._phase is Phase.LIFT:
            late = now_ns - self._since_ns > 300_000_000
            if opening < _EMPTY_M or (late and math.sqrt(gap @ gap) > _LOST_M):
                self._go(Phase.RETREAT, now_ns)
        elif opening > _OPEN_M:
            self._go(Phase.TRACK, now_ns)

    def _go(self, phase: Phase, now_ns: int) -> None:
        self._phase, self._still, self._since_ns = phase, 0, now_ns

    def _action(self) -> tuple[Primitive, F64]:
        if self._phase is Phase.TRACK:
            return Primitive.TRACK, self._skills.clipped(Primitive.TRACK, height=_HOVER_M, opening=_GRASP_OPENING_M)
        if self._phase is Phase.GRASP:
            return Primitive.GRASP, self._skills[Primitive.GRASP].default
        if self._phase is Phase.LIFT:
            return Primitive.LIFT, self._skills.clipped(Primitive.LIFT, height=_LIFT_M)
        return Primitive.RETREAT, self._skills[Primitive.RETREAT].default
