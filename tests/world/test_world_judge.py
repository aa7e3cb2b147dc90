"""Success, attempts and failures, tick by tick."""

from __future__ import annotations

from tether.contracts import EpisodeResult, EpisodeSpec
from tether.world.judge import Failure, Judge
from tether.world.task import SuccessSpec

_RULES = SuccessSpec(lift_m=0.05, hold_s=1.0, time_limit_s=20.0, max_attempts=4)
_REST = 0.012


def _judge() -> Judge:
    return Judge(EpisodeSpec("pick", "real", 1), _RULES, _REST, 0.6)


def _play(judge: Judge, steps: list[tuple[float, float, int]]) -> EpisodeResult | None:
    """steps: (height above rest, commanded share of the opening, ticks)."""
    for height, share, ticks in steps:
        for _ in range(ticks):
            result = judge.tick(_REST + height, 0.04, share)
            if result is not None:
                return result
    return None


def test_lifted_for_one_second_is_success_at_the_first_attempt() -> None:
    result = _play(_judge(), [(0.0, 1.0, 50), (0.0, 0.0, 50), (0.051, 0.0, 100)])
    assert result is not None and result.success and result.first_attempt_success
    assert result.attempts == 1 and result.failure is None
    assert abs(result.duration_s - 2.0) < 1e-9


def test_lifted_for_less_than_a_second_is_not_success() -> None:
    assert _play(_judge(), [(0.0, 0.0, 10), (0.06, 0.0, 99), (0.049, 0.0, 1), (0.06, 0.0, 99)]) is None


def test_lifted_by_less_than_5_cm_is_not_success() -> None:
    assert _play(_judge(), [(0.0499, 0.0, 1900)]) is None


def test_time_runs_out_after_20_s() -> None:
    result = _play(_judge(), [(0.0, 1.0, 3000)])
    assert result is not None and result.failure == Failure.TIMEOUT and result.duration_s == 20.0


def test_success_at_a_later_attempt_is_counted_apart() -> None:
    result = _play(_judge(), [(0.0, 1.0, 5), (0.0, 0.0, 5)] * 3 + [(0.06, 0.0, 100)])
    assert result is not None and result.success and not result.first_attempt_success and result.attempts == 3


def test_opening_after_the_fourth_closing_ends_the_episode() -> None:
    result = _play(_judge(), [(0.0, 1.0, 5), (0.0, 0.0, 5)] * 4 + [(0.0, 1.0, 5)])
    assert result is not None and result.failure == Failure.ATTEMPTS and result.attempts == 4


def test_narrowing_the_gripper_for_a_grasp_and_jitter_are_no_closings() -> None:
    judge = _judge()
    _play(judge, [(0.0, 1.0, 5), (0.0, 0.044 / 0.056, 5), (0.0, 0.65, 5), (0.0, 0.0, 1), (0.0, 0.65, 1), (0.0, 0.1, 1)])
    assert judge.attempts == 1


def test_cube_out_of_reach_is_a_failure_of_its_own() -> None:
    result = _judge().tick(_REST, 0.61**2, 1.0)
    assert result is not None and result.failure == Failure.CUBE_LOST
