"""The black box in a process of its own: hears what the gate hears and says, and writes it when something trips.

Messages are kept as the bytes they come as; only verdicts, executed commands and events are looked into. It stands
behind every other process in line for the processor, and the gate knows nothing of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.lifecycle import TransitionCallbackReturn
from tether_ros import qos
from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import __version__, topics
from tether.blackbox.box import BlackBox, BoxConfig
from tether.blackbox.contents import CONTENTS
from tether.blackbox.dump import left_overs
from tether.blackbox.ring import RingLimits
from tether.blackbox.trips import Trip, TripWatch
from tether.codec import decode, sensors
from tether.lockstep import Needs, TickInputs
from tether.topics import Topic

LOOK_S = 0.1
QUICK_S = 0.4
"""How long going down may wait for a dump that is under way; the rest of it is written before the process ends."""
END_S = 60.0
_LOOKED_INTO = frozenset({topics.VERDICT, topics.EXECUTED, topics.EVENTS})


class BlackBoxNode(StageNode):
    """See the module, and `tether.blackbox`."""

    needs = Needs()
    niceness = 5

    def __init__(self) -> None:
        super().__init__("black_box")
        self._folder = self.param("folder", "runs/launch/black_box", "folder for what trips leave, a folder each")
        self._window_s = self.param("window_s", 30.0, "how much is kept in memory, in seconds")
        self._memory_mib = self.param("memory_mib", 64, "most memory for everything but pictures")
        self._pictures_mib = self.param(
            "pictures_mib", 160, "most memory for pictures; above it older ones get sparser"
        )
        self._box: BlackBox | None = None
        self._watch = TripWatch()

    def build(self) -> None:
        """Begin to keep; trips count once the node is active."""
        limits = RingLimits(self._window_s, self._memory_mib * 2**20, self._pictures_mib * 2**20)
        about = {"tether": __version__, "mode": self.mode.value}
        self._box = BlackBox(Path(self._folder), BoxConfig(limits=limits), about)
        for path in left_overs(self._box.folder):
            text = f"{path}: a process was killed while it wrote this; summary and bag are readable"
            self.event(sensors.Severity.WARN, "black_box_partial", text)
        for topic in CONTENTS:
            self._keep(topic)
        self.every(LOOK_S, self._look)

    def on_episode(self, start: Any) -> None:
        """Never called: nothing is remembered between episodes but the messages."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Never called: the box needs nothing."""

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        """Going down is no trip; what is being written comes to its end."""
        result = super().on_deactivate(state)
        if self._box is not None:
            self._box.close(QUICK_S)
            self._report(self._box)
        return result

    def destroy_node(self) -> None:
        """The process is about to end: a dump gets to the disk first."""
        if self._box is not None:
            self._box.close(END_S)
        super().destroy_node()

    def _keep(self, topic: Topic) -> None:
        subscription = self.create_subscription(
            qos.message_class(topic),
            topic.name,
            self._taker(topic),
            qos.subscriber_qos(topic, must_not_lose=self.mode is Mode.LOCKSTEP),
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )
        self._undo.append(lambda: self.destroy_subscription(subscription))

    def _taker(self, topic: Topic) -> Callable[[bytes], None]:
        looked_into = topic in _LOOKED_INTO

        def take(raw: bytes) -> None:
            box = self._box
            if box is None:
                return
            steady_ns = time.monotonic_ns()
            box.append(topic.name, bytes(raw), time.time_ns(), steady_ns)
            if looked_into and self.active:
                self._look_into(topic, raw, steady_ns)

        return take

    def _look_into(self, topic: Topic, raw: bytes, steady_ns: int) -> None:
        try:
            trip = self._watch.look(topic.name, decode(raw, topic.type), steady_ns)
        except ValueError as error:
            self._complaints.malformed(topic, error)
            return
        self._trip(trip)

    def _look(self) -> None:
        """The gate's silence, which nobody's message tells; and what became of dumps."""
        if self._box is None:
            return
        if self.mode is Mode.REALTIME:
            self._trip(self._watch.tick(time.monotonic_ns(), self.now_ns()))
        self._report(self._box)

    def _trip(self, trip: Trip | None) -> None:
        if trip is not None and self._box is not None and self._box.trip(trip):
            self.event(sensors.Severity.ERROR, "black_box_trip", f"{trip.kind.value}: {trip.reason}")

    def _report(self, box: BlackBox) -> None:
        for report in box.reports():
            data = {"path": str(report.path), "trip": report.trip.kind.value, "messages": report.messages}
            if report.failure is None:
                self.event(
                    sensors.Severity.INFO, "black_box_written", f"{report.messages} messages in {report.path}", data
                )
            else:
                self.event(sensors.Severity.ERROR, "black_box_failed", f"{report.path}: {report.failure}", data)


def main() -> None:
    """Entry point."""
    sys.exit(run([BlackBoxNode]))
