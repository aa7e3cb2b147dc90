"""Times along a decision's way, read from a recording made in real time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tether import topics
from tether.bags.reader import open_bag
from tether.codec import convert, decode
from tether.contracts import DECISION_NS, Stream
from tether.ingest.rejection import Reason

_READ = {
    topic.name: topic
    for topic in (
        topics.IMAGE,
        topics.IMAGE_FEATURE,
        topics.MODALITY_STATUS,
        topics.IMU,
        topics.IMU_BATCH,
        topics.FUSED_STATE,
        topics.POLICY_OUTPUT,
        topics.PROPOSED,
        topics.VERDICT,
        topics.EPISODE_START,
    )
}


class Split(NamedTuple):
    """One decision's way in ms, step by step; the steps add up to its `sensor_to_command_ms`.

    wait: newest sample arrived at fusion → fusion began. fusion, policy: what each computes, the models included.
    handover: bridge, transport and the wait for the executor's tick. gate: transport and the wait for the gate's tick.
    """

    wait: float
    fusion: float
    policy: float
    handover: float
    gate: float


@dataclass
class Way:
    """Lists of times in ms, one entry a decision, and counts.

    wait: newest sample arrived → fusion began. sensor_to_command: newest sample arrived → first gated command of the
    decision. decision_to_command: the same without the wait. interval: between decisions. splits: of the decisions that
    came through to the gate. missed: decisions that a period passed without. holds: how often the gate held a robot
    that it had let move in the same episode, by the check named first. pictures, imu_samples: messages of the
    sensors; features, imu_taken: those of them that ingest handed on. pictures_missed: those that camera ingest never
    came to take, since a newer one stood in their place or the transport lost them.
    """

    wait_ms: list[float] = field(default_factory=list)
    fusion_ms: list[float] = field(default_factory=list)
    policy_ms: list[float] = field(default_factory=list)
    decode_ms: list[float] = field(default_factory=list)
    decision_to_proposal_ms: list[float] = field(default_factory=list)
    proposal_to_gate_ms: list[float] = field(default_factory=list)
    sensor_to_command_ms: list[float] = field(default_factory=list)
    decision_to_command_ms: list[float] = field(default_factory=list)
    camera_age_ms: list[float] = field(default_factory=list)
    interval_ms: list[float] = field(default_factory=list)
    splits: list[Split] = field(default_factory=list)
    decisions: int = 0
    missed: int = 0
    pictures: int = 0
    pictures_missed: int = 0
    features: int = 0
    imu_samples: int = 0
    imu_taken: int = 0
    holds: Counter[str] = field(default_factory=Counter)


def joined(ways: Sequence[Way]) -> Way:
    """All of them as one: lists one after the other, counts summed."""
    whole = Way()
    for way in ways:
        for name, value in vars(way).items():
            setattr(whole, name, getattr(whole, name) + value)
    return whole


def read_way(bag: Path) -> Way:
    """Read a recording's times; in lockstep recordings they are zero and the lists stay empty.

    Decisions that begin more than a period after the last sample has arrived are left out: a graph whose play has ended
    decides on until it is taken down, ever longer after a sample.
    """
    way = Way()
    states: dict[tuple[int, int], Any] = {}
    policies: dict[tuple[int, int], float] = {}
    proposals: dict[tuple[int, int], int] = {}
    verdicts: dict[tuple[int, int], list[int]] = {}
    holds = _Holds()
    with open_bag(bag) as opened:
        wanted = [name for name in opened.topics if name in _READ]
        for message in opened.messages(topics=wanted, check=False):
            topic = _READ[message.topic]
            if topic is topics.IMAGE:
                way.pictures += 1
                continue
            if topic is topics.IMU:
                way.imu_samples += 1
                continue
            msg = decode(message.raw, topic.type)
            if topic is topics.IMAGE_FEATURE:
                way.features += msg.accepted
                way.decode_ms.append(msg.decode_ns * 1e-6)
            elif topic is topics.MODALITY_STATUS:
                if msg.modality == Stream.CAMERA.value:
                    drops = dict(zip(msg.drop_reasons, map(int, msg.drop_counts), strict=True))
                    way.pictures_missed = drops.get(Reason.MISSED.value, 0)
            elif topic is topics.IMU_BATCH:
                way.imu_taken += len(msg.samples)
            elif topic is topics.FUSED_STATE:
                states[int(msg.episode), int(msg.decision_id)] = msg
            elif topic is topics.POLICY_OUTPUT:
                output = convert.policy_output_from(msg)
                if output.latency_ns:
                    policies[int(msg.action.episode), output.action.decision_id] = 1e-6 * sum(
                        output.latency_ns.values()
                    )
            elif topic is topics.PROPOSED and msg.steady_ns:
                proposals.setdefault((int(msg.episode), int(msg.decision_id)), int(msg.steady_ns))
            elif topic is topics.VERDICT and msg.steady_ns:
                holds.add(msg)
                verdicts.setdefault((int(msg.episode), int(msg.decision_id)), []).append(int(msg.steady_ns))
    way.policy_ms += policies.values()
    way.holds = holds.begun
    sampled_until_ns = max((state.arrival_steady_ns for state in states.values()), default=0) + DECISION_NS
    states = {key: state for key, state in states.items() if state.start_steady_ns <= sampled_until_ns}
    for key, state in states.items():
        if state.end_steady_ns and state.arrival_steady_ns:
            _add_decision(way, state, policies.get(key, 0.0), proposals.get(key), verdicts.get(key, []))
    _count_intervals(way, [states[key] for key in sorted(states)])
    return way


class _Holds:
    """Counts the changes from a verdict that lets something pass to one that lets nothing."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self._moved_in: int | None = None

    def add(self, msg: Any) -> None:
        """The next verdict. That of an episode's beginning, before anything has moved, is no hold."""
        if msg.scale > 0.0:
            self._moved_in = int(msg.episode)
        elif self._moved_in is not None:
            if self._moved_in == int(msg.episode):
                checks = [check for check, scale in zip(msg.checks, msg.scales, strict=True) if scale == 0.0]
                self.begun[checks[0] if checks else "unnamed"] += 1
            self._moved_in = None


def _add_decision(way: Way, state: Any, policy_ms: float, proposed_ns: int | None, gated_ns: Sequence[int]) -> None:
    """Times of one decision. proposed_ns, gated_ns: steady times of its first proposal and of its gate ticks."""
    way.decisions += 1
    way.wait_ms.append((state.start_steady_ns - state.arrival_steady_ns) * 1e-6)
    way.fusion_ms.append((state.end_steady_ns - state.start_steady_ns) * 1e-6)
    way.camera_age_ms += [age.age_ns * 1e-6 for age in state.ages if age.modality == "camera"]
    if proposed_ns is None:
        return
    way.decision_to_proposal_ms.append((proposed_ns - state.end_steady_ns) * 1e-6)
    # As an episode begins, the gate's ticks still bear the number of a decision of the one before.
    command_ns = next((ns for ns in gated_ns if ns >= proposed_ns), None)
    if command_ns is not None:
        way.proposal_to_gate_ms.append((command_ns - proposed_ns) * 1e-6)
        way.sensor_to_command_ms.append((command_ns - state.arrival_steady_ns) * 1e-6)
        way.decision_to_command_ms.append((command_ns - state.start_steady_ns) * 1e-6)
        handover_ms = way.decision_to_proposal_ms[-1] - policy_ms
        gate_ms = way.proposal_to_gate_ms[-1]
        way.splits.append(Split(way.wait_ms[-1], way.fusion_ms[-1], policy_ms, handover_ms, gate_ms))


def _count_intervals(way: Way, states: Sequence[Any]) -> None:
    """A decision is missed where the next one came more than one and a half periods later."""
    for before, after in itertools.pairwise(states):
        if before.episode != after.episode or not before.start_steady_ns:
            continue
        interval_ns = after.start_steady_ns - before.start_steady_ns
        way.interval_ms.append(interval_ns * 1e-6)
        way.missed += max(0, round(interval_ns / DECISION_NS) - 1)
