"""The primitives as state machines: parameters, proprioception and the policy's estimate in, tool set-point out.

None of them sees the world. The tool's reference is planned for the moment at which a command of now takes effect;
`Reference.follow` moves it towards a goal that may itself move, with bounded speed and acceleration against the goal.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from tether.contracts import F64, TICK_NS, Estimate, Primitive
from tether.motion.config import MotionConfig
from tether.skills import PrimitiveSpec

DT_S = TICK_NS * 1e-9


@dataclass
class Reference:
    """Where the tool shall be: p (3,) m and v (3,) m/s in the base frame, opening (m between the pads), base twist."""

    p: F64
    opening: float
    v: F64 = field(default_factory=lambda: np.zeros(3))
    relative_v: F64 = field(default_factory=lambda: np.zeros(3))
    twist: F64 = field(default_factory=lambda: np.zeros(3))

    def rest(self) -> None:
        """Stop where it is."""
        self.follow(self.p, np.zeros(3), 0.0, 0.0, 3.0)

    def follow(self, goal: F64, goal_v: F64, speed_xy: float, speed_z: float, acceleration: float) -> None:
        """One tick towards `goal`, which moves at `goal_v`; speeds are against the goal."""
        gap = goal - (self.p + goal_v * DT_S)
        wanted = np.zeros(3)
        flat = math.hypot(gap[0], gap[1])
        if flat > 1e-9:
            wanted[:2] = gap[:2] / flat * min(speed_xy, _braking(flat, acceleration))
        if abs(gap[2]) > 1e-9:
            wanted[2] = math.copysign(min(speed_z, _braking(abs(gap[2]), acceleration)), gap[2])
        change = wanted - self.relative_v
        size, most = math.sqrt(change @ change), acceleration * DT_S
        self.relative_v = wanted if size <= most else self.relative_v + change * (most / size)
        self.v = goal_v + self.relative_v
        self.p = self.p + self.v * DT_S


def _braking(distance: float, acceleration: float) -> float:
    """Speed from which `distance` just suffices to stop, and that does not pass it within a tick."""
    return min(math.sqrt(2.0 * acceleration * distance) * 0.9, distance / DT_S)


@dataclass(frozen=True, eq=False)
class View:
    """What a primitive sees in one tick.

    tool (3,): the tcp as measured; opening and opening_rate: the gripper as measured (m, m/s, between the pads).
    lag_s: from now until a command takes effect. measured_ns: stamp of the joint reading.
    """

    now_ns: int
    measured_ns: int
    tool: F64
    opening: float
    opening_rate: float
    lag_s: float
    estimate: Estimate
    params: F64
    spec: PrimitiveSpec
    config: MotionConfig

    def param(self, name: str) -> float:
        """A parameter by name."""
        return float(self.params[self.spec.index(name)])

    def cube(self, at_ns: int, extra_s: float = 0.0) -> tuple[F64, F64]:
        """Position and velocity of the estimated cube at a time, carried on with constant acceleration."""
        estimate = self.estimate
        h = (at_ns - estimate.stamp_ns) * 1e-9 + extra_s
        h = max(-self.config.extrapolate_s, min(self.config.extrapolate_s, h))
        v = estimate.v_base_cube + estimate.a_base_cube * h
        p = estimate.p_base_cube + (estimate.v_base_cube + 0.5 * h * estimate.a_base_cube) * h
        return p, v


class Motion(ABC):
    """One run of a primitive, from the tick at which it was chosen until another is."""

    phase = "run"

    def enter(self, view: View, ref: Reference) -> None:
        """Note what the run starts from."""
        ref.twist = np.zeros(3)

    @abstractmethod
    def tick(self, view: View, ref: Reference) -> None:
        """Move the reference by one tick."""


class Hold(Motion):
    """Stand still; also `look`, which chooses how hard to look and keeps the arm out of it."""

    def tick(self, view: View, ref: Reference) -> None:
        ref.rest()


class Drive(Hold):
    """Hold the arm and move the base."""

    def tick(self, view: View, ref: Reference) -> None:
        super().tick(view, ref)
        ref.twist = np.array([view.param("vx"), view.param("vy"), view.param("wz")])


class Track(Motion):
    """Keep the tool above the estimated cube."""

    def tick(self, view: View, ref: Reference) -> None:
        if not view.estimate.valid:
            ref.rest()
            return
        p, v = view.cube(view.now_ns, view.lag_s)
        goal = p + np.array([view.param("dx"), view.param("dy"), view.param("height")])
        speed = view.config.approach_speed_m_s
        ref.follow(goal, v * _FLAT, speed, speed, view.config.acceleration_m_s2)
        ref.opening = view.param("opening")


_FLAT = np.array([1.0, 1.0, 0.0])
"""The tool follows the cube's motion over ground; heave of a millimetre is not worth chasing."""


class Reach(Motion):
    """Move the tool to a point of the base frame."""

    def tick(self, view: View, ref: Reference) -> None:
        goal = np.array([view.param("x"), view.param("y"), view.param("z")])
        speed = max(view.param("speed") * view.config.approach_speed_m_s * 2.0, 0.01)
        ref.follow(goal, np.zeros(3), speed, speed, view.config.acceleration_m_s2)
        ref.opening = view.param("opening")


_NARROW_M = 0.002
"""A grasp goes down with the gripper at its own opening, however wide another primitive left it."""


class Grasp(Motion):
    """Align above the estimated cube, descend, close; once the fingers stall on something, stop following."""

    def enter(self, view: View, ref: Reference) -> None:
        super().enter(view, ref)
        self.phase = "align"
        self._closing_s = 0.0
        self._stalled_s = 0.0

    def tick(self, view: View, ref: Reference) -> None:
        if self.phase == "gripped":
            ref.rest()
            return
        if not view.estimate.valid:
            ref.rest()
            return
        config = view.config
        offset = np.array([view.param("dx"), view.param("dy"), view.param("dz")])
        p, v = view.cube(view.now_ns, view.lag_s + view.param("lead"))
        goal = p + offset
        here, _ = view.cube(view.measured_ns, view.param("lead"))
        error = view.tool - (here + offset)
        narrow = view.opening < config.opening_m + _NARROW_M
        aligned = narrow and math.hypot(error[0], error[1]) < config.align_m
        if self.phase in ("align", "descend"):
            self.phase = "descend" if aligned else "align"
        if self.phase == "align":
            # Out of line: stop going down, but do not climb; above the hover height come down to it.
            goal[2] = min(max(ref.p[2], goal[2]), goal[2] + config.hover_m)
        elif self.phase == "descend" and aligned and abs(error[2]) < config.level_m:
            self.phase = "close"
        descend = view.param("descend_speed")
        ref.follow(goal, v * _FLAT, config.approach_speed_m_s, descend, config.acceleration_m_s2)
        ref.opening = view.config.opening_m
        if self.phase == "close":
            self._close(view, ref)

    def _close(self, view: View, ref: Reference) -> None:
        config = view.config
        ref.opening = 0.0
        self._closing_s += DT_S
        slow = abs(view.opening_rate) < 2.0 * config.stall_m_s
        moved = view.opening < 0.93 * view.config.opening_m
        self._stalled_s = self._stalled_s + DT_S if slow and moved else 0.0
        if self._stalled_s >= config.stall_s or self._closing_s >= config.close_s:
            self.phase = "gripped"


class Lift(Motion):
    """Raise the closed gripper straight up."""

    def enter(self, view: View, ref: Reference) -> None:
        super().enter(view, ref)
        self._start = ref.p.copy()

    def tick(self, view: View, ref: Reference) -> None:
        goal = self._start + np.array([0.0, 0.0, view.param("height")])
        ref.follow(goal, np.zeros(3), 0.1, view.param("speed"), view.config.acceleration_m_s2)
        ref.opening = 0.0


class Place(Motion):
    """Carry over the point, lower, open."""

    phase = "carry"

    def tick(self, view: View, ref: Reference) -> None:
        goal = np.array([view.param("x"), view.param("y"), view.param("z")])
        error = view.tool - goal
        over = math.hypot(error[0], error[1]) < view.config.align_m
        if self.phase == "carry" and over:
            self.phase = "lower"
        if self.phase == "lower" and over and abs(error[2]) < view.config.level_m:
            self.phase = "open"
        if self.phase == "carry":
            goal[2] = max(goal[2] + view.config.hover_m, ref.p[2])
        speed = view.config.approach_speed_m_s
        ref.follow(goal, np.zeros(3), speed, speed, view.config.acceleration_m_s2)
        if self.phase == "open":
            ref.opening = view.config.opening_m


class Retreat(Motion):
    """Open the gripper where it is, then rise to a height above the ground."""

    def tick(self, view: View, ref: Reference) -> None:
        ref.opening = view.config.opening_m
        goal = ref.p.copy()
        if view.opening > 0.6 * view.config.opening_m:
            goal[2] = view.param("height")
        speed = view.config.approach_speed_m_s
        ref.follow(goal, np.zeros(3), speed, speed, view.config.acceleration_m_s2)


MOTIONS: dict[Primitive, type[Motion]] = {
    Primitive.HOLD: Hold,
    Primitive.TRACK: Track,
    Primitive.REACH: Reach,
    Primitive.GRASP: Grasp,
    Primitive.LIFT: Lift,
    Primitive.PLACE: Place,
    Primitive.RETREAT: Retreat,
    Primitive.DRIVE: Drive,
    Primitive.LOOK: Hold,
}
