"""A stretch of an honest episode as the bytes that the gate hears, played to a gate with messages damaged.

The gate is the real one, with guards, and hears as its node does in real time: bytes are decoded, made a contract of,
and handed to the stage. What cannot be read is refused with ValueError or TetherError, which the node makes an event
of; any other exception would end the node, and is a finding. So is a verdict `internal`, a fault that the gate caught
in itself, and a command past a limit (`tether.safety.audit`).
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tether import topics
from tether.assembly import make_gate_model, robot, skill_of_task
from tether.codec import convert, decode, encode, sensors
from tether.codec.convert.guarding import beat_from, claimed_reward_from, heartbeat_message, servo_sample_from
from tether.codec.convert.reward import REWARD, reward_fields, reward_message
from tether.codec.diagnostics import (
    SERVO,
    SERVO_BUS,
    SERVO_CURRENT,
    SERVO_TEMPERATURE,
    SERVO_VOLTAGE,
    Diagnosis,
    Wellness,
    diagnostics_message,
)
from tether.contracts import (
    TICK_NS,
    EpisodeResult,
    EpisodeSpec,
    ImageFeature,
    ImageSample,
    ImuBatch,
    ImuSample,
    JointSample,
    Mode,
    Stream,
)
from tether.errors import TetherError
from tether.fuzz.damage import damaged
from tether.rewards.build import reward_config
from tether.rewards.config import ORDER
from tether.rewards.ledger import Payment
from tether.rewards.server import Reward
from tether.robot.roles import COMMAND_JOINTS
from tether.rollout import EPISODE_START_NS, Rollout
from tether.safety.audit import Auditor, step_of
from tether.safety.gate_model import GateModel
from tether.safety.guards import Guards
from tether.safety.settings import Check
from tether.safety.stage import GateInputs, GateStage
from tether.safety.supervisor import Supervisor
from tether.safety.token import TokenVerifier, make_token
from tether.topics import Topic

TICKS = 150
POLICY = "classic"
_SKILL = "task"
_RUN_KEY = bytes(range(32))
_UNDAMAGED = 0.25
"""Share of stretches that are left alone, so that gates are also seen to move."""


@dataclass(frozen=True)
class Heard:
    """A message of the tape."""

    topic: Topic
    raw: bytes


@cache
def tape() -> tuple[tuple[Heard, ...], ...]:
    """Per tick, what the gate hears in the first TICKS ticks of a pick."""
    ticks: list[tuple[Heard, ...]] = []
    with Rollout(POLICY, "pick", "ideal_lagged") as run:
        for delivery, trace in run.ticks(0):
            heard: list[tuple[Topic, Any]] = []
            if delivery.tick == 0:
                heard += _of_an_episode()
            joints = [s for s in delivery.samples if isinstance(s, JointSample)]
            imu = tuple(s for s in delivery.samples if isinstance(s, ImuSample))
            heard += [(topics.JOINT_STATES, sensors.joint_state_message(sample)) for sample in joints]
            batch = ImuBatch(0, delivery.tick, delivery.stamp_ns, imu)
            heard.append((topics.IMU_BATCH, convert.imu_batch_message(batch)))
            for picture in (s for s in delivery.samples if isinstance(s, ImageSample)):
                feature = ImageFeature(picture.ref, picture.camera, np.zeros((1, 6), np.float32))
                heard.append((topics.IMAGE_FEATURE, convert.image_feature_message(feature, 0, {})))
            if delivery.executed is not None:
                heard.append((topics.EXECUTED, convert.executed_message(delivery.executed, 0)))
            if trace is not None and trace.decision is not None:
                heard.append((topics.DECISION, convert.decision_message(trace.decision, 0)))
            if trace is not None and trace.proposed is not None:
                now_ns = delivery.stamp_ns
                proposed = convert.proposed_message(trace.proposed, 0, delivery.tick, now_ns, ())
                heard.append((topics.PROPOSED, proposed))
            heard.append((topics.HEARTBEAT, heartbeat_message("policy", 7, ["policy"], [delivery.tick], 0)))
            if delivery.tick % 20 == 0:
                heard.append((topics.DIAGNOSTICS, _diagnostics()))
            if delivery.tick % 20 == 10 and delivery.tick // 20 < len(ORDER):
                heard.append((topics.REWARD, _reward(delivery.tick // 20, delivery.stamp_ns)))
            ticks.append(tuple(Heard(topic, encode(msg)) for topic, msg in heard))
            if len(ticks) == TICKS:
                break
    return tuple(ticks)


@cache
def _model() -> GateModel:
    return make_gate_model(POLICY, servo_health=True)


def _of_an_episode() -> list[tuple[Topic, Any]]:
    spec = EpisodeSpec("pick", "ideal_lagged", 0)
    start = convert.episode_start_message(0, EPISODE_START_NS, spec, POLICY, False, skill_of_task("pick"))
    end = convert.episode_end_message(0, EPISODE_START_NS, EpisodeResult(spec, True, True, 1, 4.0, None))
    return [(topics.EPISODE_START, start), (topics.EPISODE_END, end)]


def _diagnostics() -> Any:
    well = {SERVO_TEMPERATURE: "35", SERVO_CURRENT: "0.10", SERVO_VOLTAGE: "12.0"}
    told = [Diagnosis(Wellness.OK, SERVO + name, "ok", "", well) for name in COMMAND_JOINTS]
    return diagnostics_message(0, [Diagnosis(Wellness.OK, SERVO_BUS, "connected", "", {}), *told])


def _reward(number: int, stamp_ns: int) -> Any:
    values = [reward_config().value.of(subgoal) for subgoal in ORDER[: number + 1]]
    msg = reward_message(Reward(Payment(ORDER[number], values[-1], stamp_ns, sum(values)), 0, stamp_ns))
    return replace(msg, token=make_token(_RUN_KEY, REWARD, reward_fields(msg), number + 1))


def _door() -> TokenVerifier:
    """The door for rewards of one run. The key is the same in every run, so that every seed gives the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "key"
        path.touch(mode=0o600)
        path.write_text(_RUN_KEY.hex(), encoding="ascii")
        return TokenVerifier(path, None)


_DOORS: WeakKeyDictionary[GateStage, TokenVerifier] = WeakKeyDictionary()


def _take_reward(stage: GateStage, msg: Any, now_ns: int, stamp_ns: int) -> None:
    """At the door; and behind it what was refused, too, as from somebody who has the key."""
    if stage not in _DOORS:
        _DOORS[stage] = _door()
    try:
        _DOORS[stage].check(REWARD, reward_fields(msg), msg.token, now_ns)
    finally:
        stage.reward(claimed_reward_from(msg, _SKILL), now_ns, stamp_ns)


def _take_picture(stage: GateStage, msg: Any, now_ns: int, stamp_ns: int) -> None:
    picture = convert.image_feature_from(msg)
    refused = [] if picture.rejected is None else [(Stream.CAMERA, picture.rejected)]
    stage.take(now_ns, stamp_ns, GateInputs(pictures=[] if refused else [picture.ref], refused=refused))


def _take_proposed(stage: GateStage, msg: Any, now_ns: int, stamp_ns: int) -> None:
    command = convert.proposed_from(msg)
    if command is not None:
        stage.take(now_ns, stamp_ns, GateInputs(proposed=[command]))


def _take_servos(stage: GateStage, msg: Any, now_ns: int, stamp_ns: int) -> None:
    sample = servo_sample_from(msg)
    if sample is not None:
        stage.on_servos(sample, now_ns)


def _take_start(stage: GateStage, msg: Any, now_ns: int, stamp_ns: int) -> None:
    convert.episode_spec_from(msg)
    if stage.guards.breaker is not None:
        stage.guards.breaker.begin(_SKILL, int(msg.episode), now_ns)


def _take_end(stage: GateStage, msg: Any, now_ns: int, stamp_ns: int) -> None:
    result = convert.episode_result_from(msg)
    if stage.guards.breaker is not None:
        stage.guards.breaker.finish(_SKILL, int(msg.episode), now_ns, result.success)


_Take = Callable[[GateStage, Any, int, int], None]
TAKES: dict[Topic, _Take] = {
    topics.JOINT_STATES: lambda stage, msg, now, stamp: stage.take(
        now, stamp, GateInputs(joints=[sensors.joint_sample_from(msg, 0)])
    ),
    topics.IMU_BATCH: lambda stage, msg, now, stamp: stage.take(
        now, stamp, GateInputs(imu=convert.imu_batch_from(msg).samples)
    ),
    topics.IMAGE_FEATURE: _take_picture,
    topics.EXECUTED: lambda stage, msg, now, stamp: stage.take(
        now, stamp, GateInputs(executed=[convert.executed_from(msg)])
    ),
    topics.DECISION: lambda stage, msg, now, stamp: stage.take(
        now, stamp, GateInputs(actions=[convert.action_from(msg.action)])
    ),
    topics.PROPOSED: _take_proposed,
    topics.DIAGNOSTICS: _take_servos,
    topics.HEARTBEAT: lambda stage, msg, now, stamp: stage.hear(beat_from(msg), now),
    topics.REWARD: _take_reward,
    topics.EPISODE_START: _take_start,
    topics.EPISODE_END: _take_end,
}
"""Every message that the gate's node hears in real time, and what becomes of it."""


@dataclass
class Outcome:
    """What came of messages: topic → how many, and of those how many were refused; ticks; what should not have been."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    ticks: int = 0
    moving: int = 0
    findings: list[str] = field(default_factory=list)


def play(rng: random.Random, cases: int) -> Outcome:
    """Play stretches of the tape to gates until so many messages were heard."""
    out = Outcome()
    while sum(out.cases.values()) < cases:
        _Stretch(rng, out).run(cases)
    return out


class _Stretch:
    """The tape, once, to a gate that is as new."""

    def __init__(self, rng: random.Random, out: Outcome) -> None:
        self._rng, self._out = rng, out
        rewards = {subgoal.value: reward_config().value.of(subgoal) for subgoal in ORDER}
        model = _model()
        self._stage = GateStage(Supervisor(model), auto_arm=True, guards=Guards(model.settings, rewards))
        self._stage.reset()
        gate = self._stage.supervisor
        self._auditor = Auditor(robot(), gate.settings, COMMAND_JOINTS)
        self._share = 0.0 if rng.random() < _UNDAMAGED else rng.random()
        self._others = [heard.raw for heard in tape()[0]]

    def run(self, cases: int) -> None:
        """Until the tape or the number of cases ends."""
        for tick, heard in enumerate(tape()):
            now_ns = EPISODE_START_NS + tick * TICK_NS
            for one in self._repeated(heard):
                self._hear(one, now_ns)
            self._tick(tick, now_ns)
            if sum(self._out.cases.values()) >= cases:
                return

    def _repeated(self, heard: tuple[Heard, ...]) -> Iterator[Heard]:
        for one in heard:
            if self._rng.random() < self._share:
                for _ in range(self._rng.choice((1, 2, 3))):  # of one topic no more than the gate looks at
                    yield Heard(one.topic, damaged(one.raw, self._rng, self._others))
                if self._rng.random() < 0.5:
                    continue
            yield one

    def _hear(self, one: Heard, now_ns: int) -> None:
        out, name = self._out, one.topic.name
        if not self._stage.guards.intake.admit(name, len(one.raw), now_ns):
            return  # a flood, of which the gate looks at none: no case
        out.cases[name] += 1
        try:
            TAKES[one.topic](self._stage, decode(one.raw, one.topic.type), now_ns, now_ns)
        except (TetherError, ValueError):
            out.refused[name] += 1
        except Exception as error:  # noqa: BLE001 - that nothing else escapes is what is looked for
            out.findings.append(f"{name}: {type(error).__name__}: {error}; message {one.raw[:2000].hex()}"[:6000])

    def _tick(self, tick: int, now_ns: int) -> None:
        out = self._out
        out.ticks += 1
        try:
            output = self._stage.tick(tick, now_ns, now_ns)
            encode(sensors.joint_command_message(output.command))
            encode(sensors.twist_message(output.command))
            encode(convert.verdict_message(output, 0, ()))
            self._stage.guards.said()
        except Exception as error:  # noqa: BLE001 - as above
            out.findings.append(f"tick {tick}: {type(error).__name__}: {error}")
            return
        out.moving += bool(output.command.velocity.any())
        found = [f"tick {tick}: internal: {v.reason}" for v in output.verdicts if v.check == Check.INTERNAL.value]
        found += [f"tick {tick}: {fault}" for fault in self._auditor.feed(output.command, step_of(output))]
        out.findings += found
        gate = self._stage.supervisor
        if gate.mode is Mode.STOP and self._rng.random() < 0.2:
            try:
                gate.reset_stop("fuzz")
            except TetherError:
                return  # it still brakes
        if gate.mode in (Mode.INIT, Mode.SAFE) and self._rng.random() < 0.2:
            self._stage.arm("fuzz")
