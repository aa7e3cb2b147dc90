"""Episodes of the core loop: the same for the same seed, wherever on the clock they begin."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tether.assembly import make_pipeline, skill_of_task
from tether.contracts import DECISION_NS, TICK_NS, TICKS_PER_DECISION, Decision, SampleRef
from tether.pipeline import TickTrace
from tether.rollout import EPISODE_START_NS, Rollout

TICKS = 80
LATER_NS = 1_234_567_890_123_450_000


def traces(rollout: Rollout, seed: int, start_ns: int) -> list[TickTrace]:
    kept = []
    for _, trace in rollout.ticks(seed, start_ns):
        if trace is None or len(kept) == TICKS:
            break
        kept.append(trace)
    return kept


def plain(value: Any, shift_ns: int) -> Any:
    """A record as plain values, its stamps moved back by `shift_ns`; hashes hold stamps and are left out."""
    if isinstance(value, SampleRef):
        return (value.stream, value.stamp_ns - shift_ns, value.sequence)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_field(f.name, getattr(value, f.name), shift_ns) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    if isinstance(value, tuple):
        return tuple(plain(item, shift_ns) for item in value)
    return value


def plain_field(name: str, value: Any, shift_ns: int) -> Any:
    if name == "stamp_ns":
        return value - shift_ns
    return None if name in ("state_hash", "tick") else plain(value, shift_ns)


@pytest.mark.parametrize(
    ("policy", "task", "profile"), [("classic", "pick", "real"), ("scripted", "pick_moving", "real")]
)
def test_episode_that_begins_at_another_time_is_the_same_episode(policy: str, task: str, profile: str) -> None:
    with Rollout(policy, task, profile) as rollout:
        first = traces(rollout, 3, EPISODE_START_NS)
        later = traces(rollout, 3, LATER_NS)
    assert len(first) == TICKS
    shift_ns = LATER_NS - EPISODE_START_NS
    for tick, (a, b) in enumerate(zip(first, later, strict=True)):
        assert plain(a.decision, 0) == plain(b.decision, shift_ns), f"decision at tick {tick}"
        assert plain(a.proposed, 0) == plain(b.proposed, shift_ns), f"command at tick {tick}"
        assert plain(a.gated, 0) == plain(b.gated, shift_ns), f"gate at tick {tick}"


def test_same_seed_gives_the_same_episode_and_another_seed_another() -> None:
    with Rollout("scripted", "pick", "real") as rollout:
        first, again, other = (traces(rollout, seed, EPISODE_START_NS) for seed in (1, 1, 2))
    decided = [[plain(t.decision, 0) for t in kept if t.decision is not None] for kept in (first, again, other)]
    assert decided[0] == decided[1]
    assert decided[0] != decided[2]


def test_a_decision_comes_every_fifth_tick_and_holds_in_between() -> None:
    with Rollout("scripted", "pick", "ideal") as rollout:
        kept = traces(rollout, 0, EPISODE_START_NS)
    for tick, trace in enumerate(kept):
        assert (trace.decision is not None) == (tick % TICKS_PER_DECISION == 0)
        assert (trace.state is not None) == (trace.decision is not None)
        if trace.proposed is not None:
            assert trace.proposed.decision_id == tick // TICKS_PER_DECISION
    decisions: list[Decision] = [t.decision for t in kept if t.decision is not None]
    assert [d.action.decision_id for d in decisions] == list(range(len(decisions)))
    steps = np.diff([d.action.stamp_ns for d in decisions])
    assert set(steps.tolist()) == {DECISION_NS}
    assert DECISION_NS == TICKS_PER_DECISION * TICK_NS


def test_decision_names_only_what_had_arrived() -> None:
    with Rollout("classic", "pick", "real") as rollout:
        for delivery, trace in rollout.ticks(0):
            if trace is None or delivery.tick > TICKS:
                break
            if trace.decision is not None:
                assert all(ref.stamp_ns <= delivery.stamp_ns for ref in trace.decision.used)
                assert all(age >= 0 for age in trace.decision.age_ns.values())


def test_reset_pipeline_is_as_new() -> None:
    with Rollout("scripted", "pick", "ideal") as rollout:
        used = make_pipeline("scripted", "ideal")
        for _ in range(2):
            used.reset(skill_of_task("pick"), 0)
            for delivery, trace in rollout.ticks(0):
                if trace is None or delivery.tick == 30:
                    break
                again = used.tick(delivery)
                assert plain(again.gated, 0) == plain(trace.gated, 0)
