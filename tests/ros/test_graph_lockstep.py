"""In lockstep the live graph computes bit for bit what the core loop computes, with the same results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graph_tools import Listener, counts_of, messages_of

from tether import topics
from tether.codec import convert, encode, sensors
from tether.contracts import Decision, EpisodeResult, GateOutput
from tether.eval.graph import GraphRun, run_graph
from tether.eval.result import Setting
from tether.rollout import Rollout

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(400)]

TRUTH_ALONE = {topics.TRUTH.name}
AGENT_ALONE = {topics.SKILL_ORDER.name, topics.SKILL_REPORT.name}
NEVER = {topics.COMPRESSED_IMAGE.name, topics.DIAGNOSTICS.name, topics.REWARD.name} | AGENT_ALONE
"""Topics that are recorded where somebody publishes them; the simulated graph, as it starts by default, does not."""


def core(policy: str, task: str, profile: str, seeds: list[int], starts_ns: list[int]) -> Any:
    """Results, decisions and gated commands of the core loop; episodes start when the graph's did."""
    results: list[EpisodeResult] = []
    decisions: list[tuple[int, Decision]] = []
    gated: list[GateOutput] = []
    with Rollout(policy, task, profile) as rollout:
        for episode, (seed, start_ns) in enumerate(zip(seeds, starts_ns, strict=True)):
            for delivery, trace in rollout.ticks(seed, start_ns):
                if trace is None:
                    assert delivery.result is not None
                    results.append(delivery.result)
                    continue
                gated.append(trace.gated)
                if trace.decision is not None:
                    decisions.append((episode, trace.decision))
    return results, decisions, gated


def assert_recording_is_what_the_core_computes(bag: Path, results: list[EpisodeResult], setting: Setting) -> None:
    starts = messages_of(bag, topics.EPISODE_START)
    seeds = [int(start.seed) for start in starts]
    assert seeds == list(range(setting.seed, setting.seed + len(results)))
    starts_ns = [convert.to_ns(start.stamp) for start in starts]
    core_results, decisions, gated = core(setting.policy, setting.task, setting.profile, seeds, starts_ns)
    assert results == core_results
    recorded = messages_of(bag, topics.DECISION)
    threads = int(recorded[0].threads)  # of the graph's processes; a test's own may have others
    expected = [
        convert.decision_message(replace(decision, threads=threads), episode) for episode, decision in decisions
    ]
    assert [encode(msg) for msg in recorded] == [encode(msg) for msg in expected]
    commands = [encode(msg) for msg in messages_of(bag, topics.JOINT_COMMAND)]
    assert commands == [encode(sensors.joint_command_message(output.command)) for output in gated]
    twists = [encode(msg) for msg in messages_of(bag, topics.CMD_VEL)]
    assert twists == [encode(sensors.twist_message(output.command)) for output in gated]


def test_classic_in_processes_of_their_own_is_the_core_loop_bit_for_bit(recorded_run: Any) -> None:
    r = recorded_run
    setting = Setting(r.policy, r.task, r.profile, True, r.seed)
    assert_recording_is_what_the_core_computes(r.bag, r.results, setting)


@pytest.mark.parametrize("task", ["pick", "pick_moving"])
def test_oracle_in_one_process_is_the_core_loop_bit_for_bit_over_episodes(
    domain: int, tmp_path: Path, task: str
) -> None:
    setting = Setting("scripted", task, "ideal", True, 7)
    run = GraphRun(setting, 2, bag=tmp_path / "bag", composed=True)
    with Listener(domain, watched=[topics.TRUTH]) as listener:
        results = run_graph(run)
    assert_recording_is_what_the_core_computes(run.bag, results, setting)
    assert listener.named(topics.TRUTH) == {"world"}, "an oracle's world publishes the truth"
    assert not listener.events("malformed_message")
    assert not listener.events("stage_failed")


def test_classic_on_a_moving_target_is_the_core_loop_and_sees_no_truth(domain: int, tmp_path: Path) -> None:
    setting = Setting("classic", "pick_moving", "ideal", True, 3)
    run = GraphRun(setting, 1, bag=tmp_path / "bag", composed=True)
    with Listener(domain, watched=[topics.TRUTH, topics.IMAGE]) as listener:
        results = run_graph(run)
    assert_recording_is_what_the_core_computes(run.bag, results, setting)
    assert listener.named(topics.IMAGE) == {"world"}, "the listener saw who publishes"
    assert listener.publishers[topics.TRUTH.name] == set(), "the truth channel is absent, not merely unused"


def test_recording_holds_every_topic_that_the_graph_has(recorded_run: Any) -> None:
    expected = {topic.name for topic in topics.RECORDED} - NEVER - TRUTH_ALONE
    counts = counts_of(recorded_run.bag)
    assert set(counts) == expected
    ticks = counts[topics.TICK_PLAN.name]
    for topic in (topics.IMU_BATCH, topics.PROPOSED, topics.VERDICT, topics.JOINT_COMMAND, topics.CMD_VEL):
        assert counts[topic.name] == ticks, topic.name
    for topic in (topics.FUSED_STATE, topics.POLICY_OUTPUT, topics.DECISION):
        assert counts[topic.name] == (ticks + 4) // 5, topic.name
    pictures = counts[topics.IMAGE.name]
    assert counts[topics.CAMERA_INFO.name] == pictures, "every picture has its camera_info"
    # what the world delivers as the episode ends is decided on by nobody
    assert pictures - counts[topics.IMAGE_FEATURE.name] in (0, 1), "every picture has its feature"


def test_recording_opens_with_other_peoples_readers(recorded_run: Any) -> None:
    from mcap.reader import make_reader
    from rosbags.highlevel import AnyReader

    expected = counts_of(recorded_run.bag).total()
    with AnyReader([recorded_run.bag]) as reader:
        assert reader.message_count == expected
        assert sum(1 for _ in reader.messages()) == expected
    seen = 0
    for path in sorted(recorded_run.bag.glob("*.mcap")):
        with path.open("rb") as file:
            seen += sum(1 for _ in make_reader(file, validate_crcs=True).iter_messages())
    assert seen == expected
