"""What has a say beside the supervisor: attestations, heartbeats, breaker, floods, the arbiter; and clocks that lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tether.assembly import make_gate_model
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
    Verdict,
)
from tether.errors import InvalidInputError
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.breaker import Reward
from tether.safety.guards import FALLBACKS, Guards
from tether.safety.heartbeat import Beat, Consequence
from tether.safety.intake import Intake
from tether.safety.settings import Check, IntakeLimits, SafetySettings
from tether.safety.stage import GateInputs, GateStage
from tether.safety.stamp_clock import StampClock
from tether.safety.supervisor import Supervisor

MS = 1_000_000
HOUR_NS = 3600 * 1000 * MS
REST = np.array([0.0, -1.0, 1.6, 0.95, 0.0, 0.02])
INTAKE = IntakeLimits(rate_hz=400, burst=250, size_max_kib=256)
TABLE = {"aligned": 0.1, "touched": 0.1, "held": 0.2, "lifted": 0.2, "kept": 0.4}


class Surroundings:
    """A gate's stage with all that feeds it. ros_ns: what ROS time reads beyond the time that stamps are made by."""

    def __init__(self, settings: SafetySettings | None = None, **guards: Any) -> None:
        model = make_gate_model("scripted")
        self.settings = model.settings if settings is None else settings
        self.stage = GateStage(Supervisor(model), auto_arm=True, guards=Guards(self.settings, **guards))
        self.stage.reset()
        self.now_ns = 5_000 * MS
        self.stamps_ns = 2 * HOUR_NS
        self.ros_ns = 0
        self.tick = 0
        self.source = Source.CLASSIC
        self.commands = True

    def run(self, ticks: int, each: Callable[[], None] | None = None) -> GateOutput:
        for _ in range(ticks):
            self.tick += 1
            self.now_ns += TICK_NS
            self.stamps_ns += TICK_NS
            ref = SampleRef(Stream.JOINTS, self.stamps_ns - 2 * MS, self.tick)
            imu = SampleRef(Stream.IMU, self.stamps_ns - 2 * MS, self.tick)
            command = Command(
                self.tick, 0, self.tick, self.source, COMMAND_JOINTS, REST, np.zeros(6), np.array([0.1, 0.0, 0.0])
            )  # fmt: skip
            inputs = GateInputs(
                joints=[JointSample(ref, COMMAND_JOINTS, REST, np.zeros(6))],
                imu=[ImuSample(imu, np.zeros(3), np.array([0.0, 0.0, 9.81]))],
                proposed=[command] if self.commands else [],
            )
            self.stage.take(self.now_ns, self.stamps_ns + self.ros_ns, inputs)
            if each is not None:
                each()
            output = self.stage.tick(self.tick, self.now_ns, self.stamps_ns + self.ros_ns)
        return output

    def active(self) -> Surroundings:
        assert self.run(5).mode is Mode.ACTIVE
        return self

    def beat(self, count: int, *loops: str) -> None:
        self.stage.hear(Beat("process", 1, loops, (count,) * len(loops)), self.now_ns)

    def pay(self, subgoal: str, value: float, task_return: float, age_ms: float = 300.0) -> None:
        reward = Reward("pick", 0, subgoal, value, self.stamps_ns - round(age_ms * MS), task_return)
        self.stage.reward(reward, self.now_ns, self.stamps_ns + self.ros_ns)


def names(output: GateOutput) -> set[str]:
    return {verdict.check for verdict in output.verdicts}


# -- attestations ---------------------------------------------------------------------------------------------------


def test_what_is_attested_passes_and_what_no_longer_is_stops_until_it_is_again() -> None:
    verdict = [Verdict(Check.STATE_INTEGRITY.value, 1.0)]
    made = Surroundings(attestations=[lambda: verdict[0]]).active()
    verdict[0] = Verdict(Check.STATE_INTEGRITY.value, 0.0, "leaf mode: hash differs")
    output = made.run(1)
    assert (output.mode, output.scale) == (Mode.ARMED, 0.0)
    assert Check.STATE_INTEGRITY.value in names(output)
    verdict[0] = Verdict(Check.STATE_INTEGRITY.value, 1.0)
    assert made.run(2).mode is Mode.ACTIVE


@pytest.mark.parametrize("answer", [None, True, 1.0, "fine", ZeroDivisionError()])
def test_attestation_that_raises_or_answers_with_no_verdict_is_a_stop(answer: Any) -> None:
    def ask() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    output = Surroundings(attestations=[ask]).run(5)
    assert output.scale == 0.0 and Check.ATTESTATION.value in names(output)


# -- heartbeats -----------------------------------------------------------------------------------------------------


def test_frozen_bridge_stops_the_robot_within_100_ms_though_commands_keep_coming_and_goes_on_when_it_turns() -> None:
    made = Surroundings().active()
    for k in range(20):
        made.run(5)
        made.beat(k, "fusion", "policy", "opd_bridge")
    stopped = next(k for k in range(1, 20) if made.run(1).scale == 0.0)
    assert stopped * 10 <= 100
    assert Check.HEARTBEAT.value in names(made.run(1))
    assert [said.kind for said in made.stage.guards.said()] == ["loop_offline"]
    made.beat(99, "opd_bridge")
    assert made.run(2).mode is Mode.ACTIVE
    assert [said.kind for said in made.stage.guards.said()] == ["loop_online"]


def with_consequence(settings: SafetySettings, consequence: Consequence) -> SafetySettings:
    beats = settings.heartbeats
    rule = dataclasses.replace(beats.loops["opd_bridge"], offline=consequence)
    return dataclasses.replace(settings, heartbeats=dataclasses.replace(beats, loops={"opd_bridge": rule}))


@pytest.mark.parametrize(("consequence", "mode"), [
    (Consequence.NAME, Mode.ACTIVE),
    (Consequence.SLOW, Mode.SLOW),
    (Consequence.DEGRADE, Mode.DEGRADED),
    (Consequence.HOLD, Mode.ARMED),
    (Consequence.STOP, Mode.STOP),
])  # fmt: skip
def test_table_says_what_it_means_that_a_loop_is_offline_and_only_a_stop_remains(
    safety_settings: SafetySettings, consequence: Consequence, mode: Mode
) -> None:
    made = Surroundings(with_consequence(safety_settings, consequence)).active()
    made.beat(1, "opd_bridge")
    assert made.run(10).mode is mode
    assert [said.kind for said in made.stage.guards.said()] == ["loop_offline"]
    made.beat(2, "opd_bridge")
    assert made.run(3).mode is (Mode.STOP if mode is Mode.STOP else Mode.ACTIVE)


def test_loop_that_comes_and_goes_is_said_once_a_second_and_held_each_time() -> None:
    made = Surroundings().active()
    held = 0
    for k in range(20):
        made.beat(k, "opd_bridge")
        made.run(9)
        held += made.run(1).scale == 0.0
    assert held == 20
    assert [said.kind for said in made.stage.guards.said()] == ["loop_offline", "loop_online"] * 2


# -- reward breaker -------------------------------------------------------------------------------------------------


def test_tripped_breaker_leads_to_safe_mode_and_only_a_person_leads_back() -> None:
    made = Surroundings(table=TABLE).active()
    made.stage.guards.breaker.begin("pick", 0, made.now_ns)
    made.pay("aligned", 0.1, 0.1)
    assert made.run(1).mode is Mode.ACTIVE
    made.pay("touched", 1.0, 1.1)
    output = made.run(1)
    assert output.mode is Mode.SAFE and output.scale <= made.settings.modes.safe.speed_share
    assert Check.REWARD.value in names(output)
    assert made.run(300).mode is Mode.SAFE
    with pytest.raises(InvalidInputError):
        made.stage.arm("")
    assert made.run(3).mode is Mode.SAFE
    made.stage.arm("the reward server was started anew")
    assert made.run(3).mode is Mode.ACTIVE and made.stage.guards.breaker.trip is None


def test_new_episode_does_not_close_a_tripped_breaker() -> None:
    made = Surroundings(table=TABLE).active()
    made.stage.guards.breaker.begin("pick", 0, made.now_ns)
    made.pay("touched", 1.0, 1.1)
    made.stage.reset()
    made.run(5)
    assert made.run(1).mode is Mode.SAFE


# -- arbiter --------------------------------------------------------------------------------------------------------


def test_mode_follows_whom_the_arbiter_put_in_charge() -> None:
    made = Surroundings(sources=FALLBACKS)
    made.source = Source.STUDENT
    seen = [made.active().stage.supervisor.mode]
    for source in (Source.TEACHER, Source.FALLBACK, Source.STUDENT):
        made.source = source
        seen.append(made.run(2).mode)
    assert seen == [Mode.ACTIVE, Mode.DEGRADED, Mode.SLOW, Mode.ACTIVE]


def test_teacher_without_an_arbiter_degrades_nothing() -> None:
    made = Surroundings()
    made.source = Source.TEACHER
    assert made.active().run(5).mode is Mode.ACTIVE


# -- floods ---------------------------------------------------------------------------------------------------------


def test_messages_beyond_rate_and_burst_are_not_looked_at_and_counted() -> None:
    intake = Intake(INTAKE)
    admitted = sum(intake.admit("/command/proposed", 100, k * 10_000) for k in range(100_000))
    assert admitted == pytest.approx(250 + 400, abs=2), "a second of 100,000 messages"
    assert intake.dropped["/command/proposed"] == 100_000 - admitted
    assert intake.admit("/joint_states", 100, 10**9), "other topics are not concerned"


def test_message_larger_than_any_of_the_graphs_is_not_decoded() -> None:
    intake = Intake(INTAKE)
    assert not intake.admit("/command/proposed", 256 * 1024 + 1, 0)
    assert intake.judge(0) and intake.admit("/command/proposed", 256 * 1024, 0)


def test_backlog_of_a_second_at_the_graphs_own_rates_is_no_flood() -> None:
    intake = Intake(INTAKE)
    assert all(intake.admit("/imu/batch", 100, 10**9) for _ in range(200))
    assert not intake.judge(10**9)


def test_flood_stops_the_robot_while_it_lasts_and_is_said() -> None:
    made = Surroundings().active()

    def flood() -> None:
        for _ in range(500):
            made.stage.guards.intake.admit("/command/proposed", 100, made.now_ns)

    output = made.run(3, flood)
    assert output.scale == 0.0 and Check.FLOOD.value in names(output)
    assert [said.kind for said in made.stage.guards.said()] == ["flood"]
    assert made.run(30).mode is Mode.ACTIVE


# -- clocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS, 400 * MS, -400 * MS])
@pytest.mark.parametrize("stamps_follow", [True, False])
def test_step_of_ros_time_changes_nothing_whether_the_stamps_follow_it_or_not(
    step_ns: int, stamps_follow: bool
) -> None:
    made = Surroundings(table=TABLE).active()
    made.stage.guards.breaker.begin("pick", 0, made.now_ns)
    before = made.run(20)
    if stamps_follow:
        made.stamps_ns += step_ns
    else:
        made.ros_ns += step_ns
    for _ in range(100):
        output = made.run(1)
        assert (output.mode, output.scale) == (Mode.ACTIVE, before.scale), output
    made.pay("aligned", 0.1, 0.1)
    assert made.run(1).mode is Mode.ACTIVE and made.stage.guards.breaker.trip is None


def test_stopped_ros_time_changes_nothing() -> None:
    made = Surroundings().active()

    def stand() -> None:
        made.ros_ns -= TICK_NS

    assert made.run(500, stand).mode is Mode.ACTIVE


def test_sensor_whose_stamps_stand_still_is_old_whatever_ros_time_does() -> None:
    for ros_rate_ns in (TICK_NS, 0, 2 * TICK_NS, -TICK_NS):
        made = Surroundings().active()

        def frozen(made: Surroundings = made, ros_rate_ns: int = ros_rate_ns) -> None:
            made.stamps_ns -= TICK_NS
            made.ros_ns += ros_rate_ns

        stopped = next(k for k in range(1, 60) if made.run(1, frozen).scale == 0.0)
        assert stopped * 10 <= 300, ros_rate_ns


def test_old_sample_is_old_by_both_clocks() -> None:
    clock = StampClock(20 * MS, 450 * MS)
    assert clock.age_ns(100 * MS, 0, 110 * MS) == 10 * MS
    assert clock.age_ns(100 * MS, 600 * MS, 710 * MS) == 610 * MS
    assert not clock.in_doubt(600 * MS, HOUR_NS)


def test_stamp_ahead_of_every_clock_is_in_the_future_and_says_nothing_of_those_after_it() -> None:
    clock = StampClock(20 * MS, 500 * MS)
    assert clock.age_ns(stamp_ns=1000 * MS, now_ns=10 * MS, ros_ns=1010 * MS) == 10 * MS
    assert clock.age_ns(stamp_ns=1030 * MS + HOUR_NS, now_ns=30 * MS, ros_ns=1030 * MS) == -HOUR_NS
    assert clock.age_ns(stamp_ns=1200 * MS, now_ns=40 * MS, ros_ns=1040 * MS) == -160 * MS
    assert clock.age_ns(stamp_ns=1040 * MS, now_ns=50 * MS, ros_ns=1050 * MS) == 10 * MS


def test_reward_just_after_a_step_of_ros_time_is_left_out_and_trips_nothing() -> None:
    made = Surroundings(table=TABLE).active()
    breaker = made.stage.guards.breaker
    breaker.begin("pick", 0, made.now_ns)
    made.ros_ns = HOUR_NS
    made.run(1)
    made.pay("aligned", 0.1, 0.1, age_ms=-HOUR_NS / MS)
    assert breaker.trip is None and breaker.ignored == 1


def test_steady_clock_alone_drives_the_gate_its_deadlines_hold_with_ros_time_stopped() -> None:
    made = Surroundings().active()
    made.commands = False

    def stand() -> None:
        made.ros_ns -= TICK_NS

    stopped = next(k for k in range(1, 20) if made.run(1, stand).scale == 0.0)
    assert stopped * 10 <= 100
