"""The campaign's judge of a recording: commands that should not have been, and records that are missing.

Three judgements, none of which takes the gate's word: every set-point that came to the actuators keeps every limit
(`tether.safety.audit`); what the world says it applied is what the gate sent, or its own watchdog's stop; and ticks of
the gate are recorded without a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether import topics
from tether.codec import convert, decode, sensors
from tether.contracts import TICK_NS
from tether.faults.recording import Record
from tether.robot.model import RobotModel
from tether.safety.audit import Auditor, Step, step_of_checks
from tether.safety.settings import SafetySettings

_KEPT = 512
"""Gated commands remembered: five seconds of them."""
_LATER_NS = 300_000_000
"""The recording orders messages of different topics by arrival, so an applied command may stand before its command."""
_MUCH_LATER_NS = 10_000_000_000
"""A gate that is frozen while it sends may have reached the world and not the probe, which hears it when it goes on."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Finding:
    """Something wrong with a command that was executed, or let pass."""

    at_ns: int
    text: str
    count: int = 1


class RecordingAudit:
    """Feed it records as they come; `findings` and `lost` grow. `finish` at the end of a graph's life."""

    def __init__(self, robot: RobotModel, settings: SafetySettings, joint_names: tuple[str, ...]) -> None:
        self._made_of = robot, settings, joint_names
        self._lower = np.array([robot.limits(name).lower for name in joint_names])
        self._step = np.array([robot.limits(name).velocity for name in joint_names]) * TICK_NS * 1e-9 + _ROUNDING
        self._upper = np.array([robot.limits(name).upper for name in joint_names])
        self._auditor: Auditor | None = None
        self._episode = self._tick = -1
        self._parts: dict[int, dict[str, tuple[int, Any]]] = {}
        self._sent: deque[bytes] = deque(maxlen=_KEPT)
        self._applied: deque[tuple[int, Any]] = deque()
        self._applied_last: tuple[int, bytes] = (-1, b"")
        self._unmatched: list[tuple[int, str, bytes, bool]] = []
        self.findings: list[Finding] = []
        self.lost: list[Finding] = []
        self.commands = 0
        """How many were judged."""

    def add(self, records: Iterable[Record]) -> None:
        """Judge what has come."""
        for record in records:
            if record.topic in (topics.JOINT_COMMAND, topics.CMD_VEL):
                msg = decode(record.raw, record.topic.type)
                self._part(convert.to_ns(msg.header.stamp), record, msg)
            elif record.topic is topics.VERDICT:
                msg = decode(record.raw, record.topic.type)
                self._part(convert.to_ns(msg.stamp), record, msg)
            elif record.topic is topics.EXECUTED:
                self._applied.append((record.at_ns, decode(record.raw, record.topic.type)))
            if self._unmatched:
                self._conclude(record.at_ns - _MUCH_LATER_NS)
            while self._applied and self._applied[0][0] < record.at_ns - _LATER_NS:
                self._judge_applied(*self._applied.popleft())

    def finish(self) -> None:
        """The graph has ended: what still waits is judged. What was under way when the gate died has no rest."""
        while self._applied:
            self._judge_applied(*self._applied.popleft())
        self._conclude(None)
        self._parts.clear()

    def _part(self, stamp_ns: int, record: Record, msg: Any) -> None:
        parts = self._parts.setdefault(stamp_ns, {})
        if record.topic is topics.JOINT_COMMAND and record.topic.name not in parts:
            self._sent.append(self._as_applied(msg))
        if record.topic.name in parts:
            return  # somebody who says again, or says otherwise, what the gate said: what is applied is judged below
        parts[record.topic.name] = record.at_ns, msg
        if len(parts) == 3:
            del self._parts[stamp_ns]
            self._judge(parts)
        elif len(self._parts) > _KEPT:
            del self._parts[min(self._parts)]  # its rest is lost, and the gap in the ticks has said so

    def _judge(self, parts: dict[str, tuple[int, Any]]) -> None:
        at_ns, joints = parts[topics.JOINT_COMMAND.name]
        twist, verdict = parts[topics.CMD_VEL.name][1], parts[topics.VERDICT.name][1]
        episode, tick = int(verdict.episode), int(verdict.tick)
        step = step_of_checks(set(verdict.checks))
        if episode != self._episode or tick == 0 or self._auditor is None:
            self._auditor = Auditor(*self._made_of)  # the gate is as new
        elif tick != self._tick + 1:
            text = f"ticks {self._tick + 1} to {tick - 1} of episode {episode}"
            self.lost.append(Finding(at_ns, text, max(tick - self._tick - 1, 1)))
            step = Step.ANCHORED  # how far set-points went in a gap cannot be judged
        self._episode, self._tick = episode, tick
        command = sensors.gated_command(joints, twist, tick)
        self.commands += 1
        for fault in self._auditor.feed(command, step):
            self.findings.append(Finding(at_ns, f"gated command, tick {tick}: {fault}"))

    def _judge_applied(self, at_ns: int, msg: Any) -> None:
        episode, position = int(msg.episode), np.asarray(msg.position, np.float64)
        key = position.tobytes()
        before, self._applied_last = self._applied_last, (episode, key)
        if not (np.isfinite(position).all() and np.isfinite(msg.velocity).all() and np.isfinite(msg.base_twist).all()):
            self.findings.append(Finding(at_ns, f"applied, tick {int(msg.tick)}: a number that is not finite"))
        elif not (msg.watchdog_stop or before == (episode, key) or before[0] != episode or key in self._sent):
            moved = np.abs(position - np.frombuffer(before[1]))
            self._unmatched.append((at_ns, f"applied, tick {int(msg.tick)}", key, bool(np.all(moved <= self._step))))

    def _conclude(self, before_ns: int | None) -> None:
        """What was applied and not heard of, and is older than that: a record that is lost, where it kept to limits."""
        waiting = []
        for at_ns, what, key, within in self._unmatched:
            if key in self._sent:
                continue
            if before_ns is not None and at_ns >= before_ns:
                waiting.append((at_ns, what, key, within))
            elif within:
                self.lost.append(Finding(at_ns, f"{what}: what the gate sent was not heard"))
            else:
                self.findings.append(Finding(at_ns, f"{what}: set-points that no gate sent"))
        self._unmatched = waiting

    def _as_applied(self, msg: Any) -> bytes:
        """The set-points as a world applies them."""
        if len(msg.position) != len(self._lower):
            return b""
        return np.clip(np.asarray(msg.position, np.float64), self._lower, self._upper).tobytes()
