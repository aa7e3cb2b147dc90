"""The guard of versions: what is worse is found, what is as good stays, and chance alone takes nothing back."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.bridge.guard import GuardConfig, Outcome, VersionGuard, at_most

CONFIG = GuardConfig(decisions=100, least_decisions=40, episodes=20, least_episodes=6)


def fed(guard: VersionGuard, errors: Iterable[float | None] = (), successes: Iterable[bool] = ()) -> VersionGuard:
    for error in errors:
        guard.saw(error)
    for success in successes:
        guard.ended(success)
    return guard


def after_swap(errors: Iterable[float | None] = (), successes: Iterable[bool] = ()) -> VersionGuard:
    guard = fed(VersionGuard(CONFIG), errors, successes)
    guard.swapped()
    return guard


def test_first_version_is_kept_whatever_it_does() -> None:
    assert fed(VersionGuard(CONFIG), [9.0] * 500, [False] * 50).judge().outcome is Outcome.KEEP


def test_version_with_a_larger_error_is_taken_back_and_the_reason_says_both() -> None:
    guard = fed(after_swap([0.05] * 100), [0.12] * 40)
    judgement = guard.judge()
    assert judgement.outcome is Outcome.ROLL_BACK
    assert "0.120" in judgement.reason
    assert "0.050" in judgement.reason


def test_nothing_is_concluded_from_few_decisions() -> None:
    guard = fed(after_swap([0.05] * 100), [9.0] * 39)
    assert guard.judge().outcome is Outcome.KEEP
    assert fed(guard, [9.0]).judge().outcome is Outcome.ROLL_BACK


def test_version_that_fails_where_the_one_before_succeeded_is_taken_back() -> None:
    guard = fed(after_swap([0.05] * 100, [True] * 20), [0.05] * 100, [False] * 6)
    assert guard.judge().outcome is Outcome.ROLL_BACK
    assert "0 of 6" in guard.judge().reason


def test_one_failure_more_is_chance() -> None:
    successes = [True, True, False, True, True, True, True, True]
    guard = fed(after_swap([0.05] * 100, [True] * 20), [0.05] * 100, successes)
    assert guard.judge().outcome is not Outcome.ROLL_BACK


def test_version_that_is_as_good_is_confirmed_once_and_then_held_to_it() -> None:
    guard = fed(after_swap([0.05] * 100, [True] * 20), [0.05] * 100, [True] * 6)
    assert not guard.may_swap
    assert guard.judge().outcome is Outcome.CONFIRM
    assert guard.judge().outcome is Outcome.KEEP
    assert guard.may_swap
    assert fed(guard, [0.2] * 100).judge().outcome is Outcome.ROLL_BACK


def test_newer_version_waits_until_the_running_one_has_something_to_be_held_against() -> None:
    guard = VersionGuard(CONFIG)
    assert not guard.may_swap
    assert not fed(guard, [None] * 39).may_swap
    assert fed(guard, [None]).may_swap


def test_senseless_errors_are_left_out() -> None:
    guard = fed(after_swap([0.05] * 100), [math.nan, math.inf, None] * 50)
    assert guard.figures().error is None
    assert guard.judge().outcome is Outcome.KEEP


@given(st.lists(st.floats(0.0, 0.2), min_size=100, max_size=100), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_version_that_repeats_what_the_one_before_did_is_never_taken_back(errors: list[float], share: float) -> None:
    successes = [i < round(20 * share) for i in range(20)]
    guard = fed(after_swap(errors, successes), errors, successes)
    assert guard.judge().outcome is Outcome.CONFIRM


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.01, 0.99))
@settings(deadline=None)
def test_tail_of_the_binomial_is_a_probability_that_grows(k: int, n: int, p: float) -> None:
    k = min(k, n)
    assert 0.0 <= at_most(k, n, p) <= 1.0 + 1e-9
    assert math.isclose(at_most(n, n, p), 1.0, rel_tol=1e-9)


def test_tail_of_the_binomial_is_that_of_a_simulation() -> None:
    drawn = np.random.default_rng(1).binomial(12, 0.8, 200_000)
    assert math.isclose(at_most(7, 12, 0.8), float(np.mean(drawn <= 7)), abs_tol=0.003)
