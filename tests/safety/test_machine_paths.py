"""The state machine from end to end: nothing leads out of a latched stop but a reset, and nothing arms by itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tether.contracts import Mode
from tether.errors import InvalidInputError
from tether.safety.causes import Causes, Level
from tether.safety.machine import AUTOMATIC, TRANSITIONS, Event, target

EXPLICIT = frozenset({Event.ARM, Event.RESET})
"""Events that only a person's call makes; everything else may happen by itself."""
BY_ITSELF = frozenset(Event) - EXPLICIT
MOVING = (Mode.ACTIVE, Mode.DEGRADED, Mode.SAFE, Mode.SLOW)


def reachable(start: Mode, events: frozenset[Event]) -> set[Mode]:
    found, todo = {start}, [start]
    while todo:
        mode = todo.pop()
        for event in events:
            after = target(mode, event)
            if after is not None and after not in found:
                found.add(after)
                todo.append(after)
    return found


def test_no_path_leads_out_of_a_latched_stop_by_itself() -> None:
    assert reachable(Mode.STOP, frozenset(Event) - {Event.RESET}) == {Mode.STOP}
    assert [(row.event, row.target) for row in TRANSITIONS if row.source is Mode.STOP] == [(Event.RESET, Mode.INIT)]


def test_reset_does_not_arm_and_without_arming_nothing_moves() -> None:
    assert reachable(Mode.INIT, BY_ITSELF) == {Mode.INIT, Mode.STOP}


def test_no_path_leads_out_of_safe_mode_to_more_freedom_without_arming() -> None:
    assert reachable(Mode.SAFE, BY_ITSELF) == {Mode.SAFE, Mode.INIT, Mode.STOP}


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_can_be_stopped_and_every_moving_one_disarmed_and_made_safe(mode: Mode) -> None:
    assert mode is Mode.STOP or target(mode, Event.STOP) is Mode.STOP
    if mode in MOVING:
        assert target(mode, Event.DISARM) is Mode.INIT
        assert mode is Mode.SAFE or target(mode, Event.SAFE) is Mode.SAFE


def test_every_mode_can_be_reached_and_left_again_to_active() -> None:
    assert reachable(Mode.INIT, frozenset(Event)) == set(Mode)
    for mode in Mode:
        assert Mode.ACTIVE in reachable(mode, frozenset(Event)), mode


def drive(rig: Any, mode: Mode) -> Any:
    """A gate in `mode`, by its own public ways."""
    if mode is Mode.INIT:
        return rig
    if mode is Mode.ARMED:
        rig.gate.arm("test")
        for _ in range(3):
            rig.sense()
            rig.tick()
    else:
        rig.active()
    leading = {Mode.DEGRADED: Event.DEGRADE, Mode.SLOW: Event.SLOW, Mode.SAFE: Event.SAFE, Mode.STOP: Event.STOP}
    if mode in leading:
        assert rig.gate.on_event(leading[mode], "test")
    assert rig.gate.mode is mode
    return rig


@pytest.mark.parametrize(("mode", "event"), [(m, e) for m in Mode for e in Event if e not in AUTOMATIC | EXPLICIT])
def test_a_request_does_what_the_table_says_and_nothing_else(make_rig: Any, mode: Mode, event: Event) -> None:
    rig = drive(make_rig(), mode)
    wanted = target(mode, event)
    rig.gate.on_event(event, "test")
    assert rig.gate.mode is (mode if wanted is None else wanted)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("event", sorted(AUTOMATIC | EXPLICIT))
def test_what_only_the_gate_or_a_person_may_do_cannot_be_requested(make_rig: Any, mode: Mode, event: Event) -> None:
    rig = drive(make_rig(), mode)
    assert not rig.gate.on_event(event, "test")
    assert rig.gate.mode is mode


@pytest.mark.parametrize("mode", list(Mode))
def test_arming_and_reset_work_only_from_where_they_should(make_rig: Any, mode: Mode) -> None:
    rig = drive(make_rig(), mode)
    if mode not in (Mode.INIT, Mode.SAFE):
        with pytest.raises(InvalidInputError, match="mode"):
            rig.gate.arm("test")
    if mode is not Mode.STOP:
        with pytest.raises(InvalidInputError, match="mode"):
            rig.gate.reset_stop("test")
    assert rig.gate.mode is mode


def test_re_arming_after_a_stop_takes_a_reset_and_an_arming_each_with_a_reason(make_rig: Any) -> None:
    rig = drive(make_rig(), Mode.STOP)
    rig.run(60)
    assert rig.gate.mode is Mode.STOP, "good commands and sensors lead nowhere"
    for call in (rig.gate.reset_stop, rig.gate.arm):
        with pytest.raises(InvalidInputError, match="reason"):
            call("  ")
    rig.gate.reset_stop("looked at it")
    rig.run(60)
    assert rig.gate.mode is Mode.INIT
    rig.gate.arm("it is clear")
    assert rig.run(3).mode is Mode.ACTIVE


@pytest.mark.parametrize(
    ("level", "mode"), [(Level.SLOW, Mode.SLOW), (Level.DEGRADED, Mode.DEGRADED), (Level.SAFE, Mode.SAFE)]
)
def test_cause_leads_into_its_mode_and_only_slow_and_degraded_end_with_it(
    make_rig: Any, level: Level, mode: Mode
) -> None:
    rig, causes = make_rig().active(), Causes()
    causes.report("x", level, "why")
    rig.gate.on_event(*causes.event(rig.gate.mode))
    assert rig.gate.mode is mode and causes.event(mode) is None
    causes.clear("x")
    step = causes.event(mode)
    if level is Level.SAFE:
        assert step is None
    else:
        assert step is not None and rig.gate.on_event(*step)
        assert rig.run(1).mode is Mode.ACTIVE


def test_worst_of_the_causes_rules_whatever_order_they_come_and_go_in(make_rig: Any) -> None:
    modes = {Level.NONE: Mode.ACTIVE, Level.SLOW: Mode.SLOW, Level.DEGRADED: Mode.DEGRADED, Level.SAFE: Mode.SAFE}
    for order in itertools.permutations((Level.SLOW, Level.DEGRADED, Level.SAFE)):
        rig, causes = make_rig().active(), Causes()
        worst = Level.NONE
        for level in order:
            causes.report(level.name, level, "why")
            worst = max(worst, level)
            step = causes.event(rig.gate.mode)
            if step is not None:
                rig.gate.on_event(*step)
            assert rig.gate.mode is modes[worst], order


def test_slow_that_remains_when_degraded_ends_is_gone_back_to(make_rig: Any) -> None:
    rig, causes = make_rig().active(), Causes()
    seen = []
    for change in (("a", Level.SLOW), ("b", Level.DEGRADED), ("b", Level.NONE), ("a", Level.NONE)):
        causes.report(*change, "why")
        step = causes.event(rig.gate.mode)
        assert step is not None
        rig.gate.on_event(*step)
        seen.append(rig.gate.mode)
    assert seen == [Mode.SLOW, Mode.DEGRADED, Mode.SLOW, Mode.ARMED]


def test_cause_of_a_stop_that_is_still_there_stops_again_after_a_reset(make_rig: Any) -> None:
    rig, causes = drive(make_rig(), Mode.STOP), Causes()
    causes.report("driver", Level.STOP, "silent")
    assert causes.event(Mode.STOP) is None
    rig.run(60)
    rig.gate.reset_stop("tested")
    step = causes.event(rig.gate.mode)
    assert step == (Event.STOP, "driver: silent")


def test_restore_ends_only_what_causes_imposed() -> None:
    causes = Causes()
    assert causes.event(Mode.SLOW) is None, "somebody else asked for slow"


def test_number_of_causes_is_bounded() -> None:
    causes = Causes()
    for k in range(64):
        causes.report(f"cause {k}", Level.SLOW, "why")
    causes.report("cause 3", Level.SAFE, "why")
    with pytest.raises(ValueError, match="more than"):
        causes.report("one more", Level.SLOW, "why")
