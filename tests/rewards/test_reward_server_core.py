"""The server's core: whatever the order of arrival, the same rewards, as late as the profile says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tether.assembly import make_pipeline, make_world, skill_of_task
from tether.contracts import EpisodeSpec, ExecutedCommand, TruthSample
from tether.rewards.build import make_ledger
from tether.rewards.config import ORDER
from tether.rewards.server import Reward, RewardServer
from tether.safety.stage import for_world
from tether.world.profile import Delay

LATE = Delay(0.3, 0.0, 0.0)


@pytest.fixture(scope="module")
def episode() -> tuple[list[TruthSample], list[ExecutedCommand]]:
    """States and executed commands of a pick that succeeds."""
    world = make_world("pick", "ideal_lagged", truth_age_ns=0, pictures=False, measures=True)
    pipeline = make_pipeline("scripted", "ideal_lagged")
    delivery = world.reset(EpisodeSpec("pick", "ideal_lagged", 3), 1_000_000_000)
    pipeline.reset(skill_of_task("pick"), 3)
    states, executed = [world.measure()], []
    while delivery.result is None:
        delivery = world.step(for_world(pipeline.tick(delivery).gated))
        states.append(world.measure())
        assert delivery.executed is not None
        executed.append(delivery.executed)
    world.close()
    assert delivery.result.success
    return states, executed


def served(delay: Delay, messages: list[TruthSample | ExecutedCommand], episode: int = 0) -> RewardServer:
    server = RewardServer(lambda: make_ledger("pick"), delay, seed=3)
    for message in messages:
        hand_over(server, message, episode)
    return server


def hand_over(server: RewardServer, message: TruthSample | ExecutedCommand, episode: int) -> None:
    if isinstance(message, TruthSample):
        server.take_state(episode, message)
    else:
        server.take_executed(episode, message)


def test_rewards_do_not_depend_on_how_states_and_commands_arrive_between_each_other(
    episode: tuple[list[TruthSample], list[ExecutedCommand]],
) -> None:
    states, executed = episode
    in_order = served(LATE, [*states, *executed]).rest()
    assert [reward.payment.subgoal for reward in in_order] == list(ORDER)
    assert served(LATE, [*executed, *states]).rest() == in_order
    for seed in range(3):
        kinds = [True] * len(states) + [False] * len(executed)
        random.Random(seed).shuffle(kinds)
        left, right = iter(states), iter(executed)
        merged: list[TruthSample | ExecutedCommand] = [next(left) if kind else next(right) for kind in kinds]
        server = served(LATE, merged)
        assert server.rest() == in_order
        assert server.lost == 0


def test_kept_is_paid_for_the_tick_at_which_the_worlds_judge_says_success(
    episode: tuple[list[TruthSample], list[ExecutedCommand]],
) -> None:
    states, executed = episode
    assert served(LATE, [*states, *executed]).rest()[-1].payment.stamp_ns == states[-1].ref.stamp_ns


def test_a_reward_comes_late_and_says_what_time_it_belongs_to(
    episode: tuple[list[TruthSample], list[ExecutedCommand]],
) -> None:
    states, executed = episode
    server = RewardServer(lambda: make_ledger("pick"), LATE, seed=3)
    came: list[tuple[int, Reward]] = []
    server.take_state(0, states[0])
    for state, command in zip(states[1:], executed, strict=True):
        server.take_executed(0, command)
        server.take_state(0, state)
        came += [(state.ref.stamp_ns, reward) for reward in server.due(state.ref.stamp_ns)]
    assert len(came) >= 3
    for now_ns, reward in came:
        assert reward.delivered_ns == reward.payment.stamp_ns + 300_000_000 == now_ns
    assert [r.payment.subgoal for r in (*(r for _, r in came), *server.rest())] == list(ORDER)
    assert server.rest() == []


def test_the_last_messages_of_an_episode_may_come_after_the_first_of_the_next(
    episode: tuple[list[TruthSample], list[ExecutedCommand]],
) -> None:
    states, executed = episode
    server = served(LATE, [*states[:-1], *executed[:-1]])
    server.take_state(1, states[0])
    server.take_state(0, states[-1])
    server.take_executed(0, executed[-1])
    assert [reward.payment.subgoal for reward in server.rest()] == list(ORDER)
    server.take_state(2, states[0])
    server.take_state(0, states[-1])
    assert server.rest() == [], "an episode long over pays nothing more"


def test_messages_given_twice_pay_once(episode: tuple[list[TruthSample], list[ExecutedCommand]]) -> None:
    states, executed = episode
    once = served(LATE, [*states, *executed]).rest()
    assert served(LATE, [*states, *executed, *states, *executed]).rest() == once


@pytest.mark.parametrize("lost", [0, 10, 11])
@pytest.mark.parametrize("kind", ["state", "command"])
def test_what_is_lost_is_passed_over_at_once_and_makes_no_later_reward_late(
    episode: tuple[list[TruthSample], list[ExecutedCommand]], kind: str, lost: int
) -> None:
    """To wait for it made every reward of the next 5 s late, and the gate's breaker trips on one that is 2 s late."""
    states, executed = episode
    server = RewardServer(lambda: make_ledger("pick"), LATE, seed=3)
    late_ns = []
    for i, state in enumerate(states):
        now_ns = state.ref.stamp_ns
        if i > 0 and not (kind == "command" and i - 1 == lost):
            server.take_executed(0, executed[i - 1])
        if not (kind == "state" and i == lost):
            server.take_state(0, state)
        late_ns += [now_ns - reward.delivered_ns for reward in server.due(now_ns)]
    assert server.lost == 1
    assert len(late_ns) >= 3 and max(late_ns) <= 10_000_000
    assert len(late_ns) + len(server.rest()) == len(ORDER)


def test_a_topic_that_stays_away_is_given_up_after_a_bounded_while(
    episode: tuple[list[TruthSample], list[ExecutedCommand]],
) -> None:
    states, _ = episode
    server = RewardServer(lambda: make_ledger("pick"), LATE, seed=3)
    late = states[-1]
    for i in range(600):
        ref = late.ref.__class__(late.ref.stream, late.ref.stamp_ns + i * 10_000_000, i)
        server.take_state(0, TruthSample(**{**vars(late), "ref": ref}))
    assert server.lost > 0


def test_dropped_rewards_never_come_and_jitter_repeats_with_the_seed(
    episode: tuple[list[TruthSample], list[ExecutedCommand]],
) -> None:
    states, executed = episode
    assert served(Delay(0.3, 0.0, 0.95), [*states, *executed]).rest() != served(LATE, [*states, *executed]).rest()
    jittery = Delay(0.3, 0.1, 0.0)
    one, two = (served(jittery, [*states, *executed]).rest() for _ in range(2))
    assert one == two
    delays = [reward.delivered_ns - reward.payment.stamp_ns for reward in one]
    assert len(set(delays)) > 1 and all(200_000_000 <= delay <= 400_000_000 for delay in delays)
    assert np.mean(delays) == pytest.approx(3e8, abs=1e8)
