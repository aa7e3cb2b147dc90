"""Hand-over between agents' processes by the shared state of their task."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from tether.agent.calls import Fact
from tether.errors import InvalidInputError, TetherError
from tether.memory import handover_bench
from tether.memory.redis_server import RedisServer, connect
from tether.memory.working import Change, WorkingMemory


def record(turns: int) -> list[Change]:
    """Turns of which each takes 3 ms from before its write until it was read."""
    changes = []
    for turn in range(turns):
        facts = (Fact("received_ns", str(turn * 10_000_000 - 7_000_000), 0, "a"), Fact("wrote_ns", "2000000", 0, "a"))
        agent = handover_bench.AGENTS[turn % 3]
        changes.append(Change(f"turn-{turn}", turn * 10_000_000, agent, facts, sequence=turn + 1))
    return changes


@pytest.mark.timeout(300)
def test_three_agents_in_processes_of_their_own_hand_over_by_the_record_and_no_turn_is_lost() -> None:
    parser = argparse.ArgumentParser()
    handover_bench.add_arguments(parser)
    result = handover_bench.measure(parser.parse_args(["--turns", "12"]))
    assert result.metrics["handover_alone"].n == result.metrics["handover_beside_sensing"].n == 11
    assert 0.0 < result.metrics["handover_alone"].min <= result.metrics["handover_alone"].p99
    assert result.metrics["write_alone"].min > 0.0


def test_too_few_turns_to_measure_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="6 or more"):
        handover_bench.measure(argparse.Namespace(turns=5))


def test_times_are_told_from_the_record() -> None:
    times_ms, writes_ms = handover_bench.handovers_ms(record(9), 9)
    assert times_ms == pytest.approx([3.0] * 8)
    assert writes_ms == pytest.approx([2.0] * 5)


def test_a_turn_that_is_missing_double_or_of_another_agent_fails_the_benchmark() -> None:
    whole = record(6)
    doubled = [*whole, replace(whole[-1], sequence=7)]
    foreign = [*whole[:3], replace(whole[3], source="base"), *whole[4:]]
    for changes, message in (
        (whole[:-1], "5 turns, expected 6: they differ from turn 5 on"),
        (doubled, "7 turns, expected 6"),
        (foreign, "differ from turn 3 on"),
        ([*whole[:2], *whole[3:]], "has a gap"),
    ):
        with pytest.raises(TetherError, match=message):
            handover_bench.handovers_ms(changes, 6)


def test_a_task_says_how_many_follow_it(redis_server: RedisServer) -> None:
    memory = WorkingMemory(connect(redis_server.url), "t1")
    assert memory.followers() == 0
    following = memory.follow(silence_s=0.1)
    next(following)
    assert memory.followers() == 1
    following.close()
