"""A gate with its surroundings: sensors that work, a clock, and an auditor that looks at every output."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from tether.contracts import (
    TICK_NS,
    Command,
    GateOutput,
    ImuSample,
    JointSample,
    Mode,
    SampleRef,
    Source,
    Stream,
)
from tether.resources import resource_path
from tether.robot.model import RobotModel, load_robot
from tether.safety.audit import Auditor, step_of
from tether.safety.gate_model import GateModel
from tether.safety.settings import SERVO_HEALTH, Hardware, SafetySettings, load_safety
from tether.safety.supervisor import Supervisor

HOME = (0.0, -1.0, 1.6, 0.95, 0.0, 0.02)
"""Joint positions with the tool pointing down, 47 mm above the ground, clear of everything."""


class Rig:
    """Drives a gate tick by tick. Every output is audited; a violation fails the test at that tick."""

    def __init__(self, robot: RobotModel, settings: SafetySettings, *, physical: bool = False) -> None:
        self.settings = settings
        self.robot = robot
        self.model = GateModel.build(robot, settings, physical)
        self.gate = Supervisor(self.model)
        self.auditor = Auditor(robot, settings, self.model.joint_names)
        self.now_ns = 10 * TICK_NS
        self.q = np.array(HOME)
        self.v = np.zeros(len(HOME))
        self.accel = np.array([0.0, 0.0, 9.81])
        self.streams = {Stream.JOINTS, Stream.IMU, Stream.CAMERA}
        self.stamp_age_ns = 2_000_000
        self.count = 0
        self.violations: list[str] = []
        self.home = HOME
        self.follows = True

    def sense(self) -> None:
        """One fresh sample of every stream in `streams`."""
        self.count += 1
        stamp_ns = self.now_ns - self.stamp_age_ns
        if Stream.JOINTS in self.streams:
            ref = SampleRef(Stream.JOINTS, stamp_ns, self.count)
            self.gate.on_joints(JointSample(ref, self.model.joint_names, self.q, self.v), self.now_ns)
        if Stream.IMU in self.streams:
            ref = SampleRef(Stream.IMU, stamp_ns, self.count)
            self.gate.on_imu(ImuSample(ref, np.zeros(3), self.accel), self.now_ns)
        if Stream.CAMERA in self.streams:
            self.gate.on_stream(SampleRef(Stream.CAMERA, stamp_ns, self.count), self.now_ns)

    def command(self, q: object = None, twist: object = (0.0, 0.0, 0.0), **changes: object) -> Command:
        """A command; by default to stay at HOME."""
        position = np.array(HOME if q is None else q, dtype=np.float64)
        made = Command(
            tick=self.count,
            stamp_ns=self.now_ns,
            decision_id=self.count // 5,
            source=Source.CLASSIC,
            joint_names=self.model.joint_names,
            position=position,
            velocity=np.zeros(len(position)),
            base_twist=np.array(twist, dtype=np.float64),
        )
        return dataclasses.replace(made, **changes)

    def propose(self, q: object = None, twist: object = (0.0, 0.0, 0.0), **changes: object) -> None:
        self.gate.propose(self.command(q, twist, **changes), self.now_ns)

    def tick(self, after_ns: int = TICK_NS) -> GateOutput:
        """Let time pass and tick; the output is audited."""
        self.now_ns += after_ns
        output = self.gate.tick(self.now_ns)
        self.violations = self.auditor.feed(output.command, step_of(output))
        assert not self.violations, (self.violations, output)
        if self.follows and output.command.joint_names:
            self.q = output.command.position
        return output

    def run(self, ticks: int, q: object = None, twist: object = (0.0, 0.0, 0.0), **changes: object) -> GateOutput:
        """So many ticks with working sensors and a fresh command each."""
        for _ in range(ticks):
            self.sense()
            self.propose(q, twist, **changes)
            output = self.tick()
        return output

    def active(self) -> Rig:
        """Armed and active at HOME."""
        self.gate.arm("test")
        assert self.run(3).mode is Mode.ACTIVE
        return self

    def active_at(self, q: object) -> Rig:
        """Armed with the joints at `q`, commanded to stay there."""
        self.gate.arm("test")
        self.run(3, q)
        return self

    def still(self, output: GateOutput) -> bool:
        """Nothing moves."""
        return self.gate._arm.standstill() and not output.command.base_twist.any()


@pytest.fixture(scope="session")
def robot() -> RobotModel:
    return load_robot(resource_path("urdf", "tether_rover.urdf.xacro"))


@pytest.fixture(scope="session")
def safety_settings() -> SafetySettings:
    """As in a simulated world, whose servos tell nothing of their health."""
    return load_safety(resource_path("config", "safety.yaml")).lacking(*SERVO_HEALTH)


@pytest.fixture
def make_rig(robot: RobotModel, safety_settings: SafetySettings) -> Callable[..., Rig]:
    def make(*lacking: Hardware, **changes: object) -> Rig:
        return Rig(robot, dataclasses.replace(safety_settings.lacking(*lacking), **changes))

    return make


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()
