"""An independent judge of what the gate let pass, for tests and for recordings of fault campaigns.

Written apart from the gate on purpose: it shares none of its checks, its limiter or its kinematics, and looks
only at the sequence of commands. It knows the limits from robot model and settings, and nothing else.
"""

from __future__ import annotations

from collections.abc import Set
from enum import Enum

import numpy as np

from tether.contracts import F64, TICK_NS, Command, GateOutput
from tether.robot.model import RobotModel
from tether.safety.settings import Check, SafetySettings

_D = TICK_NS * 1e-9
_RELATIVE = 1e-6
_ROUNDING = 1e-9


class Step(Enum):
    """How a command follows the one before it."""

    MOVED = "one tick later"
    REPEATED = "the same set-points once more"
    PAUSED = "after a pause in which the set-points stood"
    ANCHORED = "set-points were put where the joints are"


def step_of(output: GateOutput) -> Step:
    """How an output follows the one before it, from the names of its verdicts."""
    return step_of_checks({verdict.check for verdict in output.verdicts})


def step_of_checks(names: Set[str]) -> Step:
    """The same from the names alone, as a recorded verdict carries them."""
    if names & {Check.ANCHOR.value, Check.WATCHDOG.value}:
        return Step.ANCHORED
    if Check.EARLY_TICK.value in names:
        return Step.REPEATED
    return Step.PAUSED if Check.TICK_GAP.value in names else Step.MOVED


class Auditor:
    """Feed it every command in order; it answers with what each violates (nothing, if the gate is right).

    Set-points that start outside a limit or inside forbidden space may stay or come back, but not go further.
    """

    def __init__(self, robot: RobotModel, settings: SafetySettings, joint_names: tuple[str, ...]) -> None:
        self._robot, self._settings, self._names = robot, settings, joint_names
        self._lower = np.array([robot.limits(name).lower for name in joint_names])
        self._upper = np.array([robot.limits(name).upper for name in joint_names])
        self._v_max = np.array([robot.limits(name).velocity for name in joint_names])
        self._a_max = np.array([settings.joints[name].acceleration_max for name in joint_names])
        self._j_max = np.array([settings.joints[name].jerk_max for name in joint_names])
        self._all = np.zeros(len(robot.joint_names))
        self._at = [robot.joint_names.index(name) for name in joint_names]
        self._q: F64 | None = None
        self._v = self._a = np.zeros(len(joint_names))
        self._low, self._high = self._lower, self._upper
        self._depth: F64 | None = None
        self._twist = np.zeros(3)

    def feed(self, command: Command, step: Step) -> list[str]:
        """What the command violates."""
        if not command.joint_names:
            return ["base moves before joints are known"] if command.base_twist.any() else []
        arrays = (command.position, command.velocity, command.base_twist)
        if command.joint_names != self._names or not all(np.isfinite(a).all() for a in arrays):
            return ["wrong joints or a number that is not finite"]
        faults = self._base(command.base_twist, step)
        q = command.position
        if self._q is None or step is Step.ANCHORED:
            self._start(q)
        elif step is Step.REPEATED:
            faults += [] if np.array_equal(q, self._q) else ["repeated set-points differ"]
        else:
            if step is Step.PAUSED:
                self._v = self._a = np.zeros(len(q))
            faults += self._joints(self._q, q)
        faults += self._places(q)
        faults += self._over("feed-forward", np.abs(command.velocity), self._v_max)
        return faults

    def _start(self, q: F64) -> None:
        self._q = q
        self._v = self._a = np.zeros(len(q))
        self._low, self._high = np.minimum(self._lower, q), np.maximum(self._upper, q)
        self._depth = self._depths(q)

    def _joints(self, before: F64, q: F64) -> list[str]:
        v = (q - before) / _D
        a = (v - self._v) / _D
        j = (a - self._a) / _D
        self._q, self._v, self._a = q, v, a
        faults = self._over("velocity", np.abs(v), self._v_max)
        faults += self._over("acceleration", np.abs(a), self._a_max)
        return faults + self._over("jerk", np.abs(j), self._j_max)

    def _places(self, q: F64) -> list[str]:
        faults = self._over("position above", q - self._high, np.zeros(len(q)))
        faults += self._over("position below", self._low - q, np.zeros(len(q)))
        depth = self._depths(q)
        if self._depth is not None and np.any(depth > self._depth + 1e-6):
            faults.append(f"forbidden space: depths {depth} m, allowed {self._depth}")
        # What came back inside may not leave again.
        self._low, self._high = (
            np.minimum(self._lower, np.maximum(self._low, q)),
            np.maximum(self._upper, np.minimum(self._high, q)),
        )
        return faults

    def _over(self, what: str, found: F64, limit: F64) -> list[str]:
        bad = found > limit * (1.0 + _RELATIVE) + _ROUNDING
        if not bad.any():
            return []
        return [f"{what}: {self._names[i]} {found[i]:.9g}, limit {limit[i]:.9g}" for i in np.flatnonzero(bad)]

    def _base(self, twist: F64, step: Step) -> list[str]:
        limits, faults = self._settings.base, []
        change, self._twist = twist - self._twist, twist
        if np.hypot(*twist[:2]) > limits.linear_max_m_s * (1 + _RELATIVE):
            faults.append(f"base speed {np.hypot(*twist[:2]):.9g} m/s")
        if abs(twist[2]) > limits.angular_max_rad_s * (1 + _RELATIVE):
            faults.append(f"base rate {twist[2]:.9g} rad/s")
        if step is Step.ANCHORED:
            return faults
        if np.hypot(*change[:2]) > limits.linear_acceleration_m_s2 * _D * (1 + _RELATIVE):
            faults.append(f"base acceleration {np.hypot(*change[:2]) / _D:.9g} m/s²")
        if abs(change[2]) > limits.angular_acceleration_rad_s2 * _D * (1 + _RELATIVE):
            faults.append(f"base acceleration {change[2] / _D:.9g} rad/s²")
        return faults

    def _depths(self, q: F64) -> F64:
        limits = self._settings.workspace
        out = []
        self._all[self._at] = q
        for link in limits.links:
            p, _ = self._robot.transform(self._robot.root, link, self._all)
            low, high = np.array(limits.box.low_m), np.array(limits.box.high_m)
            out.append(float(np.max(np.concatenate([low - p, p - high, [0.0]]))))
            for box in limits.keep_out_boxes.values():
                walls = np.concatenate([p - np.array(box.low_m), np.array(box.high_m) - p])
                out.append(max(float(np.min(walls)), 0.0))
            for c in limits.keep_out_cylinders.values():
                wall = c.radius_m - float(np.hypot(p[0] - c.x_m, p[1] - c.y_m))
                out.append(max(min(wall, float(p[2]) - c.low_m, c.high_m - float(p[2])), 0.0))
        return np.array(out)
