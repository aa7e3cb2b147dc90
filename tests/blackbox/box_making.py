"""Messages of a short run in which the arm runs into trouble, made with the graph's own codec."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tether import topics
from tether.blackbox.ring import Kept
from tether.codec import convert, encode, message, sensors
from tether.contracts import (
    TICK_NS,
    Command,
    Decision,
    Estimate,
    ExecutedCommand,
    FusedState,
    GateOutput,
    HybridAction,
    Mode,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
    Verdict,
)

START_NS = 1_000_000_000
NAMES = ("shoulder_pan", "gripper")
TILT = Verdict("tilt", 0.0, 'tilted by 0.700 rad; slows above 0.35, "stops" at 0.6 rad')


def command(tick: int, decision: int) -> Command:
    zero = np.zeros(2)
    return Command(tick, START_NS + tick * TICK_NS, decision, Source.CLASSIC, NAMES, zero, zero, np.zeros(3))


def verdict(tick: int, mode: Mode, *verdicts: Verdict, episode: int = 0) -> bytes:
    scale = min((v.scale for v in verdicts), default=1.0)
    output = GateOutput(command(tick, 1 + tick // 5), mode, scale, verdicts, 1_000_000)
    return encode(convert.verdict_message(output, episode, (), 1 + tick * TICK_NS))


def decision(number: int, primitive: Primitive, episode: int = 0) -> bytes:
    stamp_ns = START_NS + (number - 1) * 5 * TICK_NS
    action = HybridAction(number, stamp_ns, primitive, np.zeros(1), Estimate.none(stamp_ns), Source.CLASSIC)
    return encode(convert.decision_message(Decision(action, (), {}, "alone", "s", "r", "numpy", 1), episode))


def fused(number: int, step: int, episode: int = 0) -> bytes:
    stamp_ns = START_NS + (number - 1) * 5 * TICK_NS
    skill = SkillContext(2, "pick", np.zeros(1), step, 7, np.ones(len(Primitive), bool))
    nothing, imu = np.zeros(0, np.float32), np.zeros((6, 1))
    boxes = np.zeros((0, 6), np.float32)
    estimate = Estimate.none(stamp_ns)
    state = FusedState(number, stamp_ns, (), {}, estimate, None, imu, boxes, nothing, skill)
    return encode(convert.fused_state_message(state, episode))


def executed(tick: int, watchdog: bool) -> bytes:
    ref = SampleRef(Stream.EXECUTED, START_NS + tick * TICK_NS, tick)
    return encode(convert.executed_message(ExecutedCommand(ref, command(tick, 1), watchdog), 0))


def event(kind: str, text: str, tick: int = 0) -> bytes:
    return encode(sensors.event_message(START_NS + tick * TICK_NS, "node", sensors.Severity.ERROR, kind, text))


def picture(data: bytes) -> bytes:
    """A picture of one row with these bytes."""
    header = sensors.header_message(START_NS, "camera_optical_frame")
    pixels = np.frombuffer(data, np.uint8)
    return encode(message("sensor_msgs/msg/Image")(header, 1, len(data), "mono8", 0, len(data), pixels))


def story(stop_at: int = 60) -> Iterator[tuple[str, bytes, int]]:
    """(topic, bytes, steady time): reaching, then grasping; from 4 ticks before `stop_at` tilt slows, then stops."""
    for tick in range(stop_at + 10):
        now_ns = tick * TICK_NS
        number = 1 + tick // 5
        if tick % 5 == 0:
            yield topics.FUSED_STATE.name, fused(number, 2 if tick < 40 else 3), now_ns
            yield topics.DECISION.name, decision(number, Primitive.REACH if tick < 40 else Primitive.GRASP), now_ns
        if tick < 2:
            made = verdict(tick, Mode.ARMED, Verdict("command_age", 0.0, "no command has come"))
        elif tick < stop_at - 4:
            made = verdict(tick, Mode.ACTIVE)
        elif tick < stop_at:
            made = verdict(tick, Mode.ACTIVE, Verdict("tilt", 0.5, "tilted by 0.500 rad"))
        else:
            made = verdict(tick, Mode.STOP, TILT, Verdict("mode", 0.0, "latched stop: tilted"))
        yield topics.VERDICT.name, made, now_ns
        yield topics.EXECUTED.name, executed(tick, False), now_ns


def kept(rows: Iterator[tuple[str, bytes, int]] | list[tuple[str, bytes, int]]) -> list[Kept]:
    return [Kept(topic, raw, START_NS + at, at, i) for i, (topic, raw, at) in enumerate(rows, 1)]
