"""The arbiter's promises, over any evidence: no chattering, always a reason, no twin that failed its check."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.bridge.arbiter import (
    COMMITTED,
    Arbiter,
    ArbiterConfig,
    Evidence,
    InCharge,
    Ruling,
    load_arbiter_config,
)
from tether.contracts import Primitive
from tether.errors import InvalidInputError
from tether.resources import resource_path

CONFIG = load_arbiter_config(resource_path("config", "arbiter.yaml"))

errors = st.one_of(
    st.none(),
    st.floats(0.0, 0.3),
    st.sampled_from([0.0, 0.104, 0.106, 0.15, 0.1500001, 1.0, 5.0, math.inf, math.nan, -1.0]),
)
evidence = st.builds(
    Evidence,
    error=errors,
    student=st.sampled_from(list(Primitive)),
    teacher=st.one_of(st.none(), st.sampled_from(list(Primitive))),
    twin_passes=st.booleans(),
    twin_says=st.just("twin's residual 0.20 (boxes)"),
)
sequences = st.lists(st.tuples(evidence, st.integers(1, 15)), max_size=40).map(
    lambda runs: [e for e, n in runs for _ in range(n)]
)
"""Evidence that stays the same for a while, as evidence does, as well as such that changes every time."""


def good(error: float | None = 0.02, **changes: object) -> Evidence:
    usual = Evidence(error, Primitive.TRACK, Primitive.TRACK, True, "twin's residual 0.20 (boxes)")
    return dataclasses.replace(usual, **changes)  # type: ignore[arg-type]


def ruled(sequence: list[Evidence], config: ArbiterConfig = CONFIG) -> list[Ruling]:
    arbiter = Arbiter(config)
    return [arbiter.rule(e) for e in sequence]


@given(sequences)
@settings(deadline=None)
def test_every_ruling_has_a_reason_that_begins_with_who_is_in_charge(sequence: list[Evidence]) -> None:
    for ruling in ruled(sequence):
        assert ruling.reason.startswith(f"{ruling.in_charge.value}: ")
        assert len(ruling.reason) > len(ruling.in_charge.value) + 2


@given(sequences)
@settings(deadline=None)
def test_every_change_of_hands_is_recorded_with_who_had_the_robot_before(sequence: list[Evidence]) -> None:
    before = InCharge.STUDENT
    for ruling in ruled(sequence):
        assert ruling.switched_from == (before if ruling.in_charge is not before else None)
        before = ruling.in_charge


@given(sequences)
@settings(deadline=None)
def test_twin_is_followed_only_while_it_passes_and_the_teacher_has_an_action(sequence: list[Evidence]) -> None:
    for e, ruling in zip(sequence, ruled(sequence), strict=True):
        if ruling.in_charge is InCharge.TWIN:
            assert e.twin_passes
            assert e.teacher is not None


@given(sequences)
@settings(deadline=None)
def test_twin_is_first_followed_after_checks_passed_in_a_row(sequence: list[Evidence]) -> None:
    for i, ruling in enumerate(ruled(sequence)):
        if ruling.in_charge is InCharge.TWIN and ruling.switched_from is not None:
            last = sequence[i + 1 - CONFIG.twin_trust : i + 1]
            assert len(last) == CONFIG.twin_trust
            assert all(e.twin_passes for e in last)


@given(sequences)
@settings(deadline=None)
def test_student_and_fallback_do_not_chatter(sequence: list[Evidence]) -> None:
    rulings = ruled(sequence)
    changes = [
        i
        for i, ruling in enumerate(rulings)
        if ruling.switched_from is not None and InCharge.STUDENT in (ruling.switched_from, ruling.in_charge)
    ]
    least = min(CONFIG.dwell, CONFIG.hand_back)
    assert all(later - earlier >= least for earlier, later in itertools.pairwise(changes))


@given(sequences)
@settings(deadline=None)
def test_no_hand_over_without_errors_above_the_threshold_or_unknown_in_a_row(sequence: list[Evidence]) -> None:
    for i, ruling in enumerate(ruled(sequence)):
        if ruling.switched_from is InCharge.STUDENT:
            last = [e.error for e in sequence[: i + 1]]
            over = all(e is not None and (not e <= CONFIG.threshold or e < 0.0) for e in last[-CONFIG.take_over :])
            unknown = all(e is None for e in last[-CONFIG.unknown :]) and len(last) > CONFIG.unknown
            assert over or unknown


@given(sequences)
@settings(deadline=None)
def test_hand_back_only_after_errors_below_the_release_in_a_row(sequence: list[Evidence]) -> None:
    release = CONFIG.release_share * CONFIG.threshold
    for i, ruling in enumerate(ruled(sequence)):
        if ruling.switched_from is not None and ruling.in_charge is InCharge.STUDENT:
            last = [e.error for e in sequence[i + 1 - CONFIG.hand_back : i + 1]]
            assert len(last) == CONFIG.hand_back
            assert all(error is not None and 0.0 <= error < release for error in last)
            assert "hand-back" in ruling.reason


@given(st.lists(st.floats(CONFIG.release_share * CONFIG.threshold, CONFIG.threshold), max_size=200))
@settings(deadline=None)
def test_error_between_release_and_threshold_changes_nobody(between: list[float]) -> None:
    assert all(r.switched_from is None for r in ruled([good(error) for error in between]))
    off = [good(0.5)] * 10
    after = ruled(off + [good(error) for error in between])[len(off) :]
    assert all(r.in_charge is InCharge.TWIN and r.switched_from is None for r in after)


@given(st.integers(0, 60), st.sampled_from(sorted(COMMITTED)))
@settings(deadline=None)
def test_grasp_under_way_is_not_broken_off_by_a_hand_over_within_the_deferral(n: int, running: Primitive) -> None:
    off = good(0.5, student=running, teacher=Primitive.TRACK)
    warm = [good()] * 10
    rulings = ruled([*warm, *[off] * n])[len(warm) :]
    waiting = rulings[: CONFIG.take_over - 1 + CONFIG.defer]
    assert all(r.in_charge is InCharge.STUDENT for r in waiting)
    assert all("waits for the end" in r.reason for r in waiting[CONFIG.take_over - 1 :])


@given(sequences)
@settings(max_examples=50, deadline=None)
def test_rulings_follow_from_the_evidence_alone(sequence: list[Evidence]) -> None:
    used = Arbiter(CONFIG)
    for e in sequence:
        used.rule(e)
    used.reset(CONFIG.threshold)
    fresh = Arbiter(CONFIG)
    for e in sequence:
        assert used.rule(e) == fresh.rule(e)
        assert used.dump() == fresh.dump()


def test_student_that_is_off_hands_over_to_the_teacher_and_gets_the_robot_back() -> None:
    rulings = ruled([*[good()] * 10, *[good(0.4)] * 8, *[good(0.02)] * 12])
    switches = [(i, r) for i, r in enumerate(rulings) if r.switched_from is not None]
    assert [(i, r.in_charge) for i, r in switches] == [(15, InCharge.TWIN), (27, InCharge.STUDENT)]
    assert "0.400 > 0.150" in switches[0][1].reason
    assert "10 errors in a row below 0.105" in switches[1][1].reason


def test_twin_that_fails_is_left_at_once_for_the_slow_student() -> None:
    failed = good(0.4, twin_passes=False, twin_says="twin's residual 1.40 (boxes) > 1")
    rulings = ruled([*[good()] * 10, *[good(0.4)] * 8, failed])
    assert rulings[-1].in_charge is InCharge.SLOW
    assert "residual 1.40" in rulings[-1].reason


def test_wild_error_without_a_twin_ends_in_standing_still_and_a_calm_one_in_slow_motion() -> None:
    wild, calm = good(3.0, twin_passes=False), good(0.3, twin_passes=False)
    rulings = ruled([good(), *[wild] * 20, *[calm] * 10])
    assert [r.in_charge for r in rulings if r.switched_from] == [InCharge.SLOW, InCharge.HOLD, InCharge.SLOW]


def test_error_that_was_never_known_is_no_reason_to_hand_over() -> None:
    assert all(r.in_charge is InCharge.STUDENT for r in ruled([good(None)] * 500))


def test_error_that_stays_away_after_it_was_known_hands_over() -> None:
    rulings = ruled([good(), *[good(None)] * (CONFIG.unknown + 1)])
    assert rulings[-1].in_charge is InCharge.TWIN
    assert "unknown for 40 decisions" in next(r for r in rulings if r.switched_from).reason


def test_hold_error_below_the_threshold_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="hold_error"):
        dataclasses.replace(CONFIG, hold_error=0.1)
