"""The soak itself: the robot's drivers at 100 Hz in real time, a record each ten seconds and each fault."""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from tether.contracts import TICK_NS, EpisodeSpec, JointSample, Stream, TickDelivery
from tether.errors import InvalidInputError
from tether.hardware.notices import Level
from tether.hardware.settings import RobotSettings
from tether.hardware.soak.injector import Injector
from tether.hardware.soak.measure import StreamMeter
from tether.hardware.soak.motion import Wiggle
from tether.hardware.world import PhysicalWorld

RECORD_S = 10.0
_FRESH_S = 0.25
_STUCK_S = 30.0
"""A stream silent for longer, with no fault in place, is stuck."""
_TICK_S = TICK_NS * 1e-9
Keep = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class SoakPlan:
    """What is run. run: how often it was begun; done_s: what earlier runs have done of total_s."""

    total_s: float
    done_s: float
    run: int
    task: str
    profile: str
    wiggle_joint: str
    wiggle_rad: float


class Soak:
    """One run, until its time is over or `stop` was called. The world is the caller's to close."""

    def __init__(
        self, world: PhysicalWorld, settings: RobotSettings, plan: SoakPlan, injector: Injector | None, keep: Keep
    ) -> None:
        self._world, self._plan, self._injector, self._keep = world, plan, injector, keep
        self._meters = {Stream.JOINTS: StreamMeter(_TICK_S), Stream.IMU: StreamMeter(0.005)}
        if world.has_camera:
            self._meters[Stream.CAMERA] = StreamMeter(1.0 / settings.camera.rate_hz)
        self._wiggle = Wiggle(plan.wiggle_joint, plan.wiggle_rad)
        self._taken_up = -1
        self._stopped = False
        self._me = psutil.Process()
        self._kinds: Counter[str] = Counter()
        self._refused = self._late = self._stuck = 0
        self._counts: Counter[str] = Counter()
        self._last_counts: dict[str, int] = {}
        self._silent: set[Stream] = set()

    def stop(self) -> None:
        """End after the present tick."""
        self._stopped = True

    def go(self) -> float:
        """Run; returns the seconds that were done in all runs."""
        plan, begin_s = self._plan, time.monotonic()
        self._world.reset(EpisodeSpec(plan.task, plan.profile, 0))
        next_s, record_s, now_s = begin_s, begin_s + RECORD_S, begin_s
        try:
            while not self._stopped and plan.done_s + now_s - begin_s < plan.total_s:
                self._tick(plan.done_s + now_s - begin_s)
                next_s += _TICK_S
                now_s = time.monotonic()
                if now_s < next_s:
                    time.sleep(next_s - now_s)
                else:
                    self._late += 1
                    next_s = max(next_s, now_s - _TICK_S)
                now_s = time.monotonic()
                if now_s >= record_s:
                    record_s += RECORD_S
                    self._record(now_s - begin_s)
        finally:
            if self._injector is not None:
                self._injector.clear()
            self._record(now_s - begin_s)
        return plan.done_s + now_s - begin_s

    def _tick(self, now_s: float) -> None:
        delivery = self._step()
        calm = self._injector is None or self._injector.calm
        for sample in delivery.samples:
            meter = self._meters.get(sample.ref.stream)
            if meter is not None:
                if not calm:
                    meter.leave_out()
                meter.take(sample.ref.stamp_ns)
        self._hear(now_s)
        silent = {s for s, meter in self._meters.items() if meter.silent_s(delivery.stamp_ns) > _FRESH_S}
        if self._injector is not None:
            over = self._injector.turn(now_s, whole=self._world.servos.ready and not silent)
            if over is not None:
                self._stuck += over.recovered_s is None
                self._keep({"record": "fault", **dataclasses.asdict(over)})
            if not self._injector.calm:
                for meter in self._meters.values():
                    meter.leave_out()
        if calm:
            stuck = {s for s in silent if _STUCK_S < self._meters[s].silent_s(delivery.stamp_ns) < 1e9}
            self._stuck += len(stuck - self._silent)
            self._silent = stuck

    def _step(self) -> TickDelivery:
        command = self._wiggle.next(0)
        try:
            delivery = self._world.step(command)
        except InvalidInputError:
            self._refused += 1
            self._wiggle.anchor(None)
            delivery = self._world.step(None)
        if self._world.servos.taken_up != self._taken_up or not self._world.servos.ready:
            self._taken_up = self._world.servos.taken_up
            self._wiggle.anchor(None)
        elif not self._wiggle.anchored:
            joints = [sample for sample in delivery.samples if isinstance(sample, JointSample)]
            self._wiggle.anchor(joints[-1].position if joints else None)
        return delivery

    def _hear(self, now_s: float) -> None:
        for notice in self._world.notices.take():
            self._kinds[notice.kind] += notice.level is not Level.INFO
            if self._injector is not None:
                self._injector.hear(notice.kind, now_s)
        counts = dict(self._world.servos.counts)
        if counts and counts["requests"] < self._last_counts.get("requests", 0):
            self._last_counts = {}  # the bus was opened anew, and counts from 0
        for name, number in counts.items():
            grown = number - self._last_counts.get(name, 0)
            self._counts[name] += grown
            if name == "checksum_errors" and grown and self._injector is not None:
                self._injector.hear(name, now_s)
        self._last_counts = counts or self._last_counts

    def _record(self, run_s: float) -> None:
        """What happened since the last record; counters begin anew."""
        health = self._world.servos.health
        with self._me.oneshot():
            memory = {
                "rss_mib": self._me.memory_info().rss / 2**20,
                "fds": self._me.num_fds(),
                "threads": self._me.num_threads(),
                "cpu_s": sum(self._me.cpu_times()[:2]),
            }
        streams = {stream.value: meter.drain() for stream, meter in self._meters.items()}
        self._keep(
            {
                "record": "span",
                "run": self._plan.run,
                "run_s": run_s,
                "done_s": self._plan.done_s + run_s,
                **memory,
                "servo_c": max((one.temperature_c for one in health), default=None),
                "cpu_c": _cpu_temperature(),
                "streams": streams,
                "bus": dict(self._counts),
                "notices": {kind: n for kind, n in self._kinds.items() if n},
                "refused": self._refused,
                "late_ticks": self._late,
                "stuck": self._stuck,
                "load": os.getloadavg()[0],
            }
        )
        self._counts.clear()
        self._kinds.clear()
        self._refused = self._late = self._stuck = 0


def _cpu_temperature() -> float | None:
    """The hottest of the machine's own sensors, °C; None where it has none."""
    readings = [one.current for group in psutil.sensors_temperatures().values() for one in group]
    return max(readings, default=None)
