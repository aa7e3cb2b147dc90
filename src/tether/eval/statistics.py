"""What is made of a list of episode results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tether.contracts import EpisodeResult

Z_95 = 1.959963984540054


def wilson(successes: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a share (E. B. Wilson, JASA 22, 1927); (0, 1) where nothing was tried."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}; expected 0 ≤ successes ≤ n")
    if n == 0:
        return 0.0, 1.0
    share = successes / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return low, high


@dataclass(frozen=True)
class Summary:
    """Success, time and retries over episodes.

    mean_retries_after_failure: further attempts after the first one failed, over the episodes in which it did; None
    where it never did. mean_time_s: duration of the successful ones, None without any.
    """

    episodes: int
    successes: int
    success_rate: float
    wilson_low: float
    wilson_high: float
    first_attempt_successes: int
    mean_retries_after_failure: float | None
    mean_time_s: float | None
    failures: dict[str, int]


def summarise(results: Sequence[EpisodeResult]) -> Summary:
    """The summary of any number of episodes, none included."""
    n = len(results)
    successes = sum(r.success for r in results)
    low, high = wilson(successes, n)
    retries = [r.attempts - 1 for r in results if r.attempts > 0 and not r.first_attempt_success]
    times = [r.duration_s for r in results if r.success]
    return Summary(
        episodes=n,
        successes=successes,
        success_rate=successes / n if n else 0.0,
        wilson_low=low,
        wilson_high=high,
        first_attempt_successes=sum(r.first_attempt_success for r in results),
        mean_retries_after_failure=sum(retries) / len(retries) if retries else None,
        mean_time_s=sum(times) / len(times) if times else None,
        failures=dict(Counter(r.failure for r in results if r.failure is not None).most_common()),
    )
