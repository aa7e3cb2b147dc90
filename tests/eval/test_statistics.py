"""Success rates and what is said beside them."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from tether.contracts import EpisodeResult, EpisodeSpec
from tether.eval.statistics import summarise, wilson


def result(seed: int, success: bool, attempts: int, failure: str | None = None, first: bool = False) -> EpisodeResult:
    return EpisodeResult(EpisodeSpec("pick", "real", seed), success, first, attempts, 2.0 + seed, failure)


@pytest.mark.parametrize(("successes", "n"), [(194, 200), (90, 200), (0, 10), (10, 10), (1, 3), (599, 600)])
def test_wilson_interval_agrees_with_scipy(successes: int, n: int) -> None:
    reference = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((reference.low, reference.high), abs=1e-12)


def test_wilson_of_nothing_says_that_nothing_is_known() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="expected 0 ≤ successes ≤ n"):
        wilson(successes, n)


def test_retries_count_only_episodes_whose_first_attempt_failed() -> None:
    results = [
        result(0, True, 1, first=True),
        result(1, True, 3),
        result(2, False, 4, "attempts used up"),
        result(3, False, 0, "time ran out"),
    ]
    summary = summarise(results)
    assert summary.mean_retries_after_failure == pytest.approx((2 + 3) / 2)
    assert summary.first_attempt_successes == 1
    assert summary.failures == {"attempts used up": 1, "time ran out": 1}
    assert summary.mean_time_s == pytest.approx((2.0 + 3.0) / 2)


def test_summary_without_failures_has_no_mean_of_retries() -> None:
    assert summarise([result(0, True, 1, first=True)]).mean_retries_after_failure is None
