"""The gate's stage: armed by itself in simulated worlds only, and no command before it knows the joints."""

from __future__ import annotations

import numpy as np
import pytest

from tether.assembly import make_gate_stage
from tether.contracts import TICK_NS, Command, ImuSample, JointSample, Mode, SampleRef, Source, Stream
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.stage import GateInputs, GateStage, for_world

START_NS = 1_000_000_000
REST = np.array([0.0, 0.6, 1.2, 0.9, 0.0, 0.02])


def joints(stamp_ns: int) -> JointSample:
    return JointSample(SampleRef(Stream.JOINTS, stamp_ns, 0), COMMAND_JOINTS, REST, np.zeros(6))


def imu(stamp_ns: int, number: int) -> ImuSample:
    noise = 1e-3 * np.random.default_rng(number).standard_normal(6)
    gravity = np.array([0.0, 0.0, 9.81])
    return ImuSample(SampleRef(Stream.IMU, stamp_ns, number), noise[:3], np.add(noise[3:], gravity))


@pytest.fixture
def stage() -> GateStage:
    made = make_gate_stage("scripted")
    made.reset()
    return made


def test_world_gets_no_command_before_the_gate_knows_the_joints(stage: GateStage) -> None:
    assert for_world(stage.tick(0, START_NS, START_NS)) is None
    stage.take(START_NS + TICK_NS, START_NS + TICK_NS, GateInputs(joints=[joints(START_NS + TICK_NS)]))
    command = for_world(stage.tick(1, START_NS + TICK_NS, START_NS + TICK_NS))
    assert command is not None
    assert command.joint_names == COMMAND_JOINTS
    assert np.abs(command.position - REST).max() < 1e-9, "it stays where the joints are"


def test_command_carries_the_tick_and_stamp_it_was_asked_for(stage: GateStage) -> None:
    stage.take(5 * START_NS, START_NS, GateInputs(joints=[joints(START_NS)]))
    output = stage.tick(17, 5 * START_NS, START_NS)
    assert (output.command.tick, output.command.stamp_ns) == (17, START_NS)


@pytest.mark.parametrize("physical", [False, True])
def test_simulated_world_arms_by_itself_and_a_robot_waits_for_a_person(physical: bool) -> None:
    made = make_gate_stage("scripted", physical=physical)
    made.reset()
    modes = set()
    for tick in range(100):
        now_ns = START_NS + tick * TICK_NS
        made.take(now_ns, now_ns, GateInputs(joints=[joints(now_ns)], imu=[imu(now_ns, tick)]))
        modes.add(made.tick(tick, now_ns, now_ns).mode)
    assert modes == ({Mode.INIT} if physical else {Mode.ARMED})


def test_command_that_is_not_finite_moves_nothing(stage: GateStage) -> None:
    held = REST
    for tick in range(60):
        now_ns = START_NS + tick * TICK_NS
        bad = np.full(6, np.nan)
        command = Command(tick, now_ns, 0, Source.CLASSIC, COMMAND_JOINTS, bad, bad, np.full(3, np.inf))
        stage.take(now_ns, now_ns, GateInputs(joints=[joints(now_ns)], proposed=[command]))
        output = stage.tick(tick, now_ns, now_ns)
        assert np.isfinite(output.command.position).all()
        assert np.abs(output.command.position - held).max() < 1e-9
        assert not output.command.base_twist.any()
