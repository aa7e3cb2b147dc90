"""The lifecycle node around a stage: typed inlets and outlets of serialised messages, lockstep or real time.

In lockstep a stage runs a tick when its inbox says that everything due has come. In real time it runs on arrival or
on a steady-clock timer, with whatever has arrived. Either way the node only moves messages; the stage decides.

A message that cannot be understood is an event and is left. A stage that refuses to go on ends its process, by name.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn

from tether import topics
from tether.codec import convert, decode, sensors
from tether.contracts import Stream
from tether.errors import TetherError
from tether.lockstep import Inbox, Needs, TickInputs
from tether.topics import Topic
from tether_ros import qos
from tether_ros.beats import Beats
from tether_ros.complaints import Complaints
from tether_ros.hub import Hub
from tether_ros.inlet import Inlet
from tether_ros.matching import Ends, Surroundings, await_match
from tether_ros.outlet import Outlet
from tether_ros.parameters import declared_names
from tether_ros.transitions import ChangeRequests, destroy_services, say_failures

LEFT_OVER_S = 1.0
"""Real time: that long into an episode, samples stamped before it are those of the episode before."""
WAITING_S = 5.0
"""Lockstep: a node that stands at one tick for that long says what it waits for."""
EPISODE = "episode"
_NO_TURN = frozenset({topics.EVENTS, topics.MODALITY_STATUS, topics.DIAGNOSTICS})  # said also where the loop stands


class Mode(Enum):
    """How a graph keeps time."""

    REALTIME = "realtime"
    LOCKSTEP = "lockstep"


class StageNode(LifecycleNode):
    """Base of every node of the graph. Subclasses set `needs`, build their stage and say what a tick does."""

    needs = Needs()
    finished = False
    """Set by a node whose work is done; a process ends when all its nodes have finished."""
    exit_status = 0
    niceness = 0
    """How much its process gives way to others (negative: goes before them), as `nice` counts."""
    realtime_priority = 0
    """Above 0: its process runs before all that are not of a real-time class, where that is allowed (SCHED_RR)."""
    hearing_priority = 0
    """As realtime_priority, but of the threads that receive alone: for a node whose work is long and may wait."""
    hub = Hub()
    """What is handed over within the process; set before the node is configured."""
    housemates: frozenset[str] = frozenset()
    """Nodes of the same process; set before the node is configured."""
    told_to_go: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the process was interrupted; set before the node is configured."""
    beats: Beats | None = None
    """What beats for the process in real time; set before the node is configured."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._beat = name
        self._inlets: list[tuple[Topic, Callable[[], int]]] = []
        self._from_outside: dict[Topic, Inlet] = {}
        self._outlets: list[Outlet] = []
        self._optional: set[Outlet] = set()
        self._undo: list[Callable[[], None]] = []
        self._inbox = Inbox(self._all_needs())
        self._active = False
        self._live_from = 0
        self._episode_start_ns = 0
        self._began_s = -math.inf
        self._waited: list[str] = []
        self._complaints = Complaints(self.event)
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.mode = Mode(self.param("mode", "realtime", "how the graph keeps time: realtime or lockstep"))
        self._changes = ChangeRequests(self)
        say_failures(self)
        self._wait_for_match = self.param("wait_for_match", True, "activate only once every outlet has a subscriber")
        self._peers = frozenset(self.names("peers", "lifecycle nodes of the graph, which must hear what is theirs"))

    # -- what a subclass says ---------------------------------------------------------------------------------------

    @abstractmethod
    def build(self) -> None:
        """Make the stage, inlets and outlets. A TetherError refuses the configuration with its reason."""

    @abstractmethod
    def on_episode(self, start: Any) -> None:
        """An episode starts (tether_msgs/EpisodeStart): the stage forgets what it knew."""

    @abstractmethod
    def on_tick(self, inputs: TickInputs) -> None:
        """Lockstep: run one tick with everything that is due."""

    def start_live(self) -> None:
        """Real time: start timers; called on activation."""

    # -- building blocks --------------------------------------------------------------------------------------------

    def param(self, name: str, default: Any, doc: str) -> Any:
        """Declare a parameter with its descriptor and return its value, which is fixed from then on."""
        return self.declare_parameter(name, default, ParameterDescriptor(description=doc, read_only=True)).value

    def names(self, name: str, doc: str) -> list[str]:
        """Declare a parameter that holds names, none where it is not set, and return them."""
        return declared_names(self, name, doc)

    def outlet(self, topic: Topic) -> Outlet:
        """A publisher for `topic`, undone on clean-up."""
        kind, profile = qos.message_class(topic), qos.publisher_qos(topic)
        events = PublisherEventCallbacks(use_default_callbacks=False)
        publisher = self.create_publisher(kind, topic.name, profile, event_callbacks=events)
        self._undo += [lambda: self.destroy_publisher(publisher), self.hub.add_sender(topic)]
        outlet = Outlet(topic, publisher, self.hub, None if topic in _NO_TURN else self.turned)
        self._outlets.append(outlet)
        return outlet

    def turned(self) -> None:
        """The node's loop has turned: something was sent, or a timer's work is done. The process's heartbeat tells."""
        if self.beats is not None:
            self.beats.turn(self._beat)

    def admits(self, topic: Topic, size: int) -> bool:
        """Whether a message of `topic` of so many bytes is looked at; asked before it is decoded."""
        return True

    def inlet(
        self,
        topic: Topic,
        take: Callable[[Any], None],
        *,
        fed: bool = True,
        on_missed: Callable[[int], None] | None = None,
    ) -> None:
        """Hand every message of `topic` to `take`, decoded; a malformed one is an event, not an exception.

        fed: somebody must publish it before the node is activated. on_missed: see `Inlet`.
        """

        self.raw_inlet(topic, lambda raw: take(decode(raw, topic.type)), fed=fed, on_missed=on_missed)

    def raw_inlet(
        self,
        topic: Topic,
        take: Callable[[bytes], None],
        *,
        fed: bool = True,
        on_missed: Callable[[int], None] | None = None,
    ) -> None:
        """As `inlet`, with the message as it came (CDR), for who decodes few of many."""

        def on_bytes(raw: bytes) -> None:
            if not self._active or not self.admits(topic, len(raw)):
                return
            try:
                take(raw)
            except (TetherError, ValueError) as error:
                self._complaints.malformed(topic, error)
            if self.mode is Mode.LOCKSTEP:
                self._pump()

        if self.hub.carries(topic):
            feeders: Callable[[], int] = functools.partial(self.hub.senders, topic)
            self._undo.append(self.hub.add_taker(topic, on_bytes))
        else:
            profile = qos.subscriber_qos(topic, must_not_lose=self.mode is Mode.LOCKSTEP)
            unfit = functools.partial(self.event, sensors.Severity.WARN, "incompatible_qos")
            inlet = self._from_outside[topic] = Inlet(self, topic, on_bytes, profile, unfit, on_missed)
            feeders = inlet.feeders
            self._undo.append(inlet.destroy)
        if fed:
            self._inlets.append((topic, feeders))

    def take_arrived(self, *heard: Topic) -> None:
        """Real time: hand over what has arrived of these topics, from within a timer's work that judges their silence.

        Timers come before messages, and what came while the node was busy waits unread: judged without a look, the
        node's own delay would be taken for the sender's.
        """
        for topic in heard:
            inlet = self._from_outside.get(topic)
            if inlet is not None and self._active:
                inlet.take_arrived()

    def world_inlets(self) -> None:
        """What every stage hears of the world: episode starts, and in lockstep the plan of each tick."""
        if self.mode is Mode.REALTIME:
            self.inlet(topics.EPISODE_START, self._begin_episode)
            return
        self.inlet(topics.EPISODE_START, lambda msg: self._inbox.put_result(EPISODE, int(msg.episode), 0, msg))
        self.inlet(topics.TICK_PLAN, lambda msg: self._inbox.put_plan(convert.tick_plan_from(msg)))

    def is_left_over(self, stamp_ns: int) -> bool:
        """Real time: whether a sample that comes now was still under way when the episode before it ended."""
        begun = time.monotonic() - self._began_s < LEFT_OVER_S
        return begun and 0 < stamp_ns < self._episode_start_ns

    def optional(self, *outlets: Outlet) -> None:
        """Outlets that may go unheard: without a listener they do not keep the node from being activated."""
        self._optional.update(outlets)

    def every(self, period_s: float, call: Callable[[], None]) -> None:
        """Call on the steady clock while the node is active; a TetherError from `call` ends the process."""

        def when_active() -> None:
            if not self._active:
                return
            try:
                call()
            except TetherError as error:
                self.fail(str(error))
            self.turned()

        timer = self.create_timer(period_s, when_active, clock=self.steady)
        self._undo.append(lambda: self.destroy_timer(timer))

    def service(self, kind: Any, name: str, call: Callable[[Any], None]) -> None:
        """Offer a service whose response has `accepted` and `message`; a TetherError from `call` refuses it."""

        def answer(request: Any, response: Any) -> Any:
            try:
                call(request)
                response.accepted = True
            except TetherError as error:
                response.accepted, response.message = False, str(error)
            return response

        service = self.create_service(kind, name, answer)
        self._undo.append(lambda: self.destroy_service(service))

    def fail(self, reason: str) -> None:
        """The stage cannot go on: say why, and end the process, which the manager and the launch then name."""
        self._active = False
        self.event(sensors.Severity.ERROR, "stage_failed", reason)
        self.finish(exit_status=1)

    def finish(self, exit_status: int = 0) -> None:
        """The node's work is done: its process ends once what was sent has been acknowledged."""
        for outlet in self._outlets:
            outlet.flush()
        self.exit_status = exit_status
        self.finished = True

    def inbox(self) -> Inbox:
        """Where inlets put what ticks need."""
        return self._inbox

    def renew_inbox(self) -> None:
        """Start an empty inbox for `needs`, where a subclass only knows them once it is configured."""
        self._inbox = Inbox(self._all_needs())

    def now_ns(self) -> int:
        """The world's time of the newest tick in lockstep; otherwise ROS time (/clock where use_sim_time is set)."""
        if self.mode is Mode.LOCKSTEP and self._world_ns is not None:
            return self._world_ns
        return int(self.get_clock().now().nanoseconds)

    def event(self, severity: int, kind: str, text: str, data: Mapping[str, Any] | None = None) -> None:
        """Log something worth keeping and publish it."""
        # one call a severity: rclpy refuses a call site that changes its severity
        if severity == sensors.Severity.INFO:
            self.get_logger().info(f"{kind}: {text}")
        elif severity == sensors.Severity.WARN:
            self.get_logger().warning(f"{kind}: {text}")
        else:
            self.get_logger().error(f"{kind}: {text}")
        if self._events is not None:
            self._events.send(sensors.event_message(self.now_ns(), self.get_name(), severity, kind, text, data))

    def complain(self, stream: Stream, reason: str, detail: str) -> None:
        """Count something wrong with a stream; say so at most once a second for each reason, with the count."""
        self._complaints.of_stream(stream, reason, detail)

    # -- lifecycle --------------------------------------------------------------------------------------------------

    _events: Outlet | None = None
    _world_ns: int | None = None
    """Lockstep: time of the newest tick."""

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        """Build the stage; a refused configuration is named and leaves the node unconfigured."""
        try:
            self._events = self.outlet(topics.EVENTS)
            self.optional(self._events)
            self.build()
        except (TetherError, ImportError, OSError, ValueError) as error:
            self.get_logger().error(f"not configured: {error}")
            self._tear_down()
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        """Wait until every outlet is heard and every inlet fed, then run."""
        ends = Ends(self._outlets, self._optional, self._inlets)
        around = Surroundings(self._peers, self.housemates, self.mode is Mode.LOCKSTEP)
        unmatched = await_match(self, ends, around, not self._wait_for_match, self._given_up)
        if unmatched:
            self.get_logger().error(f"not activated: {'; '.join(unmatched)}")
            return TransitionCallbackReturn.FAILURE
        self._active = True
        self._live_from = len(self._undo)
        if self.mode is Mode.REALTIME:
            self.start_live()
        else:
            self.every(WAITING_S, self._say_waiting)
        return super().on_activate(state)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        """Stop, and with it what began with being active; what waits is forgotten."""
        self._active = False
        self._inbox.clear()
        while len(self._undo) > self._live_from:
            self._undo.pop()()
        return super().on_deactivate(state)

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        """Give up inlets, outlets and timers."""
        self._tear_down()
        return TransitionCallbackReturn.SUCCESS

    on_error = on_cleanup  # after a transition that an exception ended

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        """As clean-up; the process then ends."""
        self.finished = True
        return self.on_cleanup(state)

    def destroy_node(self) -> None:
        """As rclpy's, and its lifecycle services."""
        super().destroy_node()
        destroy_services(self)

    @property
    def active(self) -> bool:
        """Whether the node is active."""
        return self._active

    # -- inside -----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        while self._active:
            inputs = self._inbox.take()
            if inputs is None:
                return
            plan = inputs.plan
            self._world_ns = plan.stamp_ns
            try:
                if EPISODE in inputs.results:
                    self.on_episode(inputs.results[EPISODE])
                self.on_tick(inputs)
            except (TetherError, ValueError) as error:
                self.fail(f"episode {plan.episode}, tick {plan.tick}: {error}")

    def _given_up(self) -> str:
        """Why a transition that takes its time need not be finished; empty where it has to be."""
        if self.told_to_go() or not self.context.ok():
            return "the process was told to go"
        return "asked for another transition meanwhile" if self._changes.another() else ""

    def _begin_episode(self, start: Any) -> None:
        self._episode_start_ns, self._began_s = convert.to_ns(start.stamp), time.monotonic()
        self.on_episode(start)

    def _say_waiting(self) -> None:
        """Lockstep: name what the oldest tick waits for, where that is what it was at the last look."""
        missing = self._inbox.missing()
        if missing and missing == self._waited:
            self.event(sensors.Severity.WARN, "waiting", f"{self._inbox.where()} waits for {', '.join(missing)}")
        self._waited = missing

    def _all_needs(self) -> Needs:
        return dataclasses.replace(self.needs, at_start=self.needs.at_start | {EPISODE})

    def _tear_down(self) -> None:
        self._active = False
        while self._undo:
            self._undo.pop()()
        for kept in (self._outlets, self._optional, self._inlets, self._from_outside):
            kept.clear()
        self._events = None
        self._inbox = Inbox(self._all_needs())
