"""`classic` through the whole core loop, rendered pictures and gate included."""

from __future__ import annotations

import pytest

from tether.contracts import EpisodeResult, Stream
from tether.rollout import Rollout


def _episode(task: str, profile: str, seed: int) -> tuple[EpisodeResult, list[str], set[Stream]]:
    hashes: list[str] = []
    streams: set[Stream] = set()
    with Rollout("classic", task, profile) as rollout:
        for delivery, trace in rollout.ticks(seed):
            if trace is not None and trace.decision is not None:
                hashes.append(trace.decision.state_hash)
                streams |= {ref.stream for ref in trace.decision.used}
            if delivery.result is not None:
                return delivery.result, hashes, streams
    raise AssertionError("a world ends every episode with a result")


@pytest.mark.parametrize(("task", "profile"), [("pick", "real"), ("pick_moving", "real")])
def test_cube_is_picked_from_the_sensors_alone(task: str, profile: str) -> None:
    result, _, streams = _episode(task, profile, 10_000)
    assert result.success, result.failure
    assert Stream.TRUTH not in streams


def test_same_seed_gives_the_same_decisions() -> None:
    assert _episode("pick", "real", 10_001)[1] == _episode("pick", "real", 10_001)[1]
