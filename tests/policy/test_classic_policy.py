"""The hand-written sequence of `classic`, from states made by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tether.assembly import robot, skill_of_task, skills
from tether.contracts import (
    F64,
    Estimate,
    FusedState,
    JointSample,
    Primitive,
    SampleRef,
    Stream,
    TruthSample,
)
from tether.errors import InvalidInputError
from tether.fusion.classic import load_classic_config
from tether.motion.kinematics import ArmKinematics
from tether.policy.classic import ClassicPolicy, Step
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS

CONFIG = load_classic_config(resource_path("config", "classic.yaml"))
KINEMATICS = ArmKinematics(robot())
CUBE = np.array([0.25, 0.02, 0.012])
HOVER = CUBE + np.array([0.0, 0.0, CONFIG.decision.hover_m])
DECISION_NS = 50_000_000
OPEN, HELD, SHUT = 0.044, 0.024, 0.002


class Script:
    """Feeds a policy decision by decision; what is not given stays as it was."""

    def __init__(self) -> None:
        self.policy = ClassicPolicy(robot(), skills(), CONFIG)
        self.id = 0
        self.tool: F64 = HOVER
        self.opening = OPEN
        self.sigma_m = 0.002
        self.cube: F64 | None = CUBE
        self.mask = np.ones(len(Primitive), np.bool_)

    def state(self) -> FusedState:
        now_ns = 1_000_000_000 + self.id * DECISION_NS
        q, _ = KINEMATICS.inverse(self.tool, np.zeros(3), 0.0)
        position = np.append(q, self.opening / 2.0)
        estimate = Estimate.none(now_ns)
        if self.cube is not None:
            estimate = Estimate(now_ns, self.cube, np.zeros(3), np.zeros(3), self.sigma_m, True)
        return FusedState(
            decision_id=self.id,
            stamp_ns=now_ns,
            used=(),
            age_ns={},
            estimate=estimate,
            joints=JointSample(SampleRef(Stream.JOINTS, now_ns, self.id), COMMAND_JOINTS, position, np.zeros(6)),
            imu_window=np.zeros((6, 0)),
            detections=np.zeros((0, 6), np.float32),
            features=np.zeros(0, np.float32),
            skill=dataclasses.replace(skill_of_task("pick"), primitive_mask=self.mask),
        )

    def run(self, decisions: int = 1) -> list[Primitive]:
        """Primitives chosen; each is checked against the skill table."""
        chosen = []
        for _ in range(decisions):
            action = self.policy.decide(self.state(), None)
            skills().checked(action.primitive, action.params)
            chosen.append(action.primitive)
            self.id += 1
        return chosen

    def close_on(self, opening: float) -> list[Primitive]:
        """From above the cube into a grasp that ends with the fingers `opening` apart."""
        self.opening, self.tool = OPEN, HOVER
        self.run(6)
        assert self.policy.step is Step.GRASP
        self.tool, self.opening = CUBE, opening
        return self.run(6)


def test_unseen_cube_is_looked_for_and_then_the_arm_clears_the_view() -> None:
    script = Script()
    script.cube = None
    chosen = script.run(30)
    assert chosen[0] is Primitive.LOOK and chosen[-1] is Primitive.REACH


def test_seen_cube_is_followed_until_the_tool_stands_above_it() -> None:
    script = Script()
    script.tool = HOVER + np.array([-0.05, 0.0, 0.0])
    assert set(script.run(10)) == {Primitive.TRACK}
    script.tool = HOVER
    assert script.run(4)[-1] is Primitive.GRASP


def test_unsure_estimate_delays_the_grasp_but_not_for_ever() -> None:
    script = Script()
    script.sigma_m = 0.02
    patience = round(CONFIG.decision.patience_s / 0.05)
    chosen = script.run(patience + 5)
    assert Primitive.GRASP not in chosen[: patience - 2] and chosen[-1] is Primitive.GRASP


def test_fingers_stopped_by_the_cube_lift_it_and_stay_with_it() -> None:
    script = Script()
    assert script.close_on(HELD)[-1] is Primitive.LIFT
    script.tool = script.cube = CUBE + np.array([0.0, 0.0, 0.08])
    assert set(script.run(30)) == {Primitive.LIFT}


def test_fingers_that_close_on_nothing_open_rise_and_try_again() -> None:
    script = Script()
    assert script.close_on(SHUT)[-1] is Primitive.RETREAT
    script.opening = OPEN
    assert Primitive.TRACK in script.run(3)


def test_cube_that_slips_while_lifting_is_tried_again() -> None:
    script = Script()
    script.close_on(HELD)
    script.opening = SHUT
    assert script.run(2)[-1] is Primitive.RETREAT


def test_cube_seen_on_the_ground_while_lifting_is_tried_again() -> None:
    script = Script()
    script.close_on(HELD)
    script.tool, script.cube = CUBE + np.array([0.0, 0.0, 0.09]), CUBE
    assert script.run(10)[-1] is Primitive.RETREAT


def test_no_more_closings_than_the_task_allows() -> None:
    script = Script()
    for _ in range(CONFIG.decision.max_closings):
        script.close_on(SHUT)
    script.opening, script.tool = OPEN, HOVER
    assert set(script.run(40)) == {Primitive.RETREAT}


def test_estimate_lost_before_closing_ends_the_grasp() -> None:
    script = Script()
    script.run(4)
    script.cube = None
    assert script.run(1) == [Primitive.RETREAT]


def test_masked_primitive_becomes_hold() -> None:
    script = Script()
    script.mask[Primitive.TRACK] = False
    assert script.run(1) == [Primitive.HOLD]


def test_truth_is_refused() -> None:
    script = Script()
    state = script.state()
    ref = SampleRef(Stream.TRUTH, state.stamp_ns, 0)
    zero = np.zeros(3)
    truth = TruthSample(ref, zero, zero, zero, zero, np.zeros(6), np.zeros(6), False, 0.0)
    with pytest.raises(InvalidInputError, match="truth"):
        script.policy.decide(state, truth)


def test_reset_forgets_everything() -> None:
    script = Script()
    fresh = script.policy.state_hash()
    script.close_on(HELD)
    assert script.policy.state_hash() != fresh
    script.policy.reset(1)
    assert script.policy.state_hash() == fresh
