"""Playing a bag: its messages on a steady clock, at the pace they were recorded or any other, into a sink."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tether.bags.model import BagMessage
from tether.bags.playable import is_clock_time, is_topic_name, played_names
from tether.bags.reader import Bag
from tether.bags.report import Report
from tether.clock import Clock, SteadyClock
from tether.errors import Fault, InvalidInputError

MIN_RATE, MAX_RATE = 0.1, 10.0
CLOCK_SLACK_NS = 1_000_000
"""`/clock` is brought up to a message's log time first where it lags by more than this."""
POLL_NS = 20_000_000
"""Controls are looked at this often while waiting."""


@dataclass(frozen=True)
class Rate:
    """Times as fast as it was recorded: 0.1 to 10."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        if not MIN_RATE <= self.factor <= MAX_RATE:
            fault = Fault("rate", f"{self.factor:g}", f"{MIN_RATE:g} to {MAX_RATE:g}, or max")
            raise InvalidInputError("replay", [fault])


@dataclass(frozen=True)
class Unpaced:
    """As fast as the sink takes it."""


Pace = Rate | Unpaced


def parse_pace(text: str) -> Pace:
    """`max` or a number within the bounds of Rate. Raises InvalidInputError."""
    if text == "max":
        return Unpaced()
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if math.isnan(factor):
        fault = Fault("rate", repr(text), f"{MIN_RATE:g} to {MAX_RATE:g}, or max")
        raise InvalidInputError("replay", [fault])
    return Rate(factor)


class Sink(Protocol):
    """Where played messages go."""

    def clock(self, time_ns: int) -> None:
        """The bag's time now; never less than before, except right after `jumped_back`."""

    def message(self, topic: str, message: BagMessage) -> None:
        """One message, `topic` after remapping. Must not keep the player waiting at the pace asked for."""

    def jumped_back(self, from_ns: int, to_ns: int) -> None:
        """The bag begins again: time goes back, and what was remembered of the time between is to be
        forgotten.
        """


class Ask(Enum):
    """What whoever is at the controls may want."""

    PAUSE = "pause"
    STEP = "step"
    STOP = "stop"


class Controls(Protocol):
    """Somebody who may pause and step, asked without waiting."""

    def poll(self) -> Ask | None:
        """The next wish, None while there is none. PAUSE pauses or goes on; STEP plays one message, then
        pauses.
        """


class NullSink:
    """Takes everything and counts it. message_count, clock_count, jumps."""

    def __init__(self) -> None:
        self.message_count = 0
        self.clock_count = 0
        self.jumps = 0

    def clock(self, time_ns: int) -> None:
        self.clock_count += 1

    def message(self, topic: str, message: BagMessage) -> None:
        self.message_count += 1

    def jumped_back(self, from_ns: int, to_ns: int) -> None:
        self.jumps += 1


@dataclass(frozen=True)
class PlayOptions:
    """How to play. start_s: skipped at the beginning. topics: only these, None for all. remap: recorded name
    → name to play under. clock_hz: how often `/clock` goes out, in wall time. loop: begin again at the
    end."""

    pace: Pace = field(default_factory=Rate)
    start_s: float = 0.0
    loop: bool = False
    step: bool = False
    remap: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] | None = None
    clock_hz: float = 100.0

    def __post_init__(self) -> None:
        faults = []
        if not (math.isfinite(self.start_s) and self.start_s >= 0.0):
            faults.append(Fault("start", f"{self.start_s:g} s", "0 s or more"))
        if not (math.isfinite(self.clock_hz) and 1.0 <= self.clock_hz <= 1000.0):
            faults.append(Fault("clock_hz", f"{self.clock_hz:g}", "1 to 1000"))
        if faults:
            raise InvalidInputError("replay", faults)


@dataclass(frozen=True)
class PlayResult:
    """What was played. speed: recorded time over steady time, pauses included. late_ms: how far behind schedule
    messages went out. stopped: by the controls. left_out: messages at times that /clock cannot carry, or on topics
    whose names ROS does not allow."""

    messages: int
    passes: int
    wall_s: float
    speed: float
    late_ms_p50: float
    late_ms_p99: float
    late_ms_max: float
    stopped: bool
    report: Report
    left_out: int = 0


class Player:
    """Plays a bag into a sink. Messages are never dropped: a sink that is slow makes the rest late.

    clock, sleep: steady time in nanoseconds and waiting in seconds, arguments so that tests need no real
    time.
    """

    def __init__(
        self,
        bag: Bag,
        sink: Sink,
        options: PlayOptions,
        controls: Controls | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bag = bag
        self._sink = sink
        self._options = options
        self._controls = controls
        self._clock: Clock = SteadyClock() if clock is None else clock
        self._sleep = sleep
        self._names = self._remapped()
        self._bag_origin_ns = 0
        self._wall_origin_ns = 0
        self._bag_time_ns: int | None = None
        self._next_clock_ns = 0
        self._paused = options.step
        self._steps = 0
        self._stopped = False
        self._clock_period_ns = round(1e9 / options.clock_hz)
        self._late_ns: list[int] = []
        self._left_out = self._played_ns = 0
        self._start_ns = self._start()

    def play(self) -> PlayResult:
        """Play to the end (with `loop`: until stopped). What the sink raises goes through."""
        began_ns = self._clock.now_ns()
        messages = passes = 0
        while not self._stopped:
            played = self._play_once()
            messages += played
            passes += not self._stopped
            if not self._options.loop or played == 0:
                break
        late = sorted(self._late_ns) or [0]
        wall_ns = self._clock.now_ns() - began_ns
        return PlayResult(
            messages=messages,
            passes=passes,
            wall_s=wall_ns / 1e9,
            speed=self._played_ns / max(wall_ns, 1),
            late_ms_p50=late[len(late) // 2] / 1e6,
            late_ms_p99=late[min(len(late) - 1, len(late) * 99 // 100)] / 1e6,
            late_ms_max=late[-1] / 1e6,
            stopped=self._stopped,
            report=self._bag.report(),
            left_out=self._left_out,
        )

    def _play_once(self) -> int:
        played = last_ns = 0
        for message in self._bag.messages(self._options.topics, self._start_ns):
            name = self._names[message.topic]
            if not (is_clock_time(message.log_time_ns) and is_topic_name(name)):
                self._left_out += 1
                continue
            if played == 0:
                self._begin_pass(message.log_time_ns)
            self._wait_for(message.log_time_ns)
            if self._stopped:
                break
            self._sink.message(name, message)
            played += 1
            last_ns = message.log_time_ns
        if played:
            self._played_ns += max(0, last_ns - self._bag_origin_ns)
        return played

    def _start(self) -> int | None:
        """Log time from which to play, None for the beginning."""
        start_ns, end_ns = self._bag.start_ns, self._bag.end_ns
        if self._options.start_s == 0.0 or start_ns is None or end_ns is None:
            return None
        if self._options.start_s > (end_ns - start_ns) / 1e9:
            expected = f"at most the bag's {(end_ns - start_ns) / 1e9:.3f} s"
            raise InvalidInputError("replay", [Fault("start", f"{self._options.start_s:g} s", expected)])
        return start_ns + round(self._options.start_s * 1e9)

    def _remapped(self) -> dict[str, str]:
        """Checked remapping. A name that two topics of different types would share is refused."""
        topics, remap = self._bag.topics, self._options.remap
        known = ", ".join(sorted(topics)) or "none"
        faults = [
            Fault(f"remap {old}:={new}", f"no topic {old} in the bag", f"one of {known}")
            for old, new in remap.items()
            if old not in topics
        ]
        faults += [
            Fault(f"remap {old}:={new}", repr(new), "an absolute topic name such as /imu/data_raw")
            for old, new in remap.items()
            if not is_topic_name(new)
        ]
        names = played_names(topics, remap)
        types: dict[str, str] = {}
        for name, topic in topics.items():
            played = names[name]
            if types.setdefault(played, topic.type) != topic.type:
                found = f"topics of {types[played]} and {topic.type}"
                faults.append(Fault(played, found, "one type for each topic"))
        if faults:
            raise InvalidInputError("replay", faults, "`tether replay BAG --info` lists the topics")
        return names

    def _begin_pass(self, first_ns: int) -> None:
        before_ns = self._bag_time_ns
        self._bag_origin_ns = first_ns
        self._wall_origin_ns = self._clock.now_ns()
        self._bag_time_ns = None
        self._next_clock_ns = self._wall_origin_ns
        if before_ns is not None:
            self._sink.jumped_back(before_ns, first_ns)
        self._tell_clock(first_ns)

    def _wait_for(self, log_time_ns: int) -> None:
        """Return when the message is due, or while paused when it is stepped to; the time is told on the way."""
        while True:
            self._take(self._controls.poll() if self._controls else None)
            if self._stopped:
                return
            if self._paused and self._steps:
                self._steps -= 1
                self._rebase(log_time_ns)
                break
            pace = self._options.pace
            if self._paused:
                self._sleep(POLL_NS / 1e9)
            elif isinstance(pace, Unpaced) or self._is_due(log_time_ns, pace.factor):
                break
        if self._bag_time_ns is None or log_time_ns > self._bag_time_ns + CLOCK_SLACK_NS:
            self._tell_clock(log_time_ns)

    def _is_due(self, log_time_ns: int, factor: float) -> bool:
        """Whether the message's time has come; if not, tell the time and wait a little."""
        due_ns = self._wall_origin_ns + round((log_time_ns - self._bag_origin_ns) / factor)
        now_ns = self._clock.now_ns()
        if now_ns >= self._next_clock_ns:
            bag_ns = self._bag_origin_ns + round((now_ns - self._wall_origin_ns) * factor)
            self._tell_clock(min(bag_ns, log_time_ns))
            self._next_clock_ns = now_ns + self._clock_period_ns
        if now_ns >= due_ns:
            self._late_ns.append(now_ns - due_ns)
            return True
        self._sleep(min(due_ns - now_ns, self._next_clock_ns - now_ns, POLL_NS) / 1e9)
        return False

    def _tell_clock(self, time_ns: int) -> None:
        if self._bag_time_ns is None or time_ns > self._bag_time_ns:
            self._bag_time_ns = time_ns
            self._sink.clock(time_ns)

    def _rebase(self, bag_ns: int) -> None:
        """Make `bag_ns` the bag's time now, so that a pause or a step does not make the rest late."""
        if isinstance(self._options.pace, Rate):
            ahead_ns = round((bag_ns - self._bag_origin_ns) / self._options.pace.factor)
            self._wall_origin_ns = self._clock.now_ns() - ahead_ns

    def _take(self, ask: Ask | None) -> None:
        match ask:
            case Ask.STOP:
                self._stopped = True
            case Ask.PAUSE:
                self._paused = not self._paused
                if not self._paused and self._bag_time_ns is not None:
                    self._rebase(self._bag_time_ns)
            case Ask.STEP:
                self._paused = True
                self._steps += 1
            case None:
                pass
