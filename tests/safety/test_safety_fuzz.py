"""Whatever comes in, in whatever form: nothing escapes the gate and no limit is violated.

TETHER_FUZZ_CASES sets the number of inputs (default 100 000, a few seconds).
"""

from __future__ import annotations

import logging
import math
import os
import random
from typing import Any

import numpy as np

from tether.contracts import (
    TICK_NS,
    Command,
    ExecutedCommand,
    ImuSample,
    JointSample,
    Mode,
    Primitive,
    SampleRef,
    Source,
    Stream,
)
from tether.safety.inputs import ServoSample
from tether.safety.machine import Event

CASES = int(os.environ.get("TETHER_FUZZ_CASES", "100000"))
SIZES = (0.0, 1.0, 5e-324, 1e-9, 0.5, 3.0, 1e6, 1e154, 1.7e308, math.inf)
NUMBERS = (*SIZES, *(-x for x in SIZES), math.nan)
STEPS_NS = (TICK_NS, TICK_NS, TICK_NS, TICK_NS - 10**6, TICK_NS // 2, 2 * TICK_NS)


class Hostile:
    """Raises wherever it is touched."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"hostile attribute {name}")

    def __len__(self) -> int:
        raise RuntimeError("hostile length")

    def __iter__(self) -> Any:
        raise RuntimeError("hostile iteration")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hostile comparison")

    def __hash__(self) -> int:
        raise RuntimeError("hostile hash")

    def __repr__(self) -> str:
        raise RuntimeError("hostile representation")


class Fuzzer:
    """Random inputs: mostly well formed with odd numbers, sometimes anything."""

    def __init__(self, rig: Any, seed: int) -> None:
        self.rig = rig
        self.random = random.Random(seed)
        self.names = rig.model.joint_names
        others = (self.joints, self.imu, self.stream, self.servos, self.executed, self.event, self.decision)
        self.inputs = (*[self.propose] * 6, *others)

    def junk(self) -> Any:
        return self.random.choice(
            (
                None,
                0,
                -1,
                1.5,
                "text",
                b"bytes",
                [],
                (),
                {},
                object,
                Hostile(),
                np.zeros(0),
                np.array("x"),
                float("nan"),
            )
        )

    def number(self) -> float:
        return self.random.choice(NUMBERS) if self.random.random() < 0.3 else self.random.uniform(-3, 3)

    def vector(self, n: int) -> Any:
        choice = self.random.random()
        if choice < 0.75:
            return np.array([self.random.uniform(-2, 2) for _ in range(n)])
        if choice < 0.9:
            return np.array([self.number() for _ in range(n)])
        size = self.random.choice((0, 1, n - 1, n + 1, n, 1000))
        return self.random.choice(
            (
                np.zeros(size),
                np.zeros((n, 1)),
                np.zeros(n, np.float32),
                np.zeros(n, np.int64),
                np.array([None] * n, dtype=object),
                np.zeros(n, complex),
                np.array(1.0),
                [0.0] * n,
                self.junk(),
            )
        )

    def time(self) -> Any:
        choice = self.random.random()
        if choice < 0.93:
            return self.rig.now_ns - self.random.randrange(0, 5_000_000)
        return self.random.choice((0, -1, 1 << 62, 1 << 80, self.rig.now_ns + 10**12, 1.0, None, True, "0", math.nan))

    def sequence_of_names(self) -> Any:
        if self.random.random() < 0.9:
            return self.names
        return self.random.choice(
            (
                self.names[::-1],
                self.names[1:],
                (*self.names, "x"),
                self.names[:1] * 6,
                list(self.names),
                (1,) * 6,
                self.junk(),
            )
        )

    def ref(self, stream: Stream) -> Any:
        if self.random.random() < 0.05:
            return self.junk()
        return SampleRef(stream, self.time(), self.random.randrange(1000))

    def command(self) -> Any:
        if self.random.random() < 0.03:
            return self.junk()
        source: Any = self.random.choice(list(Source)) if self.random.random() < 0.97 else self.junk()
        names = self.sequence_of_names()
        return Command(0, 0, self.random.randrange(5), source, names, self.vector(6), self.vector(6), self.vector(3))

    def propose(self) -> None:
        self.rig.gate.propose(self.command(), self.time())

    def joints(self) -> None:
        sample: Any = JointSample(self.ref(Stream.JOINTS), self.sequence_of_names(), self.vector(6), self.vector(6))
        self.rig.gate.on_joints(self.junk() if self.random.random() < 0.03 else sample, self.time())

    def imu(self) -> None:
        accel = np.array([0.0, 0.0, 9.8]) if self.random.random() < 0.9 else self.vector(3)
        sample: Any = ImuSample(self.ref(Stream.IMU), self.vector(3), accel)
        age_ns: Any = self.random.choice((None, None, 0, 10**6, 1 << 70, "x"))
        self.rig.gate.on_imu(self.junk() if self.random.random() < 0.03 else sample, self.time(), age_ns)

    def stream(self) -> None:
        self.rig.gate.on_stream(self.ref(Stream.CAMERA), self.time())

    def servos(self) -> None:
        def part() -> Any:
            if self.random.random() < 0.1:
                return self.junk()
            return tuple(self.number() for _ in range(6))

        sample: Any = ServoSample(self.sequence_of_names(), part(), part(), part(), part())
        self.rig.gate.on_servos(self.junk() if self.random.random() < 0.03 else sample, self.time())

    def executed(self) -> None:
        sample: Any = ExecutedCommand(self.ref(Stream.EXECUTED), self.command(), self.random.random() < 0.05)
        self.rig.gate.on_executed(self.junk() if self.random.random() < 0.03 else sample)

    def event(self) -> None:
        event: Any = self.random.choice((*list(Event)[1:-3], self.junk()))
        self.rig.gate.on_event(event, self.random.choice(("why", "", None, Hostile())))

    def decision(self) -> None:
        primitive: Any = self.random.choice((*Primitive, self.junk()))
        self.rig.gate.on_decision(self.random.choice((1, 2, 3, -1, None, 1.5)), primitive)

    def tick(self) -> Any:
        choice = self.random.random()
        if choice < 0.995:
            return self.rig.tick(
                self.random.choice((TICK_NS, TICK_NS, TICK_NS, TICK_NS - 10**6, TICK_NS // 2, 2 * TICK_NS))
            )
        return self.rig.tick(self.random.choice((0, 10**9, -5)))


def test_nothing_escapes_and_no_limit_is_violated_whatever_comes_in(make_rig: Any, caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    rig = make_rig()
    fuzzer = Fuzzer(rig, seed=20)
    moved = 0
    stopped = False
    for case in range(CASES):
        fuzzer.random.choice(fuzzer.inputs)()
        if case % 6:
            continue
        if fuzzer.random.random() < 0.3:
            rig.sense()
            rig.propose(rig.q + fuzzer.random.uniform(-0.3, 0.3))
        output = fuzzer.tick()
        assert not stopped or output.mode is Mode.STOP
        moved += output.command.velocity.any() or output.command.base_twist.any()
        stopped = output.mode is Mode.STOP
        if stopped and rig.still(output):
            rig.gate.reset_stop("fuzz")
            stopped = False
        if rig.gate.mode is Mode.INIT:
            rig.gate.arm("fuzz")
    assert moved > CASES // 100
