"""A sensor that says the same again and again under fresh stamps is dead; a robot that holds still is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tether.contracts import ExecutedCommand, Mode, SampleRef, Stream
from tether.rollout import Rollout
from tether.safety import checks
from tether.safety.machine import Event
from tether.safety.settings import Check, RepeatLimits

HOME = (0.0, -1.0, 1.6, 0.95, 0.0, 0.02)
LIMITS = RepeatLimits(joints_moved_rad=0.05, joints_said_rad=0.006, joints_same_max=10)


def judged(rig: Any, output: Any) -> list[str]:
    return [verdict.check for verdict in output.verdicts if verdict.scale < 1.0]


def panned(angle_rad: float) -> np.ndarray:
    return np.array(HOME) + np.array([angle_rad, 0, 0, 0, 0, 0])


def test_joints_that_freeze_in_motion_stop_the_arm_and_are_named(rig: Any) -> None:
    rig.active()
    rig.run(5, panned(0.1))
    rig.follows = False
    for ticks in range(1, 40):
        output = rig.run(1, panned(0.1 + 0.02 * ticks))
        if Check.SENSOR_REPEATS.value in judged(rig, output):
            break
    assert LIMITS.joints_same_max < ticks <= LIMITS.joints_same_max + 5, "the time to move by 0.05 rad, and 10 samples"
    assert output.scale == 0.0
    (reason,) = [v.reason for v in output.verdicts if v.check == Check.SENSOR_REPEATS.value]
    assert "joints: the same" in reason and "shoulder_pan" in reason
    output = rig.run(40, panned(1.0))
    assert rig.still(output)
    assert Check.SENSOR_REPEATS.value in judged(rig, output), "dead until something else comes"
    assert abs(output.command.position[0] - rig.q[0]) > 0.01, "not taken to where joints are said to be"


@pytest.mark.parametrize(("says_rad_s", "ticks_most"), [(0.15, 12), (0.05, 15), (0.03, 23), (0.021, 30)])
def test_joints_that_say_they_move_and_stay_where_they_are_stop_an_arm_that_is_told_nothing(
    rig: Any, says_rad_s: float, ticks_most: int
) -> None:
    """Within the 300 ms of a lost sensor, from the speed at which a robot counts as moving on."""
    rig.active()
    rig.v = np.array([0, 0, -says_rad_s, 0, 0, 0])
    found: list[list[str]] = []
    while not found or Check.SENSOR_REPEATS.value not in found[-1]:
        output = rig.run(1)
        found.append(judged(rig, output))
        assert len(found) <= ticks_most
    assert len(found) >= LIMITS.joints_same_max
    (reason,) = [v.reason for v in output.verdicts if v.check == Check.SENSOR_REPEATS.value]
    assert "by its own speed elbow_flex moved by" in reason
    rig.v = np.zeros(6)
    assert rig.run(3).mode is Mode.ACTIVE, "it says something else"


@pytest.mark.parametrize("speeds", [[0, 0, 0.02, 0, 0, 0], [0, 0, 0, 0, 0, 0.3]])
def test_speed_that_a_joint_at_rest_may_say_and_that_of_the_gripper_prove_nothing(
    rig: Any, speeds: list[float]
) -> None:
    rig.active()
    rig.v = np.array(speeds)
    for _ in range(1000):
        assert rig.run(1).scale == 1.0


def test_speeds_go_by_the_joints_names(rig: Any) -> None:
    watch = rig.gate._repeats
    for count in range(30):
        watch.add(b"same", dict(zip(reversed(rig.model.joint_names), (9.0, 0, 0, 0, 0, 0), strict=True)), count * 10**7)
    assert not watch.dead, "the gripper's, which comes first here"


def test_it_goes_on_by_itself_once_something_else_comes(rig: Any) -> None:
    rig.active()
    rig.follows = False
    rig.run(40, panned(0.3))
    assert rig.gate.mode is Mode.ARMED
    rig.q = rig.q + 1e-9
    rig.follows = True
    assert rig.run(3, panned(0.3)).mode is Mode.ACTIVE


def test_a_robot_that_holds_still_may_say_the_same_for_as_long_as_it_likes(rig: Any) -> None:
    rig.active()
    for _ in range(3000):
        assert rig.run(1).scale == 1.0


def test_a_gripper_that_closes_on_something_is_no_dead_sensor(rig: Any) -> None:
    rig.active()
    rig.follows = False
    closed = np.array(HOME)
    closed[5] = 0.0
    for _ in range(100):
        assert Check.SENSOR_REPEATS.value not in judged(rig, rig.run(1, closed))


def test_a_stop_by_the_watchdog_does_not_make_dead_joints_good(rig: Any) -> None:
    rig.active()
    rig.follows = False
    for i in range(40):
        if i % 7 == 6:
            applied = rig.command(panned(0.2), joint_names=rig.model.joint_names)
            ref = SampleRef(Stream.EXECUTED, rig.now_ns, rig.count)
            rig.gate.on_executed(ExecutedCommand(ref, applied, watchdog_stop=True))
        output = rig.run(1, panned(0.3))
    assert Check.SENSOR_REPEATS.value in judged(rig, output)


def test_set_points_that_the_watchdog_puts_elsewhere_tell_no_joint_to_move(rig: Any) -> None:
    rig.active()
    rig.follows = False
    ref = SampleRef(Stream.EXECUTED, rig.now_ns, rig.count)
    rig.gate.on_executed(ExecutedCommand(ref, rig.command(panned(0.3)), watchdog_stop=True))
    for _ in range(60):
        assert Check.SENSOR_REPEATS.value not in judged(rig, rig.run(1, panned(0.3)))


def test_a_person_who_arms_begins_anew(rig: Any) -> None:
    rig.active()
    rig.follows = False
    rig.run(40, panned(0.3))
    rig.gate.on_event(Event.DISARM, "looked at")
    rig.gate.arm("the arm had been blocked")
    assert rig.run(3, rig.q).mode is Mode.ACTIVE


def test_limits_of_the_check() -> None:
    assert checks.sensor_repeats(9, "elbow_flex", LIMITS).scale == 1.0
    refused = checks.sensor_repeats(10, "elbow_flex", LIMITS)
    assert (refused.scale, refused.check) == (0.0, "sensor_repeats")
    assert "elbow_flex" in refused.reason


def test_silence_of_the_camera_says_why_its_pictures_were_refused(rig: Any) -> None:
    rig.active()
    rig.streams.discard(Stream.CAMERA)
    for _ in range(30):
        rig.gate.on_refused(Stream.CAMERA, "constant: the picture is the same")
        output = rig.run(1)
    reasons = [v.reason for v in output.verdicts if v.check == Check.SENSOR_SILENCE.value]
    assert len(reasons) == 1 and reasons[0].startswith("camera: nothing for")
    assert reasons[0].endswith("the last was refused: constant: the picture is the same")
    rig.streams.add(Stream.CAMERA)
    assert rig.run(2).scale == 1.0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(
        st.tuples(st.floats(-0.6, 0.6), st.integers(1, 60), st.sampled_from([0.0, 0.0015, 1e-12])),
        min_size=1,
        max_size=6,
    ),
    lag=st.integers(0, 9),
)
def test_joints_that_follow_are_never_dead(
    make_rig: Callable[..., Any], moves: list[tuple[float, int, float]], lag: int
) -> None:
    """However late up to 90 ms, on encoders as coarse as the servos', and at rest for as long as it may be."""
    rig = make_rig()
    rig.active()
    rig.follows = False
    sent = [rig.q] * (lag + 1)
    for angle, ticks, step in moves:
        for _ in range(ticks):
            output = rig.run(1, panned(angle))
            sent.append(output.command.position)
            late = sent[-1 - lag]
            rig.q = np.round(late / step) * step if step else late
            assert Check.SENSOR_REPEATS.value not in judged(rig, output), output


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["classic", "student"])
@pytest.mark.parametrize("profile", ["real", "ideal"])
def test_no_sensor_of_an_honest_episode_is_found_dead(policy: str, profile: str) -> None:
    with Rollout(policy, "pick", profile) as run:
        for seed in range(2):
            for _, trace in run.ticks(seed):
                if trace is not None:
                    found = [v for v in trace.gated.verdicts if "repeats" in v.check or "constant" in v.reason]
                    assert not found
