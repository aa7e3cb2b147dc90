"""Plays a bag to the graph: serialised messages and /clock, at the pace they were recorded or any other.

ROS 1 messages and messages of older types are turned into today's. What the graph itself publishes is left out, and
recorded commands above all: they must not reach a motor from a bag unless `all_topics` says so.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.duration import Duration
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from tether_ros import qos
from tether_ros.node import StageNode
from tether_ros.process import run

from tether import codec, topics
from tether.bags import Bag, BagMessage, CorruptMessageError, TopicInfo, open_bag
from tether.bags.cli import parse_remaps
from tether.bags.controls import HELP, TerminalControls, has_terminal
from tether.bags.player import Player, PlayOptions, PlayResult, Rate, Unpaced
from tether.bags.transcode import Transcoder
from tether.codec import convert, encode, message, sensors
from tether.errors import TetherError
from tether.lockstep import TickInputs
from tether.results import write_json
from tether_bringup.bag_qos import replay_profile

MATCH_S, SETTLE_S = 8.0, 1.5
"""Longest wait for somebody to listen, and how long the number of listeners must stay the same; then it begins."""
ACKNOWLEDGE_S = 2.0
OF_THE_GRAPH = frozenset(
    topic.name
    for topic in (
        topics.JOINT_COMMAND,
        topics.CMD_VEL,
        topics.IMU_BATCH,
        topics.IMAGE_FEATURE,
        topics.FUSED_STATE,
        topics.POLICY_OUTPUT,
        topics.DECISION,
        topics.PROPOSED,
        topics.VERDICT,
        topics.EVENTS,
        topics.MODALITY_STATUS,
        topics.LIFECYCLE_STATUS,
        topics.DIAGNOSTICS,
    )
)
"""Published by the graph's own nodes; a bag's copies would contradict them."""


class Outgoing:
    """The publisher of one topic with what turns its recorded bytes into CDR."""

    def __init__(self, publisher: Publisher, transcode: Transcoder) -> None:
        self.publisher = publisher
        self.transcode = transcode
        self.since_acknowledged = 0


class RosSink:
    """Publishes what is played. lost: topic → messages that could not be turned into today's type."""

    def __init__(self, node: ReplayPlayerNode, outgoing: dict[str, Outgoing], clock: Publisher, paced: bool) -> None:
        self._node = node
        self._outgoing = outgoing
        self._clock = clock
        self._paced = paced
        self.lost: dict[str, int] = {}

    def clock(self, time_ns: int) -> None:
        """Publish /clock."""
        self._clock.publish(encode(message(topics.CLOCK.type)(convert.to_time(time_ns))))

    def message(self, topic: str, message: BagMessage) -> None:
        """Publish one message. Unpaced, wait for acknowledgement before the publisher's history would be overrun."""
        out = self._outgoing[message.topic]
        try:
            out.publisher.publish(out.transcode(message.raw))
        except CorruptMessageError:
            self.lost[message.topic] = self.lost.get(message.topic, 0) + 1
            return
        out.since_acknowledged += 1
        if not self._paced and out.since_acknowledged * 2 >= out.publisher.qos_profile.depth:
            out.publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_S))
            out.since_acknowledged = 0

    def jumped_back(self, from_ns: int, to_ns: int) -> None:
        """Say that time goes back; /clock shows it next."""
        text = f"the bag begins again: time goes back from {from_ns} to {to_ns} ns"
        self._node.event(sensors.Severity.WARN, "clock_jump", text, {"from_ns": from_ns, "to_ns": to_ns})


class ReplayPlayerNode(StageNode):
    """See the module. Plays from a thread of its own while active; finished at the end of the bag."""

    def __init__(self) -> None:
        super().__init__("replay_player")
        self._path = self.param("bag", "", "folder or file to play")
        self._rate = self.param("rate", 1.0, "times as fast as recorded, 0.1 to 10")
        self._unpaced = self.param("unpaced", False, "as fast as subscribers acknowledge, whatever rate says")
        self._start_s = self.param("start_s", 0.0, "seconds to skip at the beginning")
        self._loop = self.param("loop", False, "begin again at the end")
        self._step = self.param("step", False, "begin paused; needs a terminal")
        self._remap = self._words("remap", "RECORDED:=PLAYED names")
        self._topics = self._words("topics", "play only these; none given: all")
        self._all_topics = self.param("all_topics", False, "play also what the graph publishes, commands included")
        self._clock_hz = self.param("clock_hz", 100.0, "rate of /clock")
        self._report = self.param("report", "", "file for the report as JSON; empty: none")
        self.autostart = self.param("autostart", False, "configure and activate without a lifecycle manager")
        self._bag_open: Bag | None = None
        self._player: Player | None = None
        self._sink: RosSink | None = None
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()

    def build(self) -> None:
        """Open the bag and make a publisher for every topic that can be played."""
        bag = open_bag(Path(self._path))
        self._bag_open = bag
        self._undo.append(bag.close)
        remap = parse_remaps(self._remap)
        playable = [t for t in bag.topics.values() if self._is_wanted(t, remap.get(t.name, t.name))]
        outgoing = {}
        for topic in playable:
            out = self._outgoing(bag, topic, remap.get(topic.name, topic.name))
            if out is not None:
                outgoing[topic.name] = out
        clock = self._publisher(qos.message_class(topics.CLOCK), topics.CLOCK.name, qos.publisher_qos(topics.CLOCK))
        options = PlayOptions(
            pace=Unpaced() if self._unpaced else Rate(self._rate),
            start_s=self._start_s,
            loop=self._loop,
            step=self._step,
            remap={old: new for old, new in remap.items() if old in outgoing},
            topics=tuple(outgoing),
            clock_hz=self._clock_hz,
        )
        self._sink = RosSink(self, outgoing, clock, paced=not self._unpaced)
        self._player = Player(bag, self._sink, options, self)
        self._heard = [out.publisher for out in outgoing.values()]

    def on_episode(self, start: Any) -> None:
        """The player takes nothing from the graph."""

    def on_tick(self, inputs: TickInputs) -> None:
        """The player takes nothing from the graph."""

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        """Begin to play."""
        result = super().on_activate(state)
        if result == TransitionCallbackReturn.SUCCESS:
            self._cancelled.clear()
            self._thread = threading.Thread(target=self._play, name="replay", daemon=True)
            self._thread.start()
        return result

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        """Stop playing."""
        self._stop()
        return super().on_deactivate(state)

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        """Stop playing and go."""
        self._stop()
        return super().on_shutdown(state)

    # Controls of the player

    def poll(self) -> Any:
        """What the terminal asks for, or that the node goes down."""
        from tether.bags.player import Ask

        if self._cancelled.is_set():
            return Ask.STOP
        return self._keys.poll() if self._keys is not None else None

    _keys: TerminalControls | None = None

    # Inside

    def _words(self, name: str, doc: str) -> list[str]:
        descriptor = ParameterDescriptor(description=doc)
        value = self.declare_parameter(name, Parameter.Type.STRING_ARRAY, descriptor).value
        return [str(word) for word in value or ()]

    def _is_wanted(self, topic: TopicInfo, played_as: str) -> bool:
        if topic.name == topics.CLOCK.name:
            return False  # the player's own clock is the only one
        if self._topics and topic.name not in self._topics:
            return False
        if played_as in OF_THE_GRAPH and not self._all_topics:
            self.get_logger().info(f"{played_as}: left out, the graph publishes it (all_topics plays it)")
            return False
        return True

    def _outgoing(self, bag: Bag, topic: TopicInfo, played_as: str) -> Outgoing | None:
        """A publisher for one recorded topic; None, and named, where its type is unknown or not built here."""
        resolved = bag.resolved(topic.name)
        if resolved is None:
            self.event(sensors.Severity.WARN, "replay_topic_lost", f"{topic.name}: type {topic.type} is unknown")
            return None
        transcode = Transcoder(resolved, codec.typestore())
        package, _, name = transcode.type.split("/")
        try:
            kind = getattr(importlib.import_module(f"{package}.msg"), name)
        except (ImportError, AttributeError):
            text = f"{topic.name}: no type support for {transcode.type} is installed"
            self.event(sensors.Severity.WARN, "replay_topic_lost", text)
            return None
        return Outgoing(self._publisher(kind, played_as, replay_profile(topic, played_as)), transcode)

    def _publisher(self, kind: Any, name: str, profile: Any) -> Publisher:
        publisher = self.create_publisher(kind, name, profile)
        self._undo.append(lambda: self.destroy_publisher(publisher))
        return publisher

    def _play(self) -> None:
        player = self._player
        if player is None:
            return
        self._await_matches()
        try:
            with contextlib.ExitStack() as stack:
                if self.autostart and has_terminal():
                    self._keys = stack.enter_context(TerminalControls())
                    sys.stderr.write(HELP + "\n")
                result = player.play()
            self._keys = None
            self._say(result)
            self.finish()
        except (TetherError, OSError) as error:
            self.event(sensors.Severity.ERROR, "replay_failed", str(error))
            self.finish(exit_status=1)

    def _await_matches(self) -> None:
        """Wait until somebody listens and the number of listeners has settled; discovery takes its time."""
        deadline = time.monotonic() + MATCH_S
        heard, since = -1, time.monotonic()
        while time.monotonic() < deadline and not self._cancelled.is_set():
            now = sum(publisher.get_subscription_count() for publisher in self._heard)
            if now != heard:
                heard, since = now, time.monotonic()
            elif heard > 0 and time.monotonic() - since >= SETTLE_S:
                return
            time.sleep(0.02)
        if heard <= 0:
            self.event(
                sensors.Severity.WARN, "replay_unheard", f"nobody listens to what {self._path} holds; played anyway"
            )

    def _say(self, result: PlayResult) -> None:
        for publisher in self._heard:
            publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_S))
        report = result.report
        lost = dict(self._sink.lost) if self._sink is not None else {}
        data = {
            "messages": result.messages,
            "passes": result.passes,
            "wall_s": result.wall_s,
            "late_ms_p50": result.late_ms_p50,
            "late_ms_p99": result.late_ms_p99,
            "late_ms_max": result.late_ms_max,
            "lost_in_bag": report.lost_messages,
            "lost_in_transcoding": lost,
        }
        text = f"played {result.messages} messages, {report.lost_messages} were lost in the bag"
        self.event(sensors.Severity.INFO, "replay_finished", text, data)
        for loss in report.losses:
            self.event(
                sensors.Severity.WARN, "replay_loss", f"{loss.kind.value}: {loss.where}: {loss.what}", loss.to_json()
            )
        if self._report:
            write_json(Path(self._report), {**report.to_json(), "played": data})

    def _stop(self) -> None:
        self._cancelled.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)
            self._thread = None


def _make() -> ReplayPlayerNode:
    node = ReplayPlayerNode()
    if node.autostart:
        done = node.trigger_configure() == TransitionCallbackReturn.SUCCESS
        if not done or node.trigger_activate() != TransitionCallbackReturn.SUCCESS:
            node.finish(exit_status=1)
    return node


def main() -> None:
    """Entry point."""
    sys.exit(run([_make]))
