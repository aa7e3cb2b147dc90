"""Which stamps are believed: reordered, equal, backward, zero, future, late; drop-outs; clocks going back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether import config
from tether.errors import InvalidInputError
from tether.ingest.admission import Admission, AdmissionConfig, JumpKind, StampAdmission
from tether.ingest.rejection import Reason

MS = 1_000_000
S = 1_000_000_000
T0 = 1_700_000_000 * S


def reason(admission: Admission) -> Reason | None:
    return None if admission.rejection is None else admission.rejection.reason


def steady_stream(admission: StampAdmission, n: int = 20, period_ns: int = 10 * MS, start_ns: int = T0) -> int:
    """Feed n good samples; returns the stamp of the last."""
    for i in range(n):
        assert admission.admit(start_ns + i * period_ns, start_ns + i * period_ns + 2 * MS).accepted
    return start_ns + (n - 1) * period_ns


def test_a_steady_stream_is_accepted_whole() -> None:
    admission = StampAdmission()
    last = steady_stream(admission, 100)
    assert (admission.accepted, admission.newest_ns) == (100, last)
    assert not admission.rejected and admission.reordered == admission.gaps == admission.jumps == 0


def test_first_sample_is_judged_by_its_age_alone() -> None:
    assert StampAdmission().admit(T0, T0 + 500 * MS) == Admission(None)


def test_sample_out_of_order_within_the_window_is_accepted_and_marked() -> None:
    admission = StampAdmission()
    last = steady_stream(admission)
    verdict = admission.admit(last - 15 * MS, last + 5 * MS)
    assert verdict.accepted and verdict.reordered
    assert admission.newest_ns == last


def test_sample_behind_the_window_is_dropped_and_counted() -> None:
    admission = StampAdmission()
    last = steady_stream(admission, 60)
    assert reason(admission.admit(last - 205 * MS, last + 5 * MS)) is Reason.BACKWARD_STAMP
    assert admission.rejected[Reason.BACKWARD_STAMP] == 1


@pytest.mark.parametrize("back", [0, 1, 7])
def test_equal_stamp_is_refused_wherever_in_the_window_it_lies(back: int) -> None:
    admission = StampAdmission()
    last = steady_stream(admission)
    assert reason(admission.admit(last - back * 10 * MS, last + 5 * MS)) is Reason.EQUAL_STAMP


def test_zero_stamp_is_refused_by_name() -> None:
    verdict = StampAdmission().admit(0, T0)
    assert reason(verdict) is Reason.ZERO_STAMP


def test_zero_is_a_time_while_the_clock_itself_stands_near_zero() -> None:
    admission = StampAdmission()
    assert admission.admit(0, 0).accepted
    assert admission.admit(10 * MS, 10 * MS).accepted


def test_zero_stamps_from_a_simulated_start_are_refused_from_the_second_on() -> None:
    admission = StampAdmission()
    verdicts = [reason(admission.admit(0, i * 100 * MS)) for i in range(30)]
    assert verdicts[0] is None
    assert set(verdicts[1:]) == {Reason.EQUAL_STAMP, Reason.ZERO_STAMP}


def test_future_stamp_is_refused_and_leaves_no_trace() -> None:
    admission = StampAdmission()
    last = steady_stream(admission)
    assert reason(admission.admit(last + 5 * S, last + 5 * MS)) is Reason.FUTURE_STAMP
    assert admission.newest_ns == last
    assert admission.admit(last + 10 * MS, last + 12 * MS).accepted


def test_one_stamp_slightly_ahead_does_not_turn_the_next_ones_into_backward_ones() -> None:
    admission = StampAdmission()
    last = steady_stream(admission)
    assert admission.admit(last + 90 * MS, last + 5 * MS).accepted
    for i in range(1, 5):
        assert admission.admit(last + i * 10 * MS, last + i * 10 * MS).accepted


def test_absurdly_late_sample_is_refused_with_its_age() -> None:
    verdict = StampAdmission().admit(T0, T0 + 1237 * MS)
    assert reason(verdict) is Reason.LATE_STAMP
    assert verdict.rejection is not None and "1237.0 ms" in verdict.rejection.detail


@pytest.mark.parametrize("days", [-3000, -2, 2, 3000])
def test_headers_days_off_are_refused_with_the_hint_that_the_clocks_differ(days: int) -> None:
    verdict = StampAdmission().admit(T0 + days * 86_400 * S, T0)
    assert reason(verdict) is (Reason.FUTURE_STAMP if days > 0 else Reason.LATE_STAMP)
    assert verdict.rejection is not None
    assert "another clock" in verdict.rejection.detail and f"{abs(days)}.0 days" in verdict.rejection.detail


def test_drop_out_is_reported_with_its_length_and_the_stream_goes_on() -> None:
    admission = StampAdmission()
    last = steady_stream(admission)
    verdict = admission.admit(last + 800 * MS, last + 802 * MS)
    assert verdict.accepted and verdict.gap_ns == 800 * MS
    assert admission.admit(last + 810 * MS, last + 812 * MS).gap_ns is None
    assert admission.gaps == 1


def test_clock_going_back_clears_once_and_the_stream_goes_on() -> None:
    admission = StampAdmission()
    last = steady_stream(admission, 100)
    jumps = [admission.admit(T0 + i * 10 * MS, T0 + i * 10 * MS + 2 * MS) for i in range(20)]
    assert [v.jump is not None for v in jumps] == [True] + [False] * 19
    assert all(v.accepted for v in jumps)
    jump = jumps[0].jump
    assert jump is not None and jump.kind is JumpKind.CLOCK
    assert (jump.from_ns, jump.to_ns) == (last + 2 * MS, T0 + 2 * MS)


def test_samples_from_before_a_clock_jump_are_refused_as_future_ones() -> None:
    admission = StampAdmission()
    last = steady_stream(admission, 100)
    verdict = admission.admit(last + 10 * MS, T0)
    assert verdict.jump is not None and reason(verdict) is Reason.FUTURE_STAMP
    assert admission.admit(T0 + 10 * MS, T0 + 12 * MS).accepted


def test_clock_jitter_is_no_jump() -> None:
    admission = StampAdmission()
    last = steady_stream(admission)
    verdict = admission.admit(last + 10 * MS, last - 40 * MS + 2 * MS)
    assert verdict.accepted and verdict.jump is None


def test_source_that_restarts_with_an_earlier_clock_is_taken_up_again_after_a_clear() -> None:
    admission = StampAdmission()
    last = steady_stream(admission, 60)
    verdicts = [admission.admit(last - 500 * MS + i * 10 * MS, last + (i + 1) * 10 * MS) for i in range(25)]
    assert [reason(v) for v in verdicts[:9]] == [Reason.BACKWARD_STAMP] * 9
    jumps = [v.jump for v in verdicts if v.jump is not None]
    assert len(jumps) == 1 and jumps[0].kind is JumpKind.SOURCE
    assert all(v.accepted for v in verdicts[9:])


def test_stragglers_in_falling_order_are_no_restart() -> None:
    admission = StampAdmission()
    last = steady_stream(admission, 60)
    verdicts = [admission.admit(last - 300 * MS - i * MS, last + 5 * MS) for i in range(40)]
    assert {reason(v) for v in verdicts} == {Reason.BACKWARD_STAMP}
    assert admission.jumps == 0


def test_reset_starts_an_episode_without_reporting_a_jump() -> None:
    admission = StampAdmission()
    steady_stream(admission, 100)
    admission.reset()
    verdict = admission.admit(0, 0)
    assert verdict == Admission(None)


def test_memory_stays_bounded_whatever_comes() -> None:
    admission = StampAdmission(AdmissionConfig(max_tracked=16))
    for i in range(1000):
        admission.admit(T0 + i, T0 + 1000)
    assert len(admission._stamps) == 16
    assert reason(admission.admit(T0 + 5, T0 + 1000)) is Reason.BACKWARD_STAMP


def test_bounds_that_would_let_one_future_stamp_block_the_stream_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="reorder_window_ns"):
        AdmissionConfig(reorder_window_ns=10 * MS, max_future_ns=50 * MS)


@pytest.mark.parametrize("name", ["reorder_window_ns", "max_future_ns", "max_age_ns", "gap_ns", "clock_jump_ns"])
def test_no_bound_can_be_switched_off_by_zero(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        config.parse({name: 0}, AdmissionConfig, "test")


stamps = st.lists(st.tuples(st.integers(-3000, 3000), st.integers(-400, 120)), min_size=1, max_size=80)


@settings(deadline=None)
@given(stamps)
def test_accepted_stamps_are_unique_fresh_and_within_the_window_between_jumps(
    steps: list[tuple[int, int]],
) -> None:
    admission = StampAdmission()
    now, accepted = T0, list[int]()
    for step, offset in steps:
        now += step * MS
        stamp = now + offset * MS
        verdict = admission.admit(stamp, now)
        if verdict.jump is not None:
            accepted.clear()
        if verdict.accepted:
            assert stamp not in accepted
            assert -100 * MS <= now - stamp <= S
            assert not accepted or stamp >= max(accepted) - 200 * MS
            assert verdict.reordered == bool(accepted and stamp < max(accepted))
            accepted.append(stamp)
    assert admission.accepted + sum(admission.rejected.values()) == len(steps)


@settings(deadline=None)
@given(stamps)
def test_verdicts_depend_on_the_calls_alone(steps: list[tuple[int, int]]) -> None:
    def run() -> list[Admission]:
        admission, now, verdicts = StampAdmission(), T0, []
        for step, offset in steps:
            now += step * MS
            verdicts.append(admission.admit(now + offset * MS, now))
        return verdicts

    assert run() == run()
