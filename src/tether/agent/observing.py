"""What the sensors say of the facts in config/agent/domain.yaml: the only place where measurements become facts.

Sees what a policy sees, fused state and gate, and never a world's truth. The numbers behind facts are kept as evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tether.agent.calls import Fact
from tether.contracts import F64, Estimate, FusedState, JointSample, Mode, Stream, TruthSample
from tether.fusion.classic_config import ClassicConfig
from tether.fusion.grip import Grip, GripSense
from tether.motion.kinematics import ArmKinematics
from tether.robot.model import RobotModel
from tether.robot.roles import COMMAND_JOINTS

CAMERA_AGE_MAX_NS = 400_000_000
"""A picture is 140 ms old when it comes; from here on at least seven in a row are missing."""
SURE_M = 0.030
"""Estimates with a larger error say nothing of where the cube is."""
SEEN_WITHIN_NS = 600_000_000
"""The cube must have been in a picture this lately, or an estimate is a memory."""
LIFTED_M = 0.045
OVER_M = 0.015
PLACED_M = 0.025
REACH_M = 0.010
"""How far the nearest point that the tool can reach may be from the cube."""
LEVEL_M = 0.025
_LYING_M = 0.02
_AT_PLACE_M = 0.03
_MOVING = (Mode.ACTIVE, Mode.DEGRADED, Mode.SLOW, Mode.SAFE, Mode.ARMED)


@dataclass(frozen=True)
class Place:
    """Where the cube is to be brought: x, y in the base frame, m."""

    x: float
    y: float


def place_of(values: Mapping[str, float]) -> Place:
    """The place that a task's parameters name, or the usual one."""
    return Place(values["x"], values["y"]) if {"x", "y"} <= set(values) else Place(0.215, -0.085)


def judged(truth: TruthSample, place: Place) -> dict[str, bool]:
    """What a judge outside the robot says: whether the cube is held, and lies at the place, in truth."""
    off = math.hypot(truth.p_base_cube[0] - place.x, truth.p_base_cube[1] - place.y)
    lying = truth.cube_height_m < _LYING_M and not truth.held
    return {"holding": truth.held, "placed": bool(lying and off < _AT_PLACE_M)}


class FactSense:
    """Follows one robot's fused states; `facts` are those of the newest."""

    def __init__(self, robot: RobotModel, config: ClassicConfig) -> None:
        self._kinematics = ArmKinematics(robot)
        self._grip = GripSense(config.grip)
        self._decision = config.decision
        self._floor_m = config.cube.side_m / 2
        self.place = Place(0.215, -0.085)
        self.reset()

    def reset(self) -> None:
        """Start over: nothing is known."""
        self._grip.reset()
        self._seen_ns: int | None = None
        self.facts: dict[str, Fact] = {}
        self.evidence: dict[str, float] = {}
        self.tool: F64 = np.zeros(3)
        self.grip = Grip.OPEN

    def look_at(self, parameters: Mapping[str, float]) -> None:
        """Where a skill's parameters name a place, x and y, it is the place from now on."""
        if {"x", "y"} <= parameters.keys():
            self.place = Place(parameters["x"], parameters["y"])

    def take(self, state: FusedState, mode: Mode) -> None:
        """Work out the facts at a decision; mode: of the gate.

        What nothing was measured for stays as it was, and grows old.
        """
        now_ns = state.stamp_ns
        for fact in (*self._body(now_ns, mode, state.joints), *self._sight(now_ns, state)):
            self.facts[fact.name] = fact

    def _body(self, now_ns: int, mode: Mode, joints: JointSample | None) -> Iterator[Fact]:
        yield Fact("robot_ok", mode in _MOVING, now_ns, "gate")
        if joints is None:
            return
        at = {name: i for i, name in enumerate(joints.names)}
        position = joints.position[[at[name] for name in COMMAND_JOINTS]]
        stamp_ns, opening = joints.ref.stamp_ns, 2.0 * float(position[-1])
        self.tool = self._kinematics.tcp(position)
        self.grip = self._grip.take(stamp_ns, opening)
        holding = self.grip is Grip.HOLDING
        lifted = holding and self.tool[2] - self._floor_m >= LIFTED_M
        over = math.hypot(self.tool[0] - self.place.x, self.tool[1] - self.place.y)
        self.evidence.update(opening_m=opening, tool_height_m=float(self.tool[2]), tool_to_place_m=over)
        yield Fact("gripper_open", self.grip is Grip.OPEN, stamp_ns, "joints")
        yield Fact("closed_empty", self.grip is Grip.EMPTY, stamp_ns, "joints")
        yield Fact("holding", holding, stamp_ns, "joints")
        yield Fact("lifted", bool(lifted), stamp_ns, "joints")
        yield Fact("at_place", bool(lifted and over < OVER_M), stamp_ns, "joints")

    def _sight(self, now_ns: int, state: FusedState) -> Iterator[Fact]:
        age_ns = state.age_ns.get(Stream.CAMERA)
        if age_ns is None:
            return
        camera_ok = age_ns <= CAMERA_AGE_MAX_NS
        if len(state.detections):
            self._seen_ns = now_ns - age_ns
        estimate = state.estimate
        lately = self._seen_ns is not None and now_ns - self._seen_ns <= SEEN_WITHIN_NS
        seen = bool(camera_ok and lately and estimate.valid and estimate.sigma_m <= SURE_M)
        self.evidence.update(picture_age_s=age_ns * 1e-9)
        yield Fact("camera_ok", camera_ok, now_ns, "camera")
        yield Fact("seen", seen, now_ns, "camera")
        reachable = seen and self._within_reach(estimate.p_base_cube)
        yield Fact("reachable", reachable, now_ns, "camera")
        yield Fact("above", reachable and self._above(estimate), now_ns, "camera, joints")
        yield Fact("placed", seen and self._placed(estimate), now_ns, "camera, joints")

    def _within_reach(self, cube: F64) -> bool:
        return math.dist(self._kinematics.reachable(cube), cube) < REACH_M

    def _above(self, estimate: Estimate) -> bool:
        gap = estimate.p_base_cube - self.tool
        config = self._decision
        off = math.hypot(gap[0], gap[1])
        self.evidence.update(tool_to_cube_m=off, sigma_m=estimate.sigma_m)
        return bool(off < config.aligned_m and abs(gap[2] + config.hover_m) < config.level_m)

    def _placed(self, estimate: Estimate) -> bool:
        p = estimate.p_base_cube
        off = math.hypot(p[0] - self.place.x, p[1] - self.place.y)
        self.evidence.update(cube_to_place_m=off, cube_height_m=float(p[2]))
        released = self.grip is Grip.OPEN and self.tool[2] > self._floor_m + LIFTED_M
        return bool(released and off < PLACED_M)
