"""The reward breaker: exact moments, and what trips it, what does not, and what is only said."""

from __future__ import annotations

import json
import math
import random
from collections import deque
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.errors import InvalidInputError
from tether.safety.breaker import BreakerLimits, Cause, Reward, RewardBreaker
from tether.safety.moments import SlidingMoments

MS = 1_000_000
LIMITS = BreakerLimits(
    window=100, samples_min=30, sigmas_max=3.0, sigma_floor=0.5, future_max_ms=50.0, late_max_ms=2000.0
)
TABLE = {"aligned": 0.5, "touched": 0.5, "held": 1.0, "lifted": 2.0, "kept": 6.0}
FULL = sum(TABLE.values())


def breaker(table: Any = None) -> RewardBreaker:
    return RewardBreaker(LIMITS, TABLE if table is None else table)


def pay(made: RewardBreaker, episode: int, subgoals: Iterable[str], **changes: Any) -> None:
    total = 0.0
    for stamp_ns, name in enumerate(subgoals):
        total += TABLE[name]
        made.observe(Reward("pick", episode, name, TABLE[name], stamp_ns, total), 300 * MS, 0, **changes)


def run(made: RewardBreaker, episode: int, count: int, success: bool | None = None) -> None:
    """One episode that reaches the first `count` subgoals and is judged."""
    made.begin("pick", episode, 0)
    pay(made, episode, list(TABLE)[:count])
    made.finish("pick", episode, 0, success)
    made.advance(2000 * MS)


def exact(values: Iterable[float]) -> tuple[float, float]:
    x = [Fraction(value) for value in values]
    mean = sum(x) / len(x)
    return float(mean), math.sqrt(sum((v - mean) ** 2 for v in x) / (len(x) - 1))


def test_moments_after_a_million_updates_are_those_of_exact_arithmetic_spikes_included() -> None:
    window, mirror = SlidingMoments(100), deque[float](maxlen=100)
    rng = random.Random(1)
    worst = 0.0
    for k in range(1_000_000):
        value = rng.gauss(3.0, 0.01) if k % 5003 else rng.choice([1e6, -1e6, 1e-12])
        window.add(value)
        mirror.append(value)
        if k > 100 and k % 20_011 == 0:
            mean, deviation = exact(mirror)
            worst = max(worst, abs(window.mean / mean - 1.0), abs(window.deviation / deviation - 1.0))
    assert worst < 1e-15
    wide = np.array(mirror, np.longdouble)
    assert abs(float((window.mean - wide.mean()) / wide.mean())) < 1e-15
    assert abs(float((window.deviation - wide.std(ddof=1)) / wide.std(ddof=1))) < 1e-13


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60), st.integers(2, 40))
def test_moments_of_any_numbers_are_those_of_the_newest(values: list[float], size: int) -> None:
    window = SlidingMoments(size)
    for value in values:
        window.add(value)
    mean, deviation = exact(values[-size:])
    assert window.mean == pytest.approx(mean, rel=1e-12, abs=1e-18)
    assert window.deviation == pytest.approx(deviation, rel=1e-12, abs=1e-15)
    assert window.values() == pytest.approx(values[-size:], abs=1e-19)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.0001e6])
def test_window_refuses_numbers_that_would_spoil_it_and_stays_as_it_was(value: float) -> None:
    window = SlidingMoments(3)
    window.add(1.0)
    with pytest.raises(ValueError, match="expected within"):
        window.add(value)
    assert window.values() == [1.0]


def test_episodes_as_they_should_be_do_not_trip_success_or_failure() -> None:
    made = breaker()
    rng = random.Random(2)
    for episode in range(1000):
        run(made, episode, 5 if rng.random() < 0.97 else rng.randrange(5))
    assert made.trip is None


def test_first_failure_after_a_hundred_successes_does_not_trip() -> None:
    made = breaker()
    for episode in range(100):
        run(made, episode, 5)
    run(made, 100, 0)
    assert made.trip is None


GOOD = Reward("pick", 7, "aligned", 0.5, 100, 0.5)


@pytest.mark.parametrize(("reward", "age_ms", "cause"), [
    (Reward("pick", 7, "aligned", 5.0, 100, 5.0), 300, Cause.WRONG_VALUE),
    (Reward("pick", 7, "aligned", -0.5, 100, -0.5), 300, Cause.WRONG_VALUE),
    (Reward("pick", 7, "aligned", 0.0, 100, 0.0), 300, Cause.WRONG_VALUE),
    (Reward("pick", 7, "aligned", math.nan, 100, 0.5), 300, Cause.NOT_FINITE),
    (Reward("pick", 7, "aligned", 0.5, 100, math.inf), 300, Cause.NOT_FINITE),
    (Reward("pick", 7, "aligned", 0.5, 100, 5.0), 300, Cause.WRONG_RETURN),
    (Reward("pick", 7, "shaped", 0.5, 100, 0.5), 300, Cause.UNKNOWN_SUBGOAL),
    (Reward("pick", 7, "held", 1.0, 100, 1.0), 300, Cause.WRONG_RETURN),
    (Reward("pick", 6, "aligned", 0.5, 100, 0.5), 300, Cause.WRONG_EPISODE),
    (Reward("pick", 8, "aligned", 0.5, 100, 0.5), 300, Cause.WRONG_EPISODE),
    (GOOD, -51, Cause.FROM_THE_FUTURE),
    (GOOD, 2001, Cause.TOO_LATE),
    (Reward("pick", 7, "aligned", "0.5", 100, 0.5), 300, Cause.MALFORMED),
    (Reward("pick", "7", "aligned", 0.5, 100, 0.5), 300, Cause.MALFORMED),
    (None, 300, Cause.MALFORMED),
])  # fmt: skip
def test_one_reward_that_cannot_be_trips_at_once_and_says_why(reward: Any, age_ms: int, cause: Cause) -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    trip = made.observe(reward, age_ms * MS, 5)
    assert trip is not None and trip is made.trip
    assert (trip.cause, trip.now_ns) == (cause, 5) and trip.reason


def test_sender_that_is_not_trusted_trips_once() -> None:
    made = breaker()
    trip = made.distrust("2 publishers of /reward", 3)
    assert trip is not None and (trip.cause, trip.now_ns) == (Cause.SENDER, 3)
    assert made.distrust("again", 4) is None and made.trip is trip


def test_reward_paid_twice_trips() -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    assert made.observe(GOOD, 300 * MS, 0) is None
    trip = made.observe(GOOD, 300 * MS, 1)
    assert trip is not None and trip.cause is Cause.PAID_TWICE


def test_order_is_that_of_stamps_not_of_arrival() -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    assert made.observe(Reward("pick", 7, "touched", 0.5, 200, 1.0), 300 * MS, 0) is None
    assert made.observe(Reward("pick", 7, "aligned", 0.5, 200, 0.5), 300 * MS, 0) is None
    trip = made.observe(Reward("pick", 7, "held", 1.0, 199, 2.0), 300 * MS, 0)
    assert trip is not None and trip.cause is Cause.OUT_OF_ORDER


def test_reward_that_never_came_though_a_later_one_did_is_said() -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    made.observe(Reward("pick", 7, "touched", 0.5, 200, 1.0), 300 * MS, 0)
    made.finish("pick", 7, 0)
    assert made.advance(2000 * MS) is None
    assert [notice.kind for notice in made.notices()] == ["reward_lost"]


def test_reward_that_comes_after_its_episode_ended_counts_until_it_would_be_too_late() -> None:
    made = breaker()
    made.begin("pick", 1, 0)
    pay(made, 1, list(TABLE)[:4])
    made.finish("pick", 1, 0)
    made.begin("pick", 2, 100 * MS)
    made.observe(Reward("pick", 1, "kept", 6.0, 100, FULL), 300 * MS, 300 * MS)
    assert made.advance(2000 * MS) is None
    assert made.state()["windows"]["pick"]["returns"] == [1.0]
    late = made.observe(Reward("pick", 1, "kept", 6.0, 100, FULL), 300 * MS, 2001 * MS)
    assert late is not None and late.cause is Cause.WRONG_EPISODE


def test_step_of_the_stamps_clock_makes_a_reward_not_count_but_trips_nothing() -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    for age_h in (-1, 1):
        assert made.observe(GOOD, age_h * 3600 * 1000 * MS, 0, believe_age=False) is None
    assert made.trip is None and made.ignored == 2
    assert made.observe(Reward("pick", 7, "aligned", 5.0, 100, 5.0), 0, 0, believe_age=False) is not None


@pytest.mark.parametrize("spike", [10.0, -1.0, -10.0])
def test_return_that_is_ten_times_as_large_or_turned_round_is_an_outlier_where_the_table_is_not_asked(
    spike: float,
) -> None:
    made = breaker()
    for _ in range(29):
        made.judge_return("pick", 1.0, 0)
    assert made.judge_return("pick", spike, 0) is None, "fewer than 30 returns say nothing"
    made = breaker()
    for _ in range(30):
        made.judge_return("pick", 1.0, 0)
    trip = made.judge_return("pick", spike, 9)
    assert trip is not None and trip.cause is Cause.OUTLIER
    assert made.state()["windows"]["pick"]["returns"] == [1.0] * 30, "what trips does not become normal"


def test_tripped_breaker_counts_nothing_until_somebody_rearms_it() -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    first = made.observe(Reward("pick", 7, "shaped", 1.0, 0, 1.0), 0, 0)
    made.observe(Reward("pick", 7, "other", 1.0, 0, 1.0), 0, 1)
    made.begin("pick", 8, 2)
    made.finish("pick", 7, 2)
    assert made.advance(10_000 * MS) is None and made.trip is first and made.ignored == 1
    made.rearm()
    assert made.trip is None
    run(made, 9, 5)
    assert made.state()["windows"]["pick"]["returns"] == [1.0]


def test_breaker_closed_in_the_middle_of_an_episode_does_not_trip_at_its_next_honest_reward() -> None:
    made = breaker()
    made.begin("pick", 7, 0)
    made.observe(Reward("pick", 7, "aligned", 100.0, 1, 100.0), 0, 1)
    made.begin("pick", 8, 2)
    assert made.trip is not None
    made.rearm()
    for episode in (7, 8):
        assert made.observe(Reward("pick", episode, "touched", 0.5, 3, 1.0), 0, 3) is None, "it was under way"
    assert made.ignored == 2
    assert made.observe(Reward("pick", 9, "aligned", 0.5, 3, 0.5), 0, 3) is not None, "this one never began"
    made.rearm()
    assert made.observe(Reward("pick", 8, "held", 100.0, 4, 100.0), 0, 4) is not None, "a spike trips whenever it comes"
    made.rearm()
    run(made, 10, 5)
    assert made.state()["windows"]["pick"]["returns"] == [1.0]


def test_falling_returns_are_said_and_trip_nothing() -> None:
    made = breaker()
    rng = random.Random(3)
    said = []
    for episode in range(400):
        run(made, episode, 5 if rng.random() < (0.95 if episode < 200 else 0.45) else 2)
        said += [(episode, notice.kind) for notice in made.notices()]
    assert made.trip is None
    assert [kind for _, kind in said] == ["reward_drift"] and 200 < said[0][0] < 240, said


def test_successes_that_nobody_pays_for_are_said() -> None:
    made = breaker()
    run(made, 0, 5, success=True)
    for episode in range(1, 6):
        run(made, episode, 0, success=True)
    (notice,) = made.notices()
    assert notice.kind == "reward_silent"


def test_run_without_a_reward_server_misses_no_rewards() -> None:
    made = breaker()
    for episode in range(20):
        run(made, episode, 0, success=True)
    assert made.notices() == [] and made.state()["windows"] == {}


def test_state_is_plain_json_also_after_a_trip_on_nan() -> None:
    made = breaker()
    run(made, 1, 5)
    made.begin("pick", 2, 0)
    made.observe(Reward("pick", 2, "aligned", math.nan, 0, 0.5), 0, 0)
    state = json.loads(json.dumps(made.state(), allow_nan=False))
    assert state["trip"]["cause"] == "not_finite" and state["table"] == TABLE


def test_memory_stays_bounded_however_many_episodes_are_left_open() -> None:
    made = breaker()
    for episode in range(1000):
        made.begin(f"skill {episode % 3}", episode, 0)
    assert len(made.state()["open"]) <= 16 and made.trip is None


@pytest.mark.parametrize("table", [{}, {"held": 0.0}, {"held": -1.0}, {"held": math.nan}, {"held": math.inf}])
def test_table_without_subgoals_or_with_rewards_that_say_nothing_is_refused(table: Any) -> None:
    with pytest.raises(InvalidInputError):
        breaker(table)


def test_window_shorter_than_what_it_needs_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="samples_min"):
        BreakerLimits(30, 31, 3.0, 0.5, 50.0, 2000.0)


junk = st.one_of(st.none(), st.floats(), st.integers(), st.text(max_size=8), st.booleans(), st.binary(max_size=3))


@given(st.lists(st.tuples(junk, junk, st.sampled_from([*TABLE, "x", None]), junk, junk, junk), max_size=20))
def test_nothing_that_comes_in_escapes_the_breaker(rows: list[tuple[Any, ...]]) -> None:
    made = breaker()
    made.begin("pick", 0, 0)
    for skill, episode, subgoal, value, total, age in rows:
        made.observe(Reward(skill, episode, subgoal, value, age, total), age, 0)
        if made.trip is not None:
            made.rearm()
            made.begin("pick", 0, 0)
    json.dumps(made.state())
