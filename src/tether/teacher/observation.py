"""The privileged state as the teacher sees it: a flat float32 vector with names, units and fixed scales.

It is a function of the true states at this decision and the one before, and of the primitives chosen lately, which
the servos' lag has not let take effect. So it can be made for any run, whoever acts in it: that is how the student's
decisions get their labels.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass

import numpy as np

from tether.contracts import F32, F64, Estimate, Primitive, TruthSample
from tether.motion.kinematics import ArmKinematics
from tether.teacher.actions import PRIMITIVES


@dataclass(frozen=True)
class Field:
    """A part of the vector: (value - offset) / scale for each of its numbers, then cut to ± LIMIT."""

    name: str
    unit: str
    offset: tuple[float, ...]
    scale: tuple[float, ...]
    doc: str

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.offset)


def _field(name: str, unit: str, scale: tuple[float, ...], doc: str, offset: tuple[float, ...] | None = None) -> Field:
    return Field(name, unit, offset or (0.0,) * len(scale), scale, doc)


LIMIT = 5.0
PENDING = 3
"""Decisions under way: what was chosen in the last 150 ms has not come through the servos' lag (133 ms) yet."""

FIELDS = (
    _field("gap", "m", (0.05,) * 3, "from the tool to the cube, base frame"),
    _field("near", "m", (0.01, 0.01, 0.01), "the same, finer: cut at 5 cm"),
    _field("gap_rate", "m/s", (0.2,) * 3, "its rate"),
    _field("cube", "m", (0.05, 0.05, 0.05), "the cube in the base frame", (0.24, 0.0, 0.0)),
    _field("cube_velocity", "m/s", (0.2,) * 3, "its rate"),
    _field("cube_acceleration", "m/s^2", (2.0,) * 3, "its second derivative, over the last decision period"),
    _field("opening", "m", (0.02,), "between the pads", (0.03,)),
    _field("opening_rate", "m/s", (0.1,), "its rate"),
    _field("held", "1", (0.5,), "1 where both fingers press on the cube", (0.5,)),
    _field("cube_height", "m", (0.05,), "of its centre, above where it rests"),
    _field("tool_height", "m", (0.05,), "above the ground", (0.08,)),
    _field("base_twist", "m/s, rad/s", (0.2, 0.2, 1.0), "of the base in its own frame"),
    _field(
        "pending",
        "1",
        (1.0,) * (PENDING * len(PRIMITIVES)),
        "for each decision under way, newest first: 1 at its primitive",
    ),
    _field("since", "s", (0.5,), "for how long the newest has been in force"),
    _field("since_long", "s", (2.0,), "the same, coarser"),
)
SIZE = sum(f.size for f in FIELDS)
_OFFSET = np.concatenate([f.offset for f in FIELDS])
_SCALE = np.concatenate([f.scale for f in FIELDS])
_RATE_S = 1e-3


def layout_sha256() -> str:
    """Hash over names, sizes, offsets and scales; part of the model's manifest."""
    plain = repr([(f.name, f.unit, f.offset, f.scale) for f in FIELDS]) + repr(
        (LIMIT, PENDING, [p.name for p in PRIMITIVES])
    )
    return hashlib.sha256(plain.encode()).hexdigest()


def names() -> tuple[str, ...]:
    """Name of each number of the vector."""
    return tuple(f.name if f.size == 1 else f"{f.name}_{i}" for f in FIELDS for i in range(f.size))


class TeacherMemory:
    """What the teacher remembers of a run: its last look at the cube's velocity, and the decisions under way.

    At each decision call `observe` with the truth, then `decided` with what was chosen, by whomever.
    """

    def __init__(self, kinematics: ArmKinematics) -> None:
        self._kinematics = kinematics
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self._pending: deque[Primitive] = deque(maxlen=PENDING)
        self._since_ns = 0
        self._last: tuple[int, F64] | None = None

    def decided(self, primitive: Primitive, stamp_ns: int) -> None:
        """An action was chosen at the decision at `stamp_ns`."""
        if not self._pending or primitive is not self._pending[0]:
            self._since_ns = stamp_ns
        self._pending.appendleft(primitive)

    def observe(self, truth: TruthSample, now_ns: int) -> tuple[F32, Estimate]:
        """The vector (SIZE,) at the decision at `now_ns`, and the truth as the estimate that the primitive acts on.

        The truth is taken for the present, however old it is.
        """
        acceleration = np.zeros(3)
        stamp_ns = truth.ref.stamp_ns
        if self._last is not None and stamp_ns > self._last[0]:
            acceleration = (truth.v_base_cube - self._last[1]) / ((stamp_ns - self._last[0]) * 1e-9)
        self._last = (stamp_ns, truth.v_base_cube)
        estimate = Estimate(now_ns, truth.p_base_cube, truth.v_base_cube, acceleration, 0.0, True)
        return self._vector(truth, acceleration, now_ns), estimate

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        last = b"" if self._last is None else repr(self._last[0]).encode() + self._last[1].tobytes()
        return repr(([p.name for p in self._pending], self._since_ns)).encode() + last

    def _vector(self, truth: TruthSample, acceleration: F64, now_ns: int) -> F32:
        position, velocity = truth.joint_position, truth.joint_velocity
        tool = self._kinematics.tcp(position)
        tool_rate = (self._kinematics.tcp(position + velocity * _RATE_S) - tool) / _RATE_S
        gap = truth.p_base_cube - tool
        fingers = (2.0 * float(position[-1]), 2.0 * float(velocity[-1]), float(truth.held))
        since_s = (now_ns - self._since_ns) * 1e-9 if self._pending else 0.0
        raw = np.concatenate(
            (
                gap,
                gap,
                truth.v_base_cube - tool_rate,
                truth.p_base_cube,
                truth.v_base_cube,
                acceleration,
                (*fingers, truth.cube_height_m, float(tool[2])),
                truth.base_twist,
                self._one_hots(),
                (since_s, since_s),
            )
        )
        vector: F32 = np.clip((raw - _OFFSET) / _SCALE, -LIMIT, LIMIT).astype(np.float32)
        return vector

    def _one_hots(self) -> F64:
        table = np.zeros((PENDING, len(PRIMITIVES)))
        for row, primitive in zip(table, self._pending, strict=False):
            if primitive in PRIMITIVES:
                row[PRIMITIVES.index(primitive)] = 1.0
        return table.ravel()
