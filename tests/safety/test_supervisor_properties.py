"""Properties of the gate over arbitrary sequences of inputs; the auditor judges every tick."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tether.contracts import TICK_NS, ExecutedCommand, Mode, Primitive, SampleRef, Source, Stream
from tether.errors import InvalidInputError
from tether.safety.machine import Event
from tether.safety.settings import Check

LOWER = np.array([-1.92, -1.90, -0.30, -1.75, -2.79, 0.0])
UPPER = np.array([1.92, 1.60, 2.50, 1.75, 2.79, 0.028])

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
shares = st.lists(st.floats(-0.3, 1.3), min_size=6, max_size=6)
twists = st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(-5, 5))
gaps = st.sampled_from([TICK_NS, TICK_NS, TICK_NS, TICK_NS - 600_000, TICK_NS + 900_000, TICK_NS // 3, 3 * TICK_NS])


def positions(parts: list[float]) -> np.ndarray:
    """Shares of the range of each joint as positions; outside [0, 1] is outside the limits."""
    return LOWER + np.array(parts) * (UPPER - LOWER)


class GateMachine(RuleBasedStateMachine):
    """Anything may happen in any order. Rig.tick fails on any violated limit."""

    make_rig: Any = None

    @initialize(start=shares)
    def begin(self, start: list[float]) -> None:
        self.rig = type(self).make_rig()
        self.rig.q = positions(start)
        self.goal, self.twist = self.rig.q.copy(), (0.0, 0.0, 0.0)

    @property
    def stopped(self) -> bool:
        return self.rig.gate.mode is Mode.STOP

    @rule(goal=shares, twist=twists, n=st.integers(1, 40), gap=gaps)
    def go_to(self, goal: list[float], twist: tuple[float, float, float], n: int, gap: int) -> None:
        self.goal, self.twist = positions(goal), twist
        for _ in range(n):
            self.rig.sense()
            self.rig.propose(self.goal, self.twist, decision_id=1)
            was_stopped = self.stopped
            output = self.rig.tick(gap)
            assert not was_stopped or output.mode is Mode.STOP

    @rule(rate=st.floats(-8, 8), wave=st.floats(0.1, 20), joint=st.integers(0, 5), n=st.integers(1, 60))
    def track(self, rate: float, wave: float, joint: int, n: int) -> None:
        for k in range(n):
            self.goal = self.goal.copy()
            self.goal[joint] += rate * 0.01 * math.cos(wave * k * 0.01)
            velocity = np.zeros(6)
            velocity[joint] = rate
            self.rig.sense()
            self.rig.propose(self.goal, self.twist, velocity=velocity, decision_id=1)
            self.rig.tick()

    @rule(value=any_float, joint=st.integers(0, 5), field=st.sampled_from(["position", "velocity"]))
    def odd_number(self, value: float, joint: int, field: str) -> None:
        values = self.goal.copy()
        values[joint] = value
        self.rig.propose(self.goal, self.twist, **{field: values})
        self.rig.tick()

    @rule(value=any_float)
    def odd_twist(self, value: float) -> None:
        self.rig.propose(self.goal, (value, 0.1, -value))
        self.rig.tick()

    @rule(stream=st.sampled_from([Stream.JOINTS, Stream.IMU, Stream.CAMERA]))
    def toggle(self, stream: Stream) -> None:
        self.rig.streams ^= {stream}

    @rule(angle=st.floats(0, 0.7), size=st.sampled_from([9.81, 9.81, 9.81, 0.0, 80.0]))
    def lean(self, angle: float, size: float) -> None:
        self.rig.accel = size * np.array([math.sin(angle), 0.0, math.cos(angle)])

    @rule(n=st.integers(1, 30), gap=gaps)
    def silence(self, n: int, gap: int) -> None:
        for _ in range(n):
            self.rig.tick(gap)

    @rule(pause=st.integers(0, 10**9))
    def pause(self, pause: int) -> None:
        self.rig.tick(pause)

    @rule(back=st.integers(1, 10**9))
    def clock_back(self, back: int) -> None:
        self.rig.now_ns = max(self.rig.now_ns - back, 0)
        self.rig.tick(0)

    @rule(event=st.sampled_from(list(Event)))
    def event(self, event: Event) -> None:
        was_stopped = self.stopped
        self.rig.gate.on_event(event, "hypothesis")
        assert not was_stopped or self.stopped

    @rule(primitive=st.sampled_from(list(Primitive)))
    def decision(self, primitive: Primitive) -> None:
        self.rig.gate.on_decision(1, primitive)

    @rule(reason=st.sampled_from(["", "  ", "tested"]))
    def arm(self, reason: str) -> None:
        allowed = bool(reason.strip()) and self.rig.gate.mode in (Mode.INIT, Mode.SAFE)
        if allowed:
            self.rig.gate.arm(reason)
        else:
            with pytest.raises(InvalidInputError):
                self.rig.gate.arm(reason)

    @precondition(lambda self: self.stopped)
    @rule(reason=st.sampled_from(["", "tested"]))
    def reset(self, reason: str) -> None:
        for _ in range(60):
            self.rig.tick()
            assert self.stopped
        if reason:
            self.rig.gate.reset_stop(reason)
            assert self.rig.gate.mode is Mode.INIT
        else:
            with pytest.raises(InvalidInputError):
                self.rig.gate.reset_stop(reason)

    @rule(where=shares, stop=st.booleans(), twist=twists)
    def executed(self, where: list[float], stop: bool, twist: tuple[float, float, float]) -> None:
        command = self.rig.command(np.clip(positions(where), LOWER, UPPER), twist)
        self.rig.gate.on_executed(ExecutedCommand(SampleRef(Stream.EXECUTED, 0, 0), command, stop))
        self.rig.tick()


def test_no_sequence_of_inputs_violates_a_limit_or_leaves_a_latched_stop(make_rig: Any) -> None:
    GateMachine.make_rig = make_rig
    many = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    run_state_machine_as_test(GateMachine, settings=many)


def scripted_run(rig: Any, seed: int, ticks: int) -> list[str]:
    """A run of random commands with dropped inputs and events; the state hash and output of each tick."""
    rng = np.random.default_rng(seed)
    rig.gate.arm("determinism")
    out = []
    for k in range(ticks):
        if rng.random() < 0.95:
            rig.sense()
        if rng.random() < 0.9:
            q = rig.q + rng.normal(0, 0.05, 6)
            rig.propose(q, rng.normal(0, 0.2, 3), velocity=rng.normal(0, 1, 6), source=Source.STUDENT)
        if k % 50 == 40:
            rig.gate.on_event(Event.SLOW if k % 100 == 40 else Event.RESTORE, "determinism")
        output = rig.tick(int(rng.integers(8_000_000, 12_000_000)))
        command = output.command
        numbers = (*command.position.tolist(), *command.velocity.tolist(), *command.base_twist.tolist())
        out.append(repr((rig.gate.state_hash(), numbers, output.mode, output.scale, output.verdicts)))
    return out


def test_same_inputs_give_the_same_outputs_and_state_bit_for_bit(make_rig: Any) -> None:
    assert scripted_run(make_rig(), 3, 200) == scripted_run(make_rig(), 3, 200)


def test_restart_is_as_good_as_a_new_gate(make_rig: Any) -> None:
    fresh, used = make_rig(), make_rig()
    scripted_run(used, 5, 200)
    used.gate.restart()
    assert used.gate.state_hash() == fresh.gate.state_hash()


def test_state_hash_tells_states_apart_that_lead_to_different_outputs(make_rig: Any) -> None:
    one, other = make_rig().active(), make_rig().active()
    assert one.gate.state_hash() == other.gate.state_hash()
    one.propose([0.001, *one.q[1:]])
    assert one.gate.state_hash() != other.gate.state_hash()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(any_float, min_size=6, max_size=6), st.lists(any_float, min_size=3, max_size=3))
def test_output_is_finite_within_limits_and_names_its_joints_for_any_numbers(
    make_rig: Any, position: list[float], twist: list[float]
) -> None:
    rig = make_rig().active()
    for _ in range(5):
        rig.sense()
        rig.propose(position, twist, velocity=np.array(position))
        output = rig.tick()
        assert np.isfinite(output.command.position).all()
        assert output.command.joint_names == rig.model.joint_names
        assert 0.0 <= output.scale <= 1.0


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(start=shares, goal=shares)
def test_gate_never_locks_every_free_goal_can_be_reached_or_left(
    make_rig: Any, start: list[float], goal: list[float]
) -> None:
    rig = make_rig()
    rig.q = positions(start)
    rig.active_at(rig.q)
    home = np.array(rig.home)
    rig.run(80, positions(goal))
    output = rig.run(150, home)
    # From outside limits and forbidden space too; but the straight way home may lead through a keep-out.
    blocked = any(v.check == Check.WORKSPACE.value for v in output.verdicts)
    assert blocked or np.abs(output.command.position - home).max() < 1e-9
