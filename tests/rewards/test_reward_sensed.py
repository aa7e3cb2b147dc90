"""The physical robot's rewards: the same subgoals from fingers, joints and pictures, against the world's state."""

from __future__ import annotations

import numpy as np
import pytest

from tether.assembly import robot, task
from tether.contracts import (
    CameraModel,
    Command,
    Estimate,
    ExecutedCommand,
    ImageFeature,
    JointSample,
    SampleRef,
    Source,
    Stream,
)
from tether.fusion.box_model import BoxModel
from tether.motion.kinematics import ArmKinematics
from tether.rewards.agreement import agreements, judge_episodes
from tether.rewards.build import make_ledger, make_sensed_state, reward_config
from tether.rewards.config import ORDER, Subgoal
from tether.rewards.fingers import Fingers
from tether.rewards.measured import Measured
from tether.robot.roles import COMMAND_JOINTS

TICK = 10_000_000
CAMERA = CameraModel(320, 240, np.array([[243.0, 0.0, 160.0], [0.0, 243.0, 120.0], [0.0, 0.0, 1.0]]))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sensors_agree_with_the_worlds_state_under_the_real_profile() -> None:
    found = agreements(judge_episodes("classic", "pick_moving", "real", range(2)))
    for subgoal in ORDER:
        assert found[subgoal].share == 1.0, subgoal
        assert found[subgoal].both == 2
    for subgoal in (Subgoal.ALIGNED, Subgoal.LIFTED, Subgoal.KEPT):
        assert max(abs(late) for late in found[subgoal].late_ms) <= 60.0, subgoal
    for subgoal in (Subgoal.TOUCHED, Subgoal.HELD):
        assert max(abs(late) for late in found[subgoal].late_ms) <= 400.0, subgoal


class Robot:
    """Readings of an arm that grips at a point and rises, one a tick."""

    def __init__(self) -> None:
        self.kinematics = ArmKinematics(robot())
        self.box = BoxModel(robot(), "camera_optical_frame", task("pick").cube.side_m)
        self.sensed = make_sensed_state("pick")
        self.ledger = make_ledger("pick")
        self.tick = 0
        self.measured: list[Measured] = []
        self.paid: list[Subgoal] = []

    def run(self, ticks: int, height_m: float, opening_m: float, commanded_m: float, seen_at: str) -> None:
        for _ in range(ticks):
            stamp_ns = 1_000_000_000 + self.tick * TICK
            tool = np.array([0.24, 0.0, height_m])
            q, _ = self.kinematics.inverse(tool, np.zeros(3), -0.75)
            position = np.append(q, opening_m / 2)
            reading = JointSample(SampleRef(Stream.JOINTS, stamp_ns, self.tick), COMMAND_JOINTS, position, position * 0)
            self.sensed.take_joints(reading)
            command = Command(
                self.tick,
                stamp_ns,
                0,
                Source.GATE,
                COMMAND_JOINTS,
                np.append(q, commanded_m / 2),
                position * 0,
                np.zeros(3),
            )
            self.sensed.take_executed(ExecutedCommand(SampleRef(Stream.EXECUTED, stamp_ns, self.tick), command, False))
            cube = np.array([0.24, 0.0, 0.012])
            if self.tick % 5 == 0:
                self.sensed.take_estimate(Estimate(stamp_ns, cube, np.zeros(3), np.zeros(3), 0.002, True))
            if self.tick % 3 == 0 and seen_at != "nowhere":
                edges = self.box.edges_of(tool if seen_at == "tool" else cube, CAMERA)
                assert edges is not None
                row = np.array([[*edges, 0.9, 0.0]], np.float32)
                self.sensed.take_picture(ImageFeature(SampleRef(Stream.CAMERA, stamp_ns, self.tick), CAMERA, row))
            self.tick += 1
            self._judge(self.sensed.ready(stamp_ns))

    def end(self) -> None:
        self._judge(self.sensed.rest())

    def _judge(self, measured: list[Measured]) -> None:
        self.measured += measured
        self.paid += [payment.subgoal for one in measured for payment in self.ledger.judge(one)]


def pick(seen_at: str) -> Robot:
    arm = Robot()
    arm.run(20, 0.06, 0.044, 0.044, "ground")
    for opening in np.linspace(0.044, 0.0225, 60):
        arm.run(1, 0.012, float(opening), 0.0, "ground")
    arm.run(40, 0.012, 0.0225, 0.0, "ground")
    for height in np.linspace(0.012, 0.09, 40):
        arm.run(1, float(height), 0.0225, 0.0, seen_at)
    arm.run(130, 0.09, 0.0225, 0.0, seen_at)
    arm.end()
    return arm


@pytest.mark.parametrize("seen_at", ["tool", "nowhere"])
def test_a_pick_pays_all_five_whether_or_not_the_camera_sees_the_cube_between_the_fingers(seen_at: str) -> None:
    assert pick(seen_at).paid == list(ORDER)


def test_a_cube_that_the_camera_sees_on_the_ground_was_not_lifted() -> None:
    assert pick("ground").paid == [Subgoal.ALIGNED, Subgoal.TOUCHED, Subgoal.HELD]


def test_fingers_that_close_on_nothing_hold_nothing() -> None:
    arm = Robot()
    arm.run(20, 0.06, 0.044, 0.044, "ground")
    for opening in np.linspace(0.044, 0.002, 100):
        arm.run(1, 0.012, float(opening), 0.0, "ground")
    arm.run(60, 0.012, 0.002, 0.0, "ground")
    for height in np.linspace(0.012, 0.09, 40):
        arm.run(1, float(height), 0.002, 0.0, "nowhere")
    arm.run(130, 0.09, 0.002, 0.0, "nowhere")
    arm.end()
    assert arm.paid == [Subgoal.ALIGNED]


def test_a_moment_is_judged_once_its_pictures_can_have_come() -> None:
    arm = Robot()
    arm.run(60, 0.06, 0.044, 0.044, "ground")
    settle_ns = round(reward_config().sensed.settle_s * 1e9)
    newest_ns = 1_000_000_000 + 59 * TICK
    assert arm.measured[-1].stamp_ns == newest_ns - settle_ns
    arm.end()
    assert arm.measured[-1].stamp_ns == newest_ns
    assert len(arm.measured) == 60, "every reading, once"


def test_slow_closing_is_told_from_standing_still_through_the_encoders_noise() -> None:
    config = reward_config().sensed
    rng = np.random.default_rng(0)
    noise = 2.0 * 0.0002
    moving, still = Fingers(config), Fingers(config)
    wrong = 0
    for i in range(60):
        wrong += moving.take(i * TICK, 0.036 - 0.022 * 0.01 * i + noise * float(rng.standard_normal()))
    assert wrong == 0, "22 mm/s is the gripper's own speed"
    felt = [still.take(i * TICK, 0.0225 + noise * float(rng.standard_normal())) for i in range(200)]
    assert np.mean(felt[14:]) > 0.98
