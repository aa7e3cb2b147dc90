"""From a recording to figures: first safe set-point, standstill, what drove the robot at the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_tape import REST, T0_NS, Tape

from tether.contracts import Mode
from tether.faults.measure import Series, episode_began, first_motion, measure_stop, was_blind
from tether.faults.recording import Tail
from tether.faults.table import End


def at(ms: float) -> int:
    return T0_NS + round(ms * 1e6)


def series(tape: Tape) -> Series:
    made = Series()
    made.add(tape.records)
    return made


def gate_that_stops(tape: Tape, at_ms: int, until_ms: int, mode: Mode = Mode.ARMED) -> None:
    for ms in range(0, until_ms, 10):
        tape.gate(ms, 1.0 if ms < at_ms else 0.0, Mode.ACTIVE if ms < at_ms else mode)
        tape.motion(ms + 1, 1.0 if ms < at_ms + 300 else 0.0)


def test_first_safe_set_point_and_standstill_count_from_the_injection(tape: Tape) -> None:
    gate_that_stops(tape, 190, 1000)
    stop = measure_stop(series(tape), at(105), at(1000))
    assert stop.end is End.HOLD
    assert stop.stop_ms == pytest.approx(85.0)
    assert stop.standstill_ms == pytest.approx(386.0)
    assert stop.still_ms == pytest.approx(301.0)


def test_what_the_gate_says_of_its_stop_is_told_apart_from_the_way_to_the_observer(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms + 7, 1.0 if ms < 190 else 0.0, own_ms=ms + (8 if ms == 150 else 0))
    stop = measure_stop(series(tape), at(100), at(1000))
    assert (stop.stop_ms, stop.gate_ms) == (pytest.approx(97.0), pytest.approx(90.0))
    assert stop.gap_ms == pytest.approx(18.0)
    assert stop.why == "command_age: made up"


def test_what_the_observer_takes_late_was_at_the_actuators_when_the_world_says_that_it_was_applied(tape: Tape) -> None:
    moving, held = REST + 0.1, REST + 0.2
    for ms in range(0, 1000, 10):
        late = 800 if ms >= 180 else 0
        tape.gate(ms + late, 1.0 if ms < 180 else 0.0, position=moving if ms < 180 else held, own_ms=ms)
        tape.applied(ms + 12, position=moving if ms < 180 else held)
    tape.records.sort(key=lambda record: record.at_ns)
    stop = measure_stop(series(tape), at(100), at(1900))
    assert stop.stop_ms == pytest.approx(92.0)


def test_set_points_that_the_gate_also_let_move_prove_no_stop(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms, 1.0 if ms < 180 else 0.0)
        tape.applied(ms + 5)
    assert measure_stop(series(tape), at(100), at(1000)).stop_ms == pytest.approx(80.0)


def test_a_moment_at_which_nothing_passes_is_not_yet_the_stop(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms, 0.0 if ms in (130, 140) or ms >= 180 else 1.0)
    assert measure_stop(series(tape), at(100), at(1000)).stop_ms == pytest.approx(80.0)


def test_a_robot_that_goes_on_has_no_stop(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms, 0.0 if ms > 950 else 0.5)
    stop = measure_stop(series(tape), at(100), at(1000))
    assert (stop.end, stop.stop_ms, stop.standstill_ms) == (End.MOVES, None, None)


@pytest.mark.parametrize(("mode", "end"), [(Mode.STOP, End.LATCHED), (Mode.SAFE, End.SAFE_MODE)])
def test_mode_says_what_leads_out_of_the_stop(tape: Tape, mode: Mode, end: End) -> None:
    gate_that_stops(tape, 150, 900, mode)
    assert measure_stop(series(tape), at(100), at(900)).end is end


def test_where_the_gate_is_silent_the_watchdog_is_what_counts(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        if ms < 100:
            tape.gate(ms, 1.0)
        tape.applied(ms + 5, by_watchdog=ms >= 210)
    stop = measure_stop(series(tape), at(100), at(1000))
    assert stop.end is End.WATCHDOG
    assert stop.stop_ms == pytest.approx(115.0)


def test_a_robot_that_nobody_drives_is_said_to_be_undriven(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        if ms < 100:
            tape.gate(ms, 1.0)
        tape.applied(ms + 5)
    assert measure_stop(series(tape), at(100), at(1000)).end is End.UNDRIVEN


def test_a_world_that_is_late_at_the_end_is_still_held_by_its_watchdog(tape: Tape) -> None:
    for ms in range(0, 850, 10):
        if ms < 100:
            tape.gate(ms, 1.0)
        tape.applied(ms + 5, by_watchdog=ms >= 210)
        tape.motion(ms + 6, 1.0 if ms < 400 else 0.0)
    stop = measure_stop(series(tape), at(100), at(1000))
    assert stop.end is End.WATCHDOG
    assert not stop.seen


def test_turning_round_is_no_standstill(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms, 0.0)
        tape.motion(ms, 0.0 if ms in (200, 210, 220) or ms >= 600 else 0.3)
    assert measure_stop(series(tape), at(100), at(1000)).standstill_ms == pytest.approx(500.0)


def test_a_base_that_rolls_does_not_stand(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms, 0.0)
        tape.motion(ms, 0.0, base_m_s=0.02)
    assert measure_stop(series(tape), at(100), at(1000)).standstill_ms is None


def test_set_points_of_a_gate_without_a_verdict_do_not_count(tape: Tape) -> None:
    tape.gate(0, 1.0)
    del tape.records[2]
    assert series(tape).sets == []


def test_recovery_is_the_first_set_point_that_may_move(tape: Tape) -> None:
    for ms in range(0, 500, 10):
        tape.gate(ms, 0.0 if ms < 300 else 0.1)
    made = series(tape)
    assert first_motion(made, at(100)) == at(300)
    assert first_motion(made, at(495)) is None


def test_what_is_old_is_forgotten(tape: Tape) -> None:
    gate_that_stops(tape, 190, 1000)
    made = series(tape)
    made.forget_before(at(500))
    assert {row.at_ns >= at(500) for row in [*made.sets, *made.motion]} == {True}
    assert not episode_began(made, 0, at(1000))


def test_recording_is_read_while_it_grows_and_a_torn_record_waits(tape: Tape, tmp_path: Path) -> None:
    gate_that_stops(tape, 50, 100)
    path = tmp_path / "recording"
    tail = Tail(path)
    assert list(tail.new()) == []
    tape.write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert list(tail.new()) == tape.records[:-1]
    path.write_bytes(whole)
    assert list(tail.new()) == tape.records[-1:]
    assert list(tail.new()) == []


def test_a_gate_that_held_the_robot_and_then_fell_silent_stopped_it_when_it_began_to(tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        if ms < 800:
            tape.gate(ms, 1.0 if ms < 150 else 0.0, Mode.ARMED)
        tape.applied(ms + 5, by_watchdog=ms >= 910)
    stop = measure_stop(series(tape), at(100), at(1000))
    assert stop.end is End.WATCHDOG
    assert stop.stop_ms == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("at_ms", "late_ms", "blind"),
    [(150, 40, True), (210, 60, True), (500, 100, False), (1300, 320, True), (1300, 290, False), (90, 60, False)],
)
def test_an_observer_that_is_late_before_the_stop_or_at_the_end_is_blind(
    tape: Tape, at_ms: int, late_ms: int, blind: bool
) -> None:
    gate_that_stops(tape, 190, 1000)
    tape.observer_late(at_ms, late_ms)
    made = series(tape)
    stop = measure_stop(made, at(105), at(1000))
    assert was_blind(made, stop, at(105), at(1000)) is blind


def test_a_stop_that_nobody_could_see_is_blind_and_not_only_undriven(tape: Tape) -> None:
    for ms in range(0, 110, 10):
        tape.gate(ms, 1.0)
        tape.applied(ms + 5)
    tape.observer_late(3000, 2890)
    made = series(tape)
    stop = measure_stop(made, at(105), at(1000))
    assert stop.end is End.UNDRIVEN
    assert was_blind(made, stop, at(105), at(1000))
