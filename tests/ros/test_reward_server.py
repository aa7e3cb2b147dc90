"""The reward server in the live graph: it pays what the world's states are worth, and nobody else hears them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from graph_tools import Listener, messages_of

from tether import topics
from tether.assembly import make_pipeline, make_world, profile, skill_of_task
from tether.codec import convert
from tether.codec.convert.reward import reward_from, reward_message
from tether.contracts import EpisodeSpec
from tether.eval.graph import GraphRun, run_graph
from tether.eval.result import Setting
from tether.rewards.build import make_reward_server
from tether.rewards.config import Subgoal
from tether.rewards.ledger import Payment
from tether.rewards.server import Reward
from tether.safety.stage import for_world

NODES = Path(__file__).parents[2] / "ros2_ws" / "src"
SETTING = Setting("scripted", "pick_moving", "real", True, 7)


@dataclass(frozen=True)
class RewardedRun(GraphRun):
    """A run of the graph with the reward server."""

    def arguments(self, results: Path, domain: int) -> dict[str, str]:
        return {**super().arguments(results, domain), "rewards": "true"}


def core_rewards(seeds: list[int], starts_ns: list[int]) -> list[Reward]:
    """What the core loop earns in the same episodes, commands and states handed over in the wrong order."""
    server = make_reward_server(SETTING.task, SETTING.profile, seeds[0])
    world = make_world(SETTING.task, SETTING.profile, truth_age_ns=0, pictures=False, measures=True)
    pipeline = make_pipeline(SETTING.policy, SETTING.profile)
    for episode, (seed, start_ns) in enumerate(zip(seeds, starts_ns, strict=True)):
        delivery = world.reset(EpisodeSpec(SETTING.task, SETTING.profile, seed), start_ns)
        pipeline.reset(skill_of_task(SETTING.task), seed)
        while True:
            server.take_state(episode, world.measure())
            if delivery.executed is not None:
                server.take_executed(episode, delivery.executed)
            if delivery.result is not None:
                break
            delivery = world.step(for_world(pipeline.tick(delivery).gated))
    world.close()
    return server.rest()


@pytest.mark.ros
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_graphs_rewards_are_the_core_loops_and_only_the_server_is_shown_the_states(
    domain: int, tmp_path: Path
) -> None:
    run = RewardedRun(SETTING, 2, bag=tmp_path / "bag", composed=True)
    with Listener(domain, watched=[topics.MEASURES, topics.REWARD]) as listener:
        results = run_graph(run)
    starts = messages_of(run.bag, topics.EPISODE_START)
    expected = core_rewards([int(s.seed) for s in starts], [convert.to_ns(s.stamp) for s in starts])
    paid = [reward_from(msg) for msg in messages_of(run.bag, topics.REWARD)]
    assert paid == expected
    assert all(result.success for result in results) and len(paid) == 10
    delay_ns = round(profile(SETTING.profile).reward.delay.latency_s * 1e9)
    assert {reward.delivered_ns - reward.payment.stamp_ns for reward in paid} == {delay_ns}
    assert listener.named(topics.MEASURES) == {"world"}
    assert listener.named(topics.REWARD) == {"reward_server"}
    assert not listener.events("stage_failed") and not listener.events("malformed_message")


def sources_naming(what: str) -> set[str]:
    return {path.stem for path in NODES.glob("*/*/*.py") if re.search(rf"topics\.{what}\b", path.read_text("utf-8"))}


def test_only_the_world_and_the_reward_server_know_of_the_measured_states() -> None:
    assert sources_naming("MEASURES") == {"world", "reward_server"}
    assert topics.MEASURES not in topics.RECORDED, "what is recorded, a policy could be trained on by mistake"


def test_nobody_but_the_reward_server_publishes_rewards_and_it_offers_no_service() -> None:
    publishing = {
        path.stem for path in NODES.glob("*/*/*.py") if "self.outlet(topics.REWARD)" in path.read_text("utf-8")
    }
    assert publishing == {"reward_server"}
    source = (NODES / "tether_opd" / "tether_opd" / "reward_server.py").read_text("utf-8")
    assert "self.service(" not in source and "create_service" not in source
    assert "self.inlet(topics.REWARD" not in source, "it takes what was measured, never what was claimed"


def test_rewards_survive_their_message() -> None:
    reward = Reward(Payment(Subgoal.HELD, 0.2, 1_234_567_891, 0.4), 3, 1_534_567_891)
    assert reward_from(reward_message(reward)) == reward
    message: Any = reward_message(reward)
    message.value = float("nan")
    with pytest.raises(ValueError, match="value"):
        reward_from(message)
