"""The executor: runs the chosen primitive at 100 Hz and turns the tool's reference into a joint command.

The servos' nominal lag is undone in two ways: the reference is planned for the moment at which a command takes effect
(dead time), and each set-point leads by time constant x velocity, which makes a first-order lag follow a ramp without
error. What is left of it comes from accelerations and from a lag other than the nominal one.
"""

from __future__ import annotations

import hashlib

import numpy as np

from tether.contracts import F64, TICK_NS, Command, HybridAction, ImuSample, JointSample, Primitive
from tether.motion.config import LagModel, MotionConfig
from tether.motion.kinematics import ArmKinematics
from tether.motion.primitives import DT_S, MOTIONS, Motion, Reference, View
from tether.robot.model import RobotModel, reorder
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable

_RATE_SHARE = 0.98
"""Set-points move at most at this share of the joints' velocity limits, so that the gate never has to hold them."""


class Executor:
    """Deterministic given the sequence of `tick` arguments since `reset`. One per robot."""

    def __init__(self, robot: RobotModel, skills: SkillTable, config: MotionConfig, lag: LagModel) -> None:
        self._kinematics = ArmKinematics(robot)
        self._skills = skills
        self._config = config
        self._lag = lag
        # A command of this tick is held for the next 10 ms: on average it takes effect half a tick later.
        self._lag_s = lag.dead_time_s + 0.5 * DT_S
        self._step_max = self._kinematics.velocity_limit * (_RATE_SHARE * DT_S)
        self.reset()

    joint_names = COMMAND_JOINTS

    def reset(self) -> None:
        """Forget everything; the next tick with a joint reading starts from where the joints are."""
        self._reference: Reference | None = None
        self._motion: Motion | None = None
        self._primitive: Primitive | None = None
        self._setpoint: F64 = np.zeros(len(COMMAND_JOINTS))
        self._still: F64 | None = None

    @property
    def phase(self) -> str:
        """Phase of the running primitive, for logs and plots."""
        return self._motion.phase if self._motion is not None else "idle"

    def tick(
        self, now_ns: int, joints: JointSample | None, imu: ImuSample | None, action: HybridAction | None
    ) -> Command | None:
        """The command for the tick that starts at `now_ns`; None while there is neither reading nor action.

        joints: the newest reading; imu is taken for primitives that want it and is not used by the present ones.
        """
        if joints is None or action is None:
            return None
        measured = self._by_name(joints)
        if self._reference is None:
            self._start(measured)
        reference = self._reference
        if reference is None:
            raise AssertionError("the reference exists once a reading has come")
        view = self._view(now_ns, joints, measured, action)
        if self._motion is None or action.primitive is not self._primitive:
            self._motion = MOTIONS[action.primitive]()
            self._primitive = action.primitive
            self._motion.enter(view, reference)
        self._motion.tick(view, reference)
        rates = self._lead(reference)
        return Command(
            tick=now_ns // TICK_NS,
            stamp_ns=now_ns,
            decision_id=action.decision_id,
            source=action.source,
            joint_names=COMMAND_JOINTS,
            position=self._setpoint.copy(),
            velocity=rates,
            base_twist=reference.twist.copy(),
        )

    def state_hash(self) -> str:
        """Hex digest of everything the next command depends on besides its inputs."""
        parts = [self._setpoint.tobytes(), str(self._primitive).encode(), self.phase.encode()]
        if self._reference is not None:
            r = self._reference
            parts += [r.p.tobytes(), r.v.tobytes(), r.relative_v.tobytes(), repr(r.opening).encode(), r.twist.tobytes()]
        if self._motion is not None:
            parts.append(repr(sorted((k, repr(v)) for k, v in vars(self._motion).items())).encode())
        return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]

    def _by_name(self, joints: JointSample) -> tuple[F64, F64]:
        if joints.names == COMMAND_JOINTS:
            return joints.position, joints.velocity
        position = reorder(joints.names, joints.position, COMMAND_JOINTS, "joint reading")
        return position, reorder(joints.names, joints.velocity, COMMAND_JOINTS, "joint reading")

    def _start(self, measured: tuple[F64, F64]) -> None:
        position = measured[0]
        self._setpoint = np.minimum(np.maximum(position, self._kinematics.lower), self._kinematics.upper)
        self._reference = Reference(p=self._kinematics.tcp(position), opening=2.0 * float(position[-1]))

    def _view(self, now_ns: int, joints: JointSample, measured: tuple[F64, F64], action: HybridAction) -> View:
        position, velocity = measured
        return View(
            now_ns=now_ns,
            measured_ns=joints.ref.stamp_ns,
            tool=self._kinematics.tcp(position),
            opening=2.0 * float(position[-1]),
            opening_rate=2.0 * float(velocity[-1]),
            lag_s=self._lag_s,
            estimate=action.estimate,
            params=action.params,
            spec=self._skills[action.primitive],
            config=self._config,
        )

    def _lead(self, reference: Reference) -> F64:
        """Move the set-point to where the lag will bring the joints onto the reference; returns the rates, (n,)."""
        q, rates = self._kinematics.inverse(reference.p, reference.v, self._config.grip_yaw_rad)
        wanted = np.empty(len(COMMAND_JOINTS))
        wanted[:5] = q + self._lag.time_constant_s * rates
        wanted[5] = 0.5 * reference.opening
        k = self._kinematics
        step = np.minimum(np.maximum(wanted - self._setpoint, -self._step_max), self._step_max)
        self._setpoint = np.minimum(np.maximum(self._setpoint + step, k.lower), k.upper)
        velocity = np.zeros(len(COMMAND_JOINTS))
        velocity[:5] = rates
        limited: F64 = np.minimum(np.maximum(velocity, -k.velocity_limit), k.velocity_limit)
        return limited
