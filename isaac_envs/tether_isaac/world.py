"""Isaac Lab as a world of Tether: one environment of a batch behind `tether.world.protocol.World`, in lockstep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.assembly import profile, task
from tether.contracts import Command, EpisodeSpec, TickDelivery, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.robot.roles import COMMAND_JOINTS
from tether.world.model import SceneSpec
from tether.world.mujoco_world import TruthChannel
from tether_isaac.env import PickEnv
from tether_isaac.exchange import Exchange
from tether_isaac.files import robot_urdf, scene_of
from tether_isaac.mirror import EngineState, MirrorWorld
from tether_isaac.variation import PhysicsVariation


@dataclass(frozen=True)
class Batch:
    """The simulation of all environments, stepped together. substeps: physics steps a tick."""

    sim: Any
    scene: Any
    exchange: Exchange
    variation: PhysicsVariation
    spec: SceneSpec
    substeps: int
    dt_s: float

    @staticmethod
    def of(env: PickEnv) -> Batch:
        """The simulation of an environment, which must not be stepped or reset while a world uses it."""
        substeps, spec = env.cfg.world.substeps, scene_of(env.task)
        return Batch(env.sim, env.scene, env.exchange, env.variation, spec, substeps, env.physics_dt)

    def step(self) -> list[EngineState]:
        """One physics step of every environment; returns their states."""
        self.scene.write_data_to_sim()
        self.sim.step(render=False)
        self.scene.update(dt=self.dt_s)
        return self.exchange.read()


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
    ) -> None:
        """Refused where the task's cube is not the one that the batch was made with; see `MujocoWorld` for the rest."""
        wanted, substeps = task(task_name), batch.substeps
        if scene_of(wanted) != batch.spec:
            fault = Fault("task", f"{task_name}, {scene_of(wanted)}", f"one with the batch's scene, {batch.spec}")
            raise InvalidInputError("Isaac world", [fault], "make the batch for that task")
        self._batch, self._env = batch, env
        self.mirror = MirrorWorld(
            robot_urdf(),
            wanted,
            profile(profile_name),
            truth=truth,
            pictures=pictures,
            measures=measures,
            substeps=substeps,
        )
        self._rows = np.zeros((len(batch.scene.env_origins), substeps, self.mirror.model.nu))

    def reset(self, spec: EpisodeSpec, start_ns: int = 0) -> TickDelivery:
        """Start an episode: the seed draws what it draws in the MuJoCo world."""
        delivery = self.mirror.reset(spec, start_ns)
        self._batch.variation.apply([self._env], [self.mirror.model])
        self._batch.exchange.write([self._env], [self.mirror.state])
        self._batch.scene.reset([self._env])
        self._batch.sim.forward()
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
        """Free the mirror's renderer; the batch belongs to whoever made it."""
        self.mirror.close()
