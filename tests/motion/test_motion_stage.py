"""The motion stage goes by the newest readings and by no decision that has grown too old."""

from __future__ import annotations

import numpy as np

from tether.assembly import make_motion_stage, skills
from tether.contracts import (
    DECISION_NS,
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
from tether.robot.roles import COMMAND_JOINTS

START_NS = 1_000_000_000
REST = np.array([0.0, 0.6, 1.2, 0.9, 0.0, 0.02])


def joints(stamp_ns: int, offset: float = 0.0) -> JointSample:
    return JointSample(SampleRef(Stream.JOINTS, stamp_ns, 0), COMMAND_JOINTS, REST + offset, np.zeros(6))


def action(stamp_ns: int, decision_id: int = 0, primitive: Primitive = Primitive.HOLD) -> HybridAction:
    estimate = Estimate.none(stamp_ns)
    return HybridAction(decision_id, stamp_ns, primitive, skills()[primitive].default, estimate, Source.CLASSIC)


def test_nothing_is_proposed_before_a_reading_and_a_decision_have_come() -> None:
    stage = make_motion_stage("real")
    assert stage.tick(0, START_NS, [], [], action(START_NS), 0) is None
    assert stage.tick(1, START_NS + TICK_NS, [joints(START_NS)], [], None, 0) is None
    command = stage.tick(2, START_NS + 2 * TICK_NS, [], [], action(START_NS), 0)
    assert isinstance(command, Command)
    assert (command.tick, command.stamp_ns) == (2, START_NS + 2 * TICK_NS)


def test_decision_that_nobody_renews_is_followed_for_half_a_second_and_no_longer() -> None:
    stage = make_motion_stage("real")
    proposed = [
        stage.tick(tick, now_ns, [joints(now_ns)], [], action(START_NS), now_ns - START_NS) is not None
        for tick, now_ns in enumerate(range(START_NS, START_NS + 1_000_000_000, TICK_NS))
    ]
    assert proposed == [True] * 51 + [False] * 49
    fresh = action(START_NS + 1_000_000_000, decision_id=1)
    assert stage.tick(100, START_NS + 1_000_000_000, [], [], fresh, 0) is not None, "a new decision is followed again"
    assert DECISION_NS * 9 < 500_000_000


def test_late_reading_does_not_replace_a_newer_one() -> None:
    commands = []
    for late in ([], [joints(START_NS - 50_000_000, offset=0.1)]):
        stage = make_motion_stage("real")
        stage.tick(0, START_NS, [joints(START_NS)], [], action(START_NS), 0)
        commands.append(stage.tick(1, START_NS + TICK_NS, late, [], action(START_NS), 0))
    first, second = commands
    assert first is not None
    assert second is not None
    assert first.position.tobytes() == second.position.tobytes()


def test_reset_stage_starts_from_where_the_joints_are() -> None:
    stage = make_motion_stage("real")
    stage.tick(0, START_NS, [joints(START_NS)], [], action(START_NS), 0)
    stage.reset()
    assert stage.tick(1, START_NS + TICK_NS, [], [], action(START_NS), 0) is None, "the reading is forgotten"
    again = stage.tick(2, START_NS + TICK_NS, [joints(START_NS, 0.05)], [], action(START_NS), 0)
    fresh = make_motion_stage("real").tick(2, START_NS + TICK_NS, [joints(START_NS, 0.05)], [], action(START_NS), 0)
    assert again is not None
    assert fresh is not None
    assert again.position.tobytes() == fresh.position.tobytes()
