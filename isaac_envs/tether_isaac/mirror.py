"""A world whose motion is computed elsewhere; MuJoCo only holds up a mirror to it.

Everything of `tether.world.mujoco_world` that is not the physics is used as it is: episodes drawn from the seed, dead
time and lag of the servos, the watchdog, sensors with their noise and delays, the judge, the truth, the camera. The
physics engine is given each tick's set-points and hands back the state that came of them. On that state MuJoCo computes
no motion, only what follows from it: frames, whether the fingers touch the cube, what the IMU reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from tether.contracts import F64, TICK_NS, Command, ExecutedCommand, TickDelivery
from tether.errors import Fault, InvalidInputError
from tether.world.model import SUBSTEP_NS, SUBSTEPS_PER_TICK
from tether.world.mujoco_world import MujocoWorld

IMU_AT_SUBSTEPS = (3, 7)
"""The MuJoCo world reads its IMU at the beginnings of these steps of a tick."""


@dataclass(frozen=True, eq=False)
class EngineState:
    """What the engine computed, in the layout of the MuJoCo model: qpos (nq,), qvel and qacc (nv,)."""

    qpos: F64
    qvel: F64
    qacc: F64


class MirrorWorld(MujocoWorld):
    """See the module. Call `reset`; then for each tick `plan`, `mirror` after each of the engine's steps, `finish`."""

    def __init__(self, *args: Any, substeps: int, **kwargs: Any) -> None:
        """substeps: of the engine, each tick."""
        super().__init__(*args, **kwargs)
        if substeps not in (SUBSTEPS_PER_TICK, SUBSTEPS_PER_TICK // 2):
            fault = Fault("substeps", str(substeps), f"{SUBSTEPS_PER_TICK} or {SUBSTEPS_PER_TICK // 2}")
            raise InvalidInputError("physics", [fault], "the IMU is read twice a tick, between its ends")
        self._ratio = SUBSTEPS_PER_TICK // substeps
        # Engine steps of a tick whose end is the latest one not after the MuJoCo world's readings.
        self._imu_steps = frozenset(at // self._ratio - 1 for at in IMU_AT_SUBSTEPS)
        self._last_step = substeps - 1
        self._executed: ExecutedCommand | None = None

    @property
    def state(self) -> tuple[F64, F64]:
        """qpos (nq,) and qvel (nv,) as they stand; after `reset` they are what the engine is to start from."""
        return self.data.qpos, self.data.qvel

    def plan(self, command: Command | None) -> F64:
        """Take the command for the coming tick; returns the actuators' set-points of each engine step, (substeps, nu).

        A view that the next tick overwrites. A malformed or non-finite command is refused and nothing moves.
        """
        self._executed = self._accept(command)
        self._plan_tick()
        return self._rows[self._ratio - 1 :: self._ratio]

    def mirror(self, step: int, state: EngineState) -> None:
        """Take the state after the engine's step number `step` of the tick; the last is the state of the next tick."""
        if step not in self._imu_steps and step != self._last_step:
            return
        data, model = self.data, self.model
        if not np.isfinite(state.qpos).all():
            raise RuntimeError(f"the engine diverged in tick {self._tick} of seed {self._seed}; report the seed")
        data.qpos[:], data.qvel[:] = state.qpos, state.qvel
        mujoco.mj_fwdPosition(model, data)
        if step in self._imu_steps:
            mujoco.mj_fwdVelocity(model, data)
            mujoco.mj_sensorVel(model, data)
            data.qacc[:] = state.qacc
            # mj_sensorAcc takes body accelerations for known once they were computed, until MuJoCo itself moves on.
            mujoco.mj_rnePostConstraint(model, data)
            mujoco.mj_sensorAcc(model, data)
            after_ns = self._now_ns() + (step + 1) * self._ratio * SUBSTEP_NS
            self._sensors.read_imu(after_ns + SUBSTEP_NS)

    def finish(self) -> TickDelivery:
        """End the tick; returns what was delivered by then."""
        self._tick += 1
        self._clock.ns += TICK_NS
        return self._deliver(self._executed, self._judged())

    def step(self, command: Command | None) -> TickDelivery:
        """Refused: this world has no motion of its own."""
        raise RuntimeError("a mirror does not move by itself; call plan, mirror and finish around the engine's steps")
