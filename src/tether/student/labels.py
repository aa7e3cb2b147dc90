"""What a teacher would do on the true state: the student's labels, through one interface for every teacher."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tether.contracts import F32, F64, Primitive, TruthSample
from tether.motion.kinematics import ArmKinematics
from tether.robot.model import RobotModel
from tether.skills import SkillTable

MAX_PARAMS = 5
"""Parameters of the primitive that has most of them."""

_HOVER_M = 0.05
_OPENING_M = 0.044
_LIFT_M = 0.09
_ALIGNED_M = 0.012
_LEVEL_M = 0.025
_KEPT_M = 0.040
"""A grasp that has begun is kept while the cube is nearer than this: the descent aligns by itself."""
_CLOSING_M = 0.040
_EMPTY_M = 0.016
_STALLED_M_S = 0.010
_LOST_M = 0.035
_STILL_DECISIONS = 2


@dataclass(frozen=True, eq=False)
class Label:
    """A teacher's distribution at one true state.

    probability: (len(Primitive),) of the primitives. mean, spread: (len(Primitive), MAX_PARAMS) of each primitive's
    parameters, scaled so that the skill table's bounds are -1 and 1; columns beyond a primitive's own are zero.
    """

    probability: F32
    mean: F32
    spread: F32


class Labeller(Protocol):
    """A teacher. Sees the true state at the decision's own time, whoever acts."""

    def reset(self) -> None:
        """Start an episode."""

    def label(self, truth: TruthSample, last: Primitive | None) -> Label:
        """The teacher's distribution; last: the primitive that has been running until now."""


class Scaling:
    """Between parameters in SI units and the interval [-1, 1] of their bounds."""

    def __init__(self, skills: SkillTable) -> None:
        shape = (len(Primitive), MAX_PARAMS)
        self.middle, self.half = np.zeros(shape), np.zeros(shape)
        self.used = np.zeros(shape, np.bool_)
        for primitive in Primitive:
            spec = skills[primitive]
            n = len(spec.params)
            self.middle[primitive, :n] = 0.5 * (spec.low + spec.high)
            self.half[primitive, :n] = 0.5 * (spec.high - spec.low)
            self.used[primitive, :n] = True
        self._skills = skills

    def scaled(self, primitive: Primitive, params: F64) -> F64:
        """(MAX_PARAMS,) of -1 to 1."""
        n = len(params)
        out = np.zeros(MAX_PARAMS)
        out[:n] = (params - self.middle[primitive, :n]) / self.half[primitive, :n]
        return out

    def params(self, primitive: Primitive, scaled: F32) -> F64:
        """The primitive's parameters within their bounds."""
        spec = self._skills[primitive]
        n = len(spec.params)
        values = self.middle[primitive, :n] + self.half[primitive, :n] * np.asarray(scaled[:n], np.float64)
        return np.minimum(np.maximum(values, spec.low), spec.high)


class ScriptedLabeller:
    """The scripted oracle without its hidden phase: what to do follows from the state and the running primitive.

    A student strays to where the oracle's own sequence of phases never was; there, too, a label has to make sense.
    """

    def __init__(self, robot: RobotModel, skills: SkillTable) -> None:
        self._kinematics = ArmKinematics(robot)
        scaling = Scaling(skills)
        self._params = {
            Primitive.TRACK: skills.clipped(Primitive.TRACK, height=_HOVER_M, opening=_OPENING_M),
            Primitive.GRASP: skills[Primitive.GRASP].default,
            Primitive.LIFT: skills.clipped(Primitive.LIFT, height=_LIFT_M),
            Primitive.RETREAT: skills[Primitive.RETREAT].default,
        }
        self._mean = np.zeros((len(Primitive), MAX_PARAMS), np.float32)
        for primitive, params in self._params.items():
            self._mean[primitive] = scaling.scaled(primitive, params)
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self._still = 0

    def params_of(self, primitive: Primitive) -> F64:
        """The parameters it gives a primitive, in SI units."""
        return self._params[primitive]

    def label(self, truth: TruthSample, last: Primitive | None) -> Label:
        """See `Labeller`: all its probability on one primitive."""
        probability = np.zeros(len(Primitive), np.float32)
        probability[self.choose(truth, last)] = 1.0
        return Label(probability, self._mean, np.full_like(self._mean, 0.05))

    def choose(self, truth: TruthSample, last: Primitive | None) -> Primitive:
        """The primitive for this state."""
        gap = truth.p_base_cube - self._kinematics.tcp(truth.joint_position)
        opening, rate = 2.0 * float(truth.joint_position[-1]), 2.0 * float(truth.joint_velocity[-1])
        stalled = opening < _CLOSING_M and abs(rate) < _STALLED_M_S
        self._still = self._still + 1 if stalled else 0
        if opening >= _CLOSING_M:
            return self._open(gap, last)
        distance = math.sqrt(gap @ gap)
        if opening < _EMPTY_M or last is Primitive.RETREAT:
            return Primitive.RETREAT
        if last is Primitive.LIFT:
            return Primitive.LIFT if distance < _LOST_M else Primitive.RETREAT
        if last is Primitive.GRASP and self._still < _STILL_DECISIONS:
            return Primitive.GRASP
        return Primitive.LIFT if truth.held and distance < _LOST_M else Primitive.RETREAT

    def _open(self, gap: F64, last: Primitive | None) -> Primitive:
        flat = math.hypot(gap[0], gap[1])
        if last is Primitive.GRASP and flat < _KEPT_M:
            return Primitive.GRASP
        above = abs(gap[2] + _HOVER_M) < _LEVEL_M
        return Primitive.GRASP if flat < _ALIGNED_M and above else Primitive.TRACK
