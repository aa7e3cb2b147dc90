"""The executor at 100 Hz: bounded set-points, lag compensation, determinism, and what each primitive does."""

from __future__ import annotations

import numpy as np
import pytest

from tether.assembly import robot, skills, task
from tether.contracts import (
    F64,
    TICK_NS,
    Command,
    Estimate,
    HybridAction,
    JointSample,
    Primitive,
    SampleRef,
    Source,
    Stream,
)
from tether.errors import InvalidInputError
from tether.motion.config import LagModel, load_motion_config
from tether.motion.executor import Executor
from tether.motion.kinematics import ArmKinematics
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS
from tether.world.servo import ServoBank

ARM = ArmKinematics(robot())
CONFIG = load_motion_config(resource_path("config", "motion.yaml"))
START = np.array([task("pick").start[name] for name in COMMAND_JOINTS])
LAG = LagModel(0.030, 0.100)


class Plant:
    """Servos alone: no contacts, no gravity. Enough to close the loop around the executor."""

    def __init__(self, lag: LagModel = LAG, executor_lag: LagModel = LAG) -> None:
        self.executor = Executor(robot(), skills(), CONFIG, executor_lag)
        self.servo = ServoBank(ARM.velocity_limit)
        self.servo.configure(lag.dead_time_s, lag.time_constant_s)
        self.servo.reset(START)
        self.tick = 0
        self.rate: F64 = np.zeros(len(COMMAND_JOINTS))
        self.commands: list[Command] = []

    def reading(self) -> JointSample:
        ref = SampleRef(Stream.JOINTS, self.tick * TICK_NS, self.tick)
        return JointSample(ref, COMMAND_JOINTS, self.servo.position.copy(), self.rate)

    def run(self, primitive: Primitive, ticks: int, estimate: Estimate | None = None, **params: float) -> F64:
        """Returns the tcp after each tick, (ticks, 3). The estimate stands for a cube that is where it says."""
        path = []
        for _ in range(ticks):
            now = self.tick * TICK_NS
            seen = estimate if estimate is not None else Estimate.none(now)
            action = HybridAction(0, now, primitive, skills().clipped(primitive, **params), seen, Source.OPERATOR)
            command = self.executor.tick(now, self.reading(), None, action)
            assert command is not None
            self.commands.append(command)
            before = self.servo.position.copy()
            self.servo.advance(command.position)
            self.rate = (self.servo.position - before) / (TICK_NS * 1e-9)
            self.tick += 1
            path.append(ARM.tcp(self.servo.position))
        return np.array(path)


def _cube(stamp_ns: int, p: tuple[float, float, float], v: tuple[float, float, float] = (0, 0, 0)) -> Estimate:
    return Estimate(stamp_ns, np.array(p), np.array(v, dtype=float), np.zeros(3), 0.0, True)


def _circle(now_ns: int) -> Estimate:
    w, r = 4.4, 0.045
    a = w * now_ns * 1e-9
    p = np.array([0.245 + r * np.cos(a), r * np.sin(a), 0.012])
    v = r * w * np.array([-np.sin(a), np.cos(a), 0.0])
    acc = -r * w**2 * np.array([np.cos(a), np.sin(a), 0.0])
    return Estimate(now_ns, p, v, acc, 0.0, True)


def test_nothing_is_commanded_before_a_reading_and_an_action_have_come() -> None:
    executor = Executor(robot(), skills(), CONFIG, LAG)
    action = HybridAction(0, 0, Primitive.HOLD, np.zeros(0), Estimate.none(0), Source.OPERATOR)
    assert executor.tick(0, None, None, action) is None
    assert executor.tick(0, Plant().reading(), None, None) is None


def test_hold_keeps_the_joints_where_they_are() -> None:
    plant = Plant()
    plant.run(Primitive.HOLD, 100)
    np.testing.assert_allclose(plant.servo.position, START, atol=2e-3)


@pytest.mark.parametrize("primitive", [p for p in Primitive if p is not Primitive.DRIVE])
def test_set_points_never_move_faster_or_further_than_the_joints_may(primitive: Primitive) -> None:
    plant = Plant()
    plant.run(Primitive.HOLD, 5)
    for k in range(30):
        cube = _cube(plant.tick * TICK_NS, (0.2 + 0.09 * (k % 2), 0.15 * (-1) ** k, 0.012), (0.3, -0.3, 0.0))
        plant.run(primitive, 5, cube)
    positions = np.array([c.position for c in plant.commands])
    steps = np.abs(np.diff(positions, axis=0)) / (TICK_NS * 1e-9)
    assert (steps <= ARM.velocity_limit + 1e-9).all()
    assert (positions >= ARM.lower).all() and (positions <= ARM.upper).all()
    assert all((np.abs(c.velocity) <= ARM.velocity_limit).all() for c in plant.commands)


def test_track_follows_a_cube_on_a_circle_at_0_2_m_s_within_3_mm_under_the_real_lag() -> None:
    plant = Plant()
    errors = []
    for _ in range(80):
        now = plant.tick * TICK_NS
        path = plant.run(Primitive.TRACK, 5, _circle(now))
        truth = _circle(plant.tick * TICK_NS).p_base_cube
        errors.append(path[-1] - truth - [0.0, 0.0, 0.06])
    assert np.linalg.norm(np.array(errors[30:]), axis=1).max() < 0.003


def test_without_lead_compensation_the_same_circle_is_missed_by_more_than_the_gripper_forgives() -> None:
    plant = Plant(executor_lag=LagModel(0.0, 0.0))
    errors = []
    for _ in range(80):
        path = plant.run(Primitive.TRACK, 5, _circle(plant.tick * TICK_NS))
        errors.append(path[-1] - _circle(plant.tick * TICK_NS).p_base_cube - [0.0, 0.0, 0.06])
    assert np.median(np.linalg.norm(np.array(errors[30:]), axis=1)) > 0.010


def test_reach_arrives_at_its_point_and_faster_when_told_so() -> None:
    goal = {"x": 0.24, "y": 0.06, "z": 0.10}
    arrivals = []
    for speed in (0.2, 1.0):
        plant = Plant()
        path = plant.run(Primitive.REACH, 300, None, **goal, speed=speed)
        gap = np.linalg.norm(path - list(goal.values()), axis=1)
        assert gap[-1] < 1e-3
        arrivals.append(int(np.argmax(gap < 5e-3)))
    assert arrivals[1] < 0.6 * arrivals[0]


def test_grasp_goes_down_only_when_above_the_cube_then_closes() -> None:
    plant = Plant()
    cube = (0.25, 0.05, 0.012)
    phases, low_while_away = [], []
    for _ in range(60):
        path = plant.run(Primitive.GRASP, 5, _cube(plant.tick * TICK_NS, cube))
        phases.append(plant.executor.phase)
        away = np.hypot(path[-1][0] - cube[0], path[-1][1] - cube[1])
        if away > 0.02:
            low_while_away.append(path[-1][2])
    assert min(low_while_away) > 0.012 + 0.02
    assert [p for i, p in enumerate(phases) if i == 0 or phases[i - 1] != p] == ["align", "descend", "close", "gripped"]
    assert plant.servo.position[-1] < 0.001
    np.testing.assert_allclose(path[-1], cube, atol=2e-3)


def test_lift_raises_the_closed_gripper_and_retreat_opens_it_before_it_rises() -> None:
    plant = Plant()
    plant.run(Primitive.REACH, 200, None, x=0.24, y=0.0, z=0.02, opening=0.0)
    low = ARM.tcp(plant.servo.position)[2]
    up = plant.run(Primitive.LIFT, 150, None, height=0.08)
    assert up[-1][2] == pytest.approx(low + 0.08, abs=2e-3)
    assert plant.servo.position[-1] < 1e-3
    path = plant.run(Primitive.RETREAT, 15, None, height=0.16)
    assert path[-1][2] == pytest.approx(low + 0.08, abs=3e-3)
    plant.run(Primitive.RETREAT, 250, None, height=0.16)
    assert 2 * plant.servo.position[-1] == pytest.approx(CONFIG.opening_m, abs=1e-3)
    assert ARM.tcp(plant.servo.position)[2] == pytest.approx(0.16, abs=3e-3)


def test_place_lowers_over_its_point_and_opens() -> None:
    plant = Plant()
    plant.run(Primitive.REACH, 200, None, x=0.22, y=0.0, z=0.10, opening=0.0)
    path = plant.run(Primitive.PLACE, 300, None, x=0.25, y=-0.05, z=0.03)
    np.testing.assert_allclose(path[-1], [0.25, -0.05, 0.03], atol=2e-3)
    assert 2 * plant.servo.position[-1] == pytest.approx(CONFIG.opening_m, abs=1e-3)


def test_only_drive_moves_the_base_and_the_next_primitive_stops_it() -> None:
    plant = Plant()
    plant.run(Primitive.DRIVE, 3, None, vx=0.1, wz=-0.4)
    assert plant.commands[-1].base_twist.tolist() == [0.1, 0.0, -0.4]
    plant.run(Primitive.LOOK, 1)
    assert plant.commands[-1].base_twist.tolist() == [0.0, 0.0, 0.0]


def test_a_lost_object_stops_track_and_grasp() -> None:
    for primitive in (Primitive.TRACK, Primitive.GRASP):
        plant = Plant()
        plant.run(primitive, 30, _cube(0, (0.25, 0.0, 0.012), (0.2, 0.0, 0.0)))
        path = plant.run(primitive, 100, None)
        assert np.abs(path[-1] - path[-20]).max() < 1e-4


def test_same_inputs_same_commands_and_hashes() -> None:
    def once() -> tuple[list[bytes], list[str]]:
        plant, hashes = Plant(), []
        for k in range(40):
            plant.run(Primitive.TRACK if k < 20 else Primitive.GRASP, 5, _circle(plant.tick * TICK_NS))
            hashes.append(plant.executor.state_hash())
        return [c.position.tobytes() for c in plant.commands], hashes

    first, second = once(), once()
    assert first == second
    assert len(set(first[1])) > 30


def test_readings_are_taken_by_name_and_missing_and_extra_joints_are_named() -> None:
    plant = Plant()
    order = [3, 0, 5, 1, 4, 2]
    reading = plant.reading()
    mixed = JointSample(
        reading.ref,
        tuple(COMMAND_JOINTS[i] for i in order),
        reading.position[order],
        reading.velocity[order],
    )
    action = HybridAction(0, 0, Primitive.HOLD, np.zeros(0), Estimate.none(0), Source.OPERATOR)
    command = plant.executor.tick(0, mixed, None, action)
    assert command is not None
    np.testing.assert_allclose(command.position, START, atol=2e-3)
    short = JointSample(reading.ref, COMMAND_JOINTS[:-1], reading.position[:-1], reading.velocity[:-1])
    with pytest.raises(InvalidInputError, match="missing: gripper"):
        plant.executor.tick(0, short, None, action)
    more = JointSample(
        reading.ref, (*COMMAND_JOINTS, "wheel_left"), np.append(reading.position, 9.0), np.append(reading.velocity, 9.0)
    )
    with pytest.raises(InvalidInputError, match="extra: wheel_left"):
        plant.executor.tick(0, more, None, action)
