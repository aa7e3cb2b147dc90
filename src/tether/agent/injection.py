"""Mishaps put into the simulated world on purpose, from outside the robot, which is told nothing of them."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tether.contracts import TICK_NS, TICKS_PER_DECISION, ImageSample, TickDelivery

if TYPE_CHECKING:
    from tether.world.mujoco_world import MujocoWorld

_SLIPPERY = 0.002
_FALLEN_M = 0.03
_UNREACHABLE_M = (0.40, -0.03)
_GREY = 70


class Mishap(str, Enum):
    """What is put in, once an episode."""

    NONE = "none"
    SLIP = "slip"
    """The cube becomes slippery while it is carried, until it lies on the floor."""
    OCCLUSION = "occlusion"
    """Something grey stands before the camera for 1.5 s; pictures keep coming."""
    CAMERA_LOSS = "camera_loss"
    """No pictures for 1 s."""
    UNREACHABLE = "unreachable"
    """The cube lies in sight, and farther off than the arm is long."""
    WORKER_KILLED = "worker_killed"
    """The process that runs the skill is killed from outside."""
    AGENT_KILLED = "agent_killed"
    """The process of the agent that is at it is killed, where several are at work, and while it waits for its next
    decision: at a decision's own tick a graph's agent may be at anything, and what is lost with it would be chance."""


_LASTS_S = {Mishap.OCCLUSION: 1.5, Mishap.CAMERA_LOSS: 1.0}


class Scene(Protocol):
    """Where a mishap is put in: the world, and what is known outside of the robot that acts in it."""

    world: MujocoWorld
    running: str | None
    """Name of the skill that runs."""

    def kill_worker(self) -> bool:
        """Kill the running skill's worker behind the agent's back; whether one was running."""

    def kill_agent(self) -> bool:
        """Kill the process of the agent that runs a skill; whether there was one."""


class Injector:
    """Puts one mishap into an episode; when is drawn from the seed."""

    def __init__(self, mishap: Mishap, seed: int) -> None:
        rng = np.random.default_rng([seed, 77])
        self._mishap = mishap
        self._at_s = float(rng.uniform(0.3, 3.5))
        self._carried_s = float(rng.uniform(0.05, 0.3))
        self._carrying_since: int | None = None
        self._friction: np.ndarray | None = None
        self.happened_ns: int | None = None

    def begin(self, world: MujocoWorld) -> None:
        """Right after the world was reset."""
        if self._mishap is Mishap.UNREACHABLE:
            at = world.index.cube_qpos
            world.data.qpos[at : at + 2] = _UNREACHABLE_M
            self.happened_ns = 0

    def before_step(self, scene: Scene, since_start_ns: int) -> None:
        """Ahead of each tick of the world."""
        if self._mishap is Mishap.SLIP:
            self._slip(scene, since_start_ns)
        elif self.happened_ns is None and since_start_ns >= self._at_s * 1e9 and self._kill(scene, since_start_ns):
            self.happened_ns = since_start_ns

    def delivered(self, delivery: TickDelivery, start_ns: int) -> TickDelivery:
        """What of a delivery gets through to the robot."""
        lasts_s = _LASTS_S.get(self._mishap)
        if lasts_s is None:
            return delivery
        first_ns = start_ns + round(self._at_s * 1e9)
        last_ns = first_ns + round(lasts_s * 1e9)
        samples = []
        for sample in delivery.samples:
            if isinstance(sample, ImageSample) and first_ns <= sample.ref.stamp_ns < last_ns:
                self.happened_ns = first_ns - start_ns
                if self._mishap is Mishap.CAMERA_LOSS:
                    continue
                sample = replace(sample, rgb=(sample.rgb // 8 + _GREY).astype(np.uint8))
            samples.append(sample)
        return replace(delivery, samples=samples)

    def _kill(self, scene: Scene, since_start_ns: int) -> bool:
        """Whether it has happened."""
        if self._mishap is Mishap.WORKER_KILLED:
            return scene.kill_worker()
        waits = since_start_ns // TICK_NS % TICKS_PER_DECISION != 0
        return self._mishap is Mishap.AGENT_KILLED and waits and scene.kill_agent()

    def _slip(self, scene: Scene, since_start_ns: int) -> None:
        world = scene.world
        index = world.index
        geoms = [index.cube_geom, *index.finger_geoms]
        if self._friction is not None:
            if world.data.qpos[index.cube_qpos + 2] < _FALLEN_M:
                world.model.geom_friction[geoms] = self._friction
                self._friction = None
            return
        if self.happened_ns is not None or scene.running != "carry":
            self._carrying_since = None
            return
        if self._carrying_since is None:
            self._carrying_since = since_start_ns
        if since_start_ns - self._carrying_since >= self._carried_s * 1e9:
            self._friction = world.model.geom_friction[geoms].copy()
            world.model.geom_friction[geoms] = _SLIPPERY
            self.happened_ns = since_start_ns
