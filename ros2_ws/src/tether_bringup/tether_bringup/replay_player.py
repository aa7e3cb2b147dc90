"""Plays a bag to the graph: serialised messages and /clock, at the pace they were recorded or any other.

ROS 1 messages and messages of older types are turned into today's. What the graph itself publishes is left out, and
recorded commands above all: they must not reach a motor from a bag unless `all_topics` says so.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import Any

from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.publisher import Publisher
from tether_ros import qos
from tether_ros.node import StageNode
from tether_ros.process import run

from tether import topics
from tether.bags import TopicInfo, open_bag
from tether.bags.cli import parse_remaps
from tether.bags.controls import HELP, TerminalControls, has_terminal
from tether.bags.playable import is_topic_name, played_names
from tether.bags.player import Ask, Player, PlayOptions, PlayResult, Rate, Unpaced
from tether.codec import sensors
from tether.errors import TetherError
from tether.lockstep import TickInputs
from tether.results import header, write_json
from tether_bringup.ros_sink import ACKNOWLEDGE_S, OF_THE_GRAPH, RosSink, make_outgoing

STOP_S = ACKNOWLEDGE_S + 2.0
"""The playing thread ends within this: an unpaced player may be waiting for an acknowledgement."""


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
        self._remap = self.names("remap", "RECORDED:=PLAYED names")
        self._topics = self.names("topics", "play only these; none given: all")
        self._all_topics = self.param("all_topics", False, "play also what the graph publishes, commands included")
        self._clock_hz = self.param("clock_hz", 100.0, "rate of /clock")
        self._report = self.param("report", "", "file for the report as JSON; empty: none")
        self._command = self.param("command", "", "command line that the report names; empty: this process's own")
        self.autostart = self.param("autostart", False, "configure and activate without a lifecycle manager")
        self._player: Player | None = None
        self._sink: RosSink | None = None
        self._keys: TerminalControls | None = None
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()

    def build(self) -> None:
        """Open the bag and make a publisher for every topic that can be played."""
        bag = open_bag(Path(self._path))
        self._undo.append(bag.close)
        remap = parse_remaps(self._remap)
        outgoing = {}
        names = played_names(bag.topics, remap)
        for topic in bag.topics.values():
            played_as = names[topic.name]
            if not self._is_wanted(topic, played_as):
                continue
            out, why = make_outgoing(bag, topic, played_as, self._publisher)
            if out is None:
                self.event(sensors.Severity.WARN, "replay_topic_lost", why)
            else:
                outgoing[topic.name] = out
        clock = self._publisher(qos.message_class(topics.CLOCK), topics.CLOCK.name, qos.publisher_qos(topics.CLOCK))
        options = PlayOptions(
            pace=Unpaced() if self._unpaced else Rate(self._rate),
            start_s=self._start_s,
            loop=self._loop,
            step=self._step,
            remap={old: new for old, new in remap.items() if old in outgoing or old not in bag.topics},
            topics=tuple(outgoing),
            clock_hz=self._clock_hz,
        )
        self._sink = RosSink(outgoing, clock, not self._unpaced, self._on_jump)
        self._player = Player(bag, self._sink, options, self)

    def on_episode(self, start: Any) -> None:
        """The player takes nothing from the graph."""

    def on_tick(self, inputs: TickInputs) -> None:
        """The player takes nothing from the graph."""

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        """Begin to play."""
        result = super().on_activate(state)
        if result == TransitionCallbackReturn.SUCCESS and self._player is not None and self._sink is not None:
            self._cancelled.clear()
            arguments = (self._player, self._sink)
            self._thread = threading.Thread(target=self._play, args=arguments, name="replay", daemon=True)
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

    def destroy_node(self) -> None:
        """Stop playing first: what plays publishes through this node."""
        self._stop()
        super().destroy_node()

    def poll(self) -> Ask | None:
        """The player's controls: the terminal's keys, and stopping when the node goes down."""
        if self._is_ending():
            return Ask.STOP
        return self._keys.poll() if self._keys is not None else None

    def _is_ending(self) -> bool:
        """Whether to play no more: the node goes down, or is told to go where no manager brings it down in order."""
        return self._cancelled.is_set() or (bool(self.autostart) and self.told_to_go())

    def _is_wanted(self, topic: TopicInfo, played_as: str) -> bool:
        if topics.CLOCK.name in (topic.name, played_as):
            return False  # the player's own clock is the only one
        if self._topics and topic.name not in self._topics:
            return False
        if not is_topic_name(played_as):
            self.event(sensors.Severity.WARN, "replay_topic_lost", f"{played_as!r} is no topic name in ROS; left out")
            return False
        if played_as in OF_THE_GRAPH and not self._all_topics:
            self.get_logger().info(f"{played_as}: left out, the graph publishes it (all_topics plays it)")
            return False
        return True

    def _publisher(self, kind: Any, name: str, profile: Any) -> Publisher:
        publisher = self.create_publisher(kind, name, profile)
        self._undo.append(lambda: self.destroy_publisher(publisher))
        return publisher

    def _on_jump(self, from_ns: int, to_ns: int) -> None:
        text = f"the bag begins again: time goes back from {from_ns} to {to_ns} ns"
        self.event(sensors.Severity.WARN, "clock_jump", text, {"from_ns": from_ns, "to_ns": to_ns})

    def _play(self, player: Player, sink: RosSink) -> None:
        try:
            if not sink.await_listeners(self, self._is_ending) and not self._is_ending():
                self.event(sensors.Severity.WARN, "replay_unheard", "nobody listens to the bag's topics")
            with contextlib.ExitStack() as stack:
                if self.autostart and has_terminal():
                    self._keys = stack.enter_context(TerminalControls())
                    sys.stderr.write(HELP + "\n")
                result = player.play()
            self._keys = None
            if not self._is_ending():
                sink.flush()
            self._say(result, sink.lost)
            self.finish()
        except (TetherError, OSError) as error:
            self.event(sensors.Severity.ERROR, "replay_failed", str(error))
            self.finish(exit_status=1)

    def _say(self, result: PlayResult, lost: dict[str, int]) -> None:
        report = result.report
        data = {name: value for name, value in vars(result).items() if name != "report"}
        data |= {"lost_in_bag": report.lost_messages, "lost_in_transcoding": lost}
        text = f"played {result.messages} messages, in the bag: {report.lost}"
        if self._is_ending():
            text = f"interrupted: {text}"
        if result.left_out:
            text += f"; {result.left_out} were left out: /clock cannot carry their log times"
        self.event(sensors.Severity.INFO, "replay_finished", text, data)
        for loss in report.losses:
            text = f"{loss.kind.value}: {loss.where}: {loss.what}"
            self.event(sensors.Severity.WARN, "replay_loss", text, loss.to_json())
        if self._report:
            head = header("replay", 0, self._command or " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))
            write_json(Path(self._report), {**head, **report.to_json(), "played": data})

    def _stop(self) -> None:
        self._cancelled.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=STOP_S)
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
