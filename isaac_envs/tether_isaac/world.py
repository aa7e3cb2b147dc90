"""Isaac Lab as a world of Tether: one environment of a batch behind `tether.world.protocol.World`, in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.assembly import profile, task
from tether.contracts import Command, EpisodeSpec, TickDelivery, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.robot.roles import COMMAND_JOINTS
from tether.world.model import SceneSpec
from tether.world.mujoco_world import TruthChannel
from tether.world.profile import Profile
from tether.world.task import Task
from tether_isaac.env import PickEnv
from tether_isaac.env_cfg import pick_cfg
from tether_isaac.exchange import Exchange
from tether_isaac.files import robot_urdf, scene_of
from tether_isaac.mirror import EngineState, MirrorWorld
from tether_isaac.variation import PhysicsVariation


@dataclass(frozen=True)
class Batch:
    """The simulation of all environments, stepped together. substeps: physics steps a tick. actuators: of a robot."""

    env: PickEnv
    sim: Any
    scene: Any
    exchange: Exchange
    variation: PhysicsVariation
    spec: SceneSpec
    substeps: int
    actuators: int
    dt_s: float

    @staticmethod
    def of(env: PickEnv) -> Batch:
        """The simulation of an environment, which must not be stepped or reset while a world uses it."""
        substeps, actuators = env.cfg.world.substeps, int(env.world(0).model.nu)
        parts = (env.sim, env.scene, env.exchange, env.variation, scene_of(env.task))
        return Batch(env, *parts, substeps, actuators, env.physics_dt)

    def start(self, envs: Sequence[int], worlds: Sequence[MirrorWorld]) -> None:
        """Put environments into the states in which their mirrors' episodes start; the others stay as they are."""
        if envs:
            self.variation.apply(envs, [world.model for world in worlds])
            self.exchange.write(envs, [world.state for world in worlds])
            self.scene.reset(envs)
            self.sim.forward()

    def step(self) -> list[EngineState]:
        """One physics step of every environment; returns their states."""
        self.scene.write_data_to_sim()
        self.sim.step(render=False)
        self.scene.update(dt=self.dt_s)
        return self.exchange.read()

    def close(self) -> None:
        """End the simulation."""
        self.env.close()


def open_batch(task_name: str, profile_name: str, *, num_envs: int, device: str) -> Batch:
    """A simulation of `num_envs` environments for a task. device: cpu, cuda:0, …"""
    return Batch.of(PickEnv(pick_cfg(task_name, profile_name, num_envs=num_envs, device=device)))


class IsaacWorld:
    """See `tether.world.protocol.World`. The other environments of the batch follow the same set-points."""

    joint_names = COMMAND_JOINTS

    def __init__(
        self,
        batch: Batch,
        task_name: str,
        profile_name: str,
        *,
        env: int = 0,
        truth: TruthChannel | None = None,
        pictures: bool = False,
        measures: bool = False,
        owns_batch: bool = False,
    ) -> None:
        """Refused where the task's cube is not the one that the batch was made with; see `MujocoWorld` for the rest.

        owns_batch: the batch is closed with this world.
        """
        wanted, substeps = task(task_name), batch.substeps
        if scene_of(wanted) != batch.spec:
            fault = Fault("task", f"{task_name}, {scene_of(wanted)}", f"one with the batch's scene, {batch.spec}")
            raise InvalidInputError("Isaac world", [fault], "make the batch for that task")
        self._batch, self._env, self._owns_batch = batch, env, owns_batch
        self.mirror = MirrorWorld(
            robot_urdf(),
            wanted,
            profile(profile_name),
            truth=truth,
            pictures=pictures,
            measures=measures,
            substeps=substeps,
        )
        self._rows = np.zeros((len(batch.scene.env_origins), substeps, batch.actuators))

    @property
    def task(self) -> Task:
        """What is to be done, and where things lie."""
        return self.mirror.task

    @property
    def profile(self) -> Profile:
        """How far the world is from ideal."""
        return self.mirror.profile

    def reset(self, spec: EpisodeSpec, start_ns: int = 0) -> TickDelivery:
        """Start an episode: the seed draws what it draws in the MuJoCo world."""
        delivery = self.mirror.reset(spec, start_ns)
        self._batch.start([self._env], [self.mirror])
        return delivery

    def step(self, command: Command | None) -> TickDelivery:
        """Advance one tick."""
        self._rows[:] = self.mirror.plan(command)
        for step in range(self._batch.substeps):
            self._batch.exchange.command(self._rows[:, step])
            self.mirror.mirror(step, self._batch.step()[self._env])
        return self.mirror.finish()

    def measure(self) -> TruthSample:
        """The state now, for the reward server."""
        return self.mirror.measure()

    def skip(self, lost_ns: int) -> None:
        """Refused: physics on a CPU does not keep real time, so this world runs in lockstep only."""
        fault = Fault("mode", f"real time, {lost_ns} ns late", "lockstep")
        raise InvalidInputError("Isaac world", [fault], "launch it with mode:=lockstep")

    def close(self) -> None:
        """Free the mirror's renderer, and the simulation where it is this world's own."""
        self.mirror.close()
        if self._owns_batch:
            self._batch.close()


def open_world(
    task_name: str,
    profile_name: str,
    *,
    device: str,
    truth_age_ns: int | None,
    pictures: bool,
    measures: bool = False,
) -> IsaacWorld:
    """A world with a simulation of its own, of one environment; see `tether.assembly.make_world` for the arguments."""
    return IsaacWorld(
        open_batch(task_name, profile_name, num_envs=1, device=device),
        task_name,
        profile_name,
        truth=None if truth_age_ns is None else TruthChannel(truth_age_ns),
        pictures=pictures,
        measures=measures,
        owns_batch=True,
    )
