"""The robot as calibration has it: still, or moved slowly, with everything kept that it said meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tether.contracts import (
    F64,
    TICK_NS,
    U8,
    Command,
    EpisodeSpec,
    ImageSample,
    ImuSample,
    JointSample,
    Source,
    TickDelivery,
)
from tether.errors import DeadlineError
from tether.hardware.imu import ImuReadout
from tether.hardware.world import PhysicalWorld
from tether.robot.roles import COMMAND_JOINTS

_READY_S = 20.0
_MOVE_RAD_S = 0.5
_TICK_S = TICK_NS * 1e-9


class Bench(Protocol):
    """A robot, or what stands for it."""

    world: PhysicalWorld

    def tick(self, command: Command | None) -> TickDelivery:
        """One tick of 10 ms, and what came in it."""


class PhysicalBench:
    """A robot in real time. Its wheels stand still; whoever makes it closes the world."""

    def __init__(self, world: PhysicalWorld) -> None:
        self.world = world
        world.reset(EpisodeSpec("calibrate", "calibrate", 0))
        self._next_s = time.monotonic()

    def tick(self, command: Command | None) -> TickDelivery:
        """See `Bench`."""
        self._next_s = max(self._next_s + _TICK_S, time.monotonic() - _TICK_S)
        time.sleep(max(0.0, self._next_s - time.monotonic()))
        return self.world.step(command)


@dataclass(eq=False)
class Recording:
    """What was told and said, with times in ns of one clock. Goals and joints are in the order of COMMAND_JOINTS."""

    goals: list[tuple[int, F64]] = field(default_factory=list)
    joints: list[tuple[int, F64, F64]] = field(default_factory=list)
    """Stamp, position, velocity."""
    imu: list[ImuReadout] = field(default_factory=list)
    pictures: list[tuple[int, U8]] = field(default_factory=list)


class Operator:
    """Holds and moves the arm of a bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._goal: F64 | None = None

    def get_ready(self) -> F64:
        """Wait until the servos are taken up and the arm's position is known; returns it. DeadlineError."""
        for _ in range(round(_READY_S / _TICK_S)):
            for sample in self._bench.tick(None).samples:
                if isinstance(sample, JointSample) and self._bench.world.servos.ready:
                    self._goal = sample.position.copy()
                    return self._goal
        said = [notice.text for notice in self._bench.world.notices.take()][-3:]
        raise DeadlineError("the servos to be ready", _READY_S, said)

    def hold(self, seconds: float) -> Recording:
        """Stand still."""
        return self.follow([self._at()] * round(seconds / _TICK_S))

    def move(self, goal: F64) -> None:
        """Go there slowly, all joints together, along a cosine."""
        start = self._at()
        seconds = 0.5 * math.pi * float(np.abs(goal - start).max()) / _MOVE_RAD_S + 0.1
        share = 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, max(2, round(seconds / _TICK_S))))
        self.follow([start + one * (goal - start) for one in share])

    def follow(self, goals: Sequence[F64]) -> Recording:
        """One goal a tick."""
        recording, zero = Recording(), np.zeros(len(COMMAND_JOINTS))
        for i, goal in enumerate(goals):
            self._goal = goal
            command = Command(i, 0, -1, Source.GATE, COMMAND_JOINTS, goal, zero, np.zeros(3))
            _keep(recording, self._bench.tick(command))
        return recording

    def _at(self) -> F64:
        return self.get_ready() if self._goal is None else self._goal


def _keep(recording: Recording, delivery: TickDelivery) -> None:
    if delivery.executed is not None:
        recording.goals.append((delivery.executed.ref.stamp_ns, delivery.executed.command.position))
    for sample in delivery.samples:
        if isinstance(sample, JointSample):
            recording.joints.append((sample.ref.stamp_ns, sample.position, sample.velocity))
        elif isinstance(sample, ImageSample):
            recording.pictures.append((sample.ref.stamp_ns, sample.rgb))
        elif isinstance(sample, ImuSample):
            readout = ImuReadout(
                sample.ref.stamp_ns, sample.angular_velocity_rad_s, sample.linear_acceleration_m_s2, None
            )
            recording.imu.append(readout)
