"""The scripted oracle solves both tasks, is deterministic, and is no good with a truth of 120 ms ago."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tether.assembly import robot, skill_of_task, skills
from tether.contracts import Estimate, FusedState, Primitive
from tether.policy.scripted import ScriptedPolicy
from tether.rollout import Rollout


@pytest.mark.parametrize("task_name", ["pick", "pick_moving"])
@pytest.mark.parametrize("profile_name", ["ideal", "real"])
def test_scripted_picks_the_cube_at_the_first_attempt(task_name: str, profile_name: str) -> None:
    with Rollout("scripted", task_name, profile_name) as rollout:
        results = [rollout.episode(seed) for seed in range(70, 74)]
    assert all(r.success for r in results), [(r.spec.seed, r.failure) for r in results]
    assert sum(r.first_attempt_success for r in results) >= 3
    assert all(r.duration_s < 10.0 for r in results)


def test_episodes_repeat_bit_for_bit_through_the_whole_core_loop() -> None:
    def once() -> list[bytes]:
        with Rollout("scripted", "pick_moving", "real") as rollout:
            return [d.executed.command.position.tobytes() for d, _ in rollout.ticks(9) if d.executed is not None]

    assert once() == once()


def test_the_truth_of_120_ms_ago_makes_it_miss_most_first_attempts() -> None:
    with Rollout("scripted", "pick_moving", "real", truth_age_ms=120.0) as rollout:
        first = [rollout.episode(seed).first_attempt_success for seed in range(80, 88)]
    assert sum(first) <= 4


@pytest.fixture
def state() -> Iterator[FusedState]:
    empty = np.zeros((0, 6), np.float32)
    yield FusedState(
        0, 0, (), {}, Estimate.none(0), None, np.zeros((6, 0)), empty, np.zeros(0, np.float32), skill_of_task("pick")
    )


def test_it_refuses_to_act_without_the_truth(state: FusedState) -> None:
    policy = ScriptedPolicy(robot(), skills())
    assert policy.is_oracle
    with pytest.raises(ValueError, match="truth channel"):
        policy.decide(state, None)


def test_it_starts_by_tracking_with_parameters_of_the_skill_table() -> None:
    with Rollout("scripted", "pick", "ideal") as rollout:
        _, trace = next(iter(rollout.ticks(1)))
    assert trace is not None and trace.decision is not None
    action = trace.decision.action
    assert action.primitive is Primitive.TRACK
    skills().checked(action.primitive, action.params)
