"""The policy `classic`: what a good engineer writes by hand on top of an estimate, from the sensors alone.

Look until the cube is found, follow it until the tool stands above it and the estimate is sure, grasp, lift, and ask
the fingers and the camera whether it came along. If not: open, rise, and try again, at most as often as a task allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tether.contracts import F64, FusedState, HybridAction, Primitive, Source, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.fusion.classic_config import ClassicConfig
from tether.fusion.grip import Grip, GripSense
from tether.motion.kinematics import ArmKinematics
from tether.policy.stage import digest
from tether.robot.model import RobotModel
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable


class Step(Enum):
    """What the policy is at."""

    LOOK = "look"
    CLEAR = "clear"
    """Nothing seen for long: the arm goes out of the camera's way."""
    TRACK = "track"
    GRASP = "grasp"
    LIFT = "lift"
    RETREAT = "retreat"
    GIVE_UP = "give up"


@dataclass(frozen=True, eq=False)
class _Body:
    """Proprioception of a decision: the tool (3,) in the base frame and what the fingers feel."""

    tool: F64
    grip: Grip


_CLEAR_POINT_M = (0.17, -0.12, 0.20)
_LOST_M = 0.035
"""Distance between tool and cube from which the cube is not between the fingers."""
_TRUST_AFTER_S = 0.3
"""So long after lifting begins, late pictures show the lift."""


class ClassicPolicy:
    """See the module and `tether.policy.protocol.Policy`. Draws no random numbers."""

    source = Source.CLASSIC
    is_oracle = False

    def __init__(self, robot: RobotModel, skills: SkillTable, config: ClassicConfig) -> None:
        self._kinematics = ArmKinematics(robot)
        self._skills = skills
        self._config = config.decision
        self._grip = GripSense(config.grip)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Start over."""
        self._grip.reset()
        self._step = Step.LOOK
        self._since_ns: int | None = None
        self._settled = 0
        self._closings = 0
        self._closed = False

    @property
    def step(self) -> Step:
        """What it is at, for logs and plots."""
        return self._step

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The action of this decision. Raises InvalidInputError where it is given the truth."""
        if truth is not None:
            fault = Fault("truth", "a sample of the world's true state", "nothing: this policy acts on sensors")
            raise InvalidInputError("classic policy", [fault], "turn the truth channel off")
        body = self._feel(state)
        if self._since_ns is None:
            self._since_ns = state.stamp_ns
        if body is not None:
            self._advance(state, body)
        primitive, params = self._action()
        if not state.skill.primitive_mask[primitive]:
            primitive, params = Primitive.HOLD, np.zeros(0)
        return HybridAction(state.decision_id, state.stamp_ns, primitive, params, state.estimate, self.source)

    def state_hash(self) -> str:
        """Digest of everything the next action depends on besides its inputs."""
        memory = (self._step.value, self._since_ns, self._settled, self._closings, self._closed)
        return digest(repr(memory).encode(), self._grip.dump())

    def rng_hash(self) -> str:
        """Constant: nothing is drawn."""
        return "none"

    def _feel(self, state: FusedState) -> _Body | None:
        joints = state.joints
        if joints is None:
            return None
        at = {name: i for i, name in enumerate(joints.names)}
        order = [at[name] for name in COMMAND_JOINTS]
        position = joints.position[order]
        grip = self._grip.take(joints.ref.stamp_ns, 2.0 * float(position[-1]))
        return _Body(self._kinematics.tcp(position), grip)

    def _advance(self, state: FusedState, body: _Body) -> None:
        """From one step to the next."""
        now_ns, estimate = state.stamp_ns, state.estimate
        if self._step in (Step.LOOK, Step.CLEAR, Step.TRACK):
            if not estimate.valid:
                blind = self._step is not Step.TRACK and self._for_s(now_ns) > self._config.blind_s
                self._go(Step.CLEAR if blind or self._step is Step.CLEAR else Step.LOOK, now_ns)
                return
            if self._step is not Step.TRACK:
                self._go(Step.TRACK, now_ns)
            self._settled = self._settled + 1 if self._above(state, body) else 0
            out_of_patience = self._for_s(now_ns) > self._config.patience_s
            if self._settled >= self._config.settle_decisions or out_of_patience:
                self._closed = False
                self._go(Step.GRASP, now_ns)
        elif self._step is Step.GRASP:
            self._grasping(state, body)
        elif self._step is Step.LIFT:
            late = self._for_s(now_ns) > _TRUST_AFTER_S
            gone = late and estimate.valid and float(np.linalg.norm(estimate.p_base_cube - body.tool)) > _LOST_M
            if body.grip in (Grip.EMPTY, Grip.OPEN) or gone:
                self._try_again(now_ns)
        elif self._step is Step.RETREAT and body.grip is Grip.OPEN:
            self._go(Step.LOOK, now_ns)

    def _grasping(self, state: FusedState, body: _Body) -> None:
        """Fingers that stopped on something: lift. Closed on nothing, or never closed: again."""
        now_ns = state.stamp_ns
        if body.grip is not Grip.OPEN and not self._closed:
            self._closed = True
            self._closings += 1
        if body.grip is Grip.HOLDING:
            self._go(Step.LIFT, now_ns)
        elif body.grip is Grip.EMPTY:
            self._try_again(now_ns)
        elif not self._closed and (not state.estimate.valid or self._for_s(now_ns) > self._config.grasp_limit_s):
            self._go(Step.RETREAT, now_ns)

    def _above(self, state: FusedState, body: _Body) -> bool:
        """Whether the tool stands above the cube and the estimate is sure enough."""
        gap = state.estimate.p_base_cube - body.tool
        config = self._config
        return (
            math.hypot(gap[0], gap[1]) < config.aligned_m
            and abs(gap[2] + config.hover_m) < config.level_m
            and state.estimate.sigma_m < config.sure_m
        )

    def _try_again(self, now_ns: int) -> None:
        """Open and rise; after the last closing that a task allows, for good."""
        self._go(Step.RETREAT if self._closings < self._config.max_closings else Step.GIVE_UP, now_ns)

    def _go(self, step: Step, now_ns: int) -> None:
        if step is not self._step:
            self._step, self._settled, self._since_ns = step, 0, now_ns

    def _for_s(self, now_ns: int) -> float:
        """How long the present step has lasted."""
        return 0.0 if self._since_ns is None else (now_ns - self._since_ns) * 1e-9

    def _action(self) -> tuple[Primitive, F64]:
        skills, config = self._skills, self._config
        if self._step is Step.LOOK:
            return Primitive.LOOK, skills[Primitive.LOOK].default
        if self._step is Step.CLEAR:
            x, y, z = _CLEAR_POINT_M
            return Primitive.REACH, skills.clipped(Primitive.REACH, x=x, y=y, z=z)
        if self._step is Step.TRACK:
            return Primitive.TRACK, skills.clipped(Primitive.TRACK, height=config.hover_m, opening=config.opening_m)
        if self._step is Step.GRASP:
            return Primitive.GRASP, skills.clipped(Primitive.GRASP, lead=config.lead_s)
        if self._step is Step.LIFT:
            return Primitive.LIFT, skills.clipped(Primitive.LIFT, height=config.lift_m, speed=config.lift_speed_m_s)
        return Primitive.RETREAT, skills.clipped(Primitive.RETREAT, height=config.retreat_m)
