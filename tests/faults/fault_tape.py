"""Recordings made by hand, of messages as the graph sends them."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tether import topics
from tether.codec import convert, encode, sensors
from tether.contracts import (
    TICK_NS,
    Command,
    ExecutedCommand,
    GateOutput,
    Mode,
    SampleRef,
    Source,
    Stream,
    TruthSample,
    Verdict,
)
from tether.faults.recording import OBSERVER_LATE, Record, write_record
from tether.robot.roles import COMMAND_JOINTS
from tether.topics import Topic

REST = np.array([0.0, -1.0, 1.6, 0.95, 0.0, 0.02])
T0_NS = 1_000_000_000


@dataclass
class Tape:
    """A recording in the making. Times in ms after its beginning."""

    records: list[Record] = field(default_factory=list)
    tick: int = 0

    def put(self, at_ms: float, topic: Topic, msg: object) -> None:
        self.records.append(Record(T0_NS + round(at_ms * 1e6), topic, encode(msg)))

    def gate(
        self,
        at_ms: float,
        scale: float,
        mode: Mode = Mode.ACTIVE,
        position: np.ndarray = REST,
        tick: int | None = None,
        own_ms: float | None = None,
    ) -> None:
        """One tick of the gate: set-points, twist and verdict. own_ms: when it was, by the gate's own clock."""
        number = self.tick if tick is None else tick
        self.tick = number + 1
        command = _command(number, position)
        verdicts = () if scale >= 1.0 else (Verdict("command_age", scale, "made up"),)
        output = GateOutput(command, mode, scale, verdicts, None)
        self.put(at_ms, topics.JOINT_COMMAND, sensors.joint_command_message(command))
        self.put(at_ms, topics.CMD_VEL, sensors.twist_message(command))
        steady_ns = 0 if own_ms is None else T0_NS + round(own_ms * 1e6)
        self.put(at_ms, topics.VERDICT, convert.verdict_message(output, 0, (), steady_ns))

    def applied(self, at_ms: float, position: np.ndarray = REST, by_watchdog: bool = False) -> None:
        """What the world says it applied."""
        number = round(at_ms / 10)
        ref = SampleRef(Stream.EXECUTED, number * TICK_NS, number)
        executed = ExecutedCommand(ref, _command(number, position), by_watchdog)
        self.put(at_ms, topics.EXECUTED, convert.executed_message(executed, 0))

    def motion(self, at_ms: float, joints_rad_s: float, base_m_s: float = 0.0) -> None:
        """How fast the robot really is."""
        zero = np.zeros(3)
        speed = np.full(len(COMMAND_JOINTS), joints_rad_s)
        ref = SampleRef(Stream.TRUTH, round(at_ms * 1e6), 0)
        truth = TruthSample(ref, zero, zero, zero, np.array([base_m_s, 0.0, 0.0]), REST, speed, False, 0.0)
        self.put(at_ms, topics.MEASURES, convert.truth_message(truth, 0))

    def event(self, at_ms: float, kind: str) -> None:
        """Something that was said."""
        self.put(at_ms, topics.EVENTS, sensors.event_message(0, "gate", 0, kind, "made up"))

    def observer_late(self, at_ms: float, late_ms: int) -> None:
        """The observer goes on after it has had to wait."""
        raw = (late_ms * 1_000_000).to_bytes(8, "little")
        self.records.append(Record(T0_NS + round(at_ms * 1e6), OBSERVER_LATE, raw))

    def write(self, path: Path) -> None:
        """As the probe writes it."""
        file = io.BytesIO()
        for record in self.records:
            write_record(file, record.at_ns, record.topic, record.raw)
        path.write_bytes(file.getvalue())


def _command(tick: int, position: np.ndarray) -> Command:
    zero = np.zeros(len(COMMAND_JOINTS))
    stamp_ns = 10_000_000_000 + tick * TICK_NS
    return Command(tick, stamp_ns, 0, Source.GATE, COMMAND_JOINTS, position, zero, np.zeros(3))
