"""Between the engine's tensors (joints by its own names, quaternions x, y, z, w) and MuJoCo's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import torch

from tether import rotations
from tether.contracts import F64
from tether.world.model import ModelIndex
from tether_isaac.mirror import EngineState


class Exchange:
    """Reads and writes the state of all environments of one scene."""

    def __init__(self, scene: Any, model: mujoco.MjModel, index: ModelIndex, dt_s: float) -> None:
        """scene: with `robot` and `cube`. model, index: of the mirrors, all alike. dt_s: of an engine step."""
        self._robot, self._cube = scene["robot"], scene["cube"]
        self._origins = scene.env_origins.cpu().numpy().astype(np.float64)
        self._device = scene.env_origins.device
        self._dt_s = dt_s
        names = list(self._robot.joint_names)
        self._qpos = np.array([int(model.joint(name).qposadr[0]) for name in names])
        self._dof = np.array([int(model.joint(name).dofadr[0]) for name in names])
        driven = {model.actuator(i).name: i for i in range(model.nu)}
        self._ctrl = np.array([driven.get(name, -1) for name in names])
        # A drive without a spring follows its set-point as a rate: the wheels.
        stiff = np.array([i >= 0 and model.actuator_biasprm[i, 1] != 0.0 for i in self._ctrl.tolist()])
        self._positions = np.flatnonzero(stiff)
        self._rates = np.flatnonzero((self._ctrl >= 0) & ~stiff)
        self._cube_qpos, self._cube_dof = index.cube_qpos, index.cube_qvel
        shape = (len(self._origins),)
        self._q, self._v = np.zeros((*shape, model.nq)), np.zeros((*shape, model.nv))
        self._a = np.zeros_like(self._v)

    def command(self, rows: F64) -> None:
        """Give the drives their set-points for the next engine step. rows: (environments, nu)."""
        targets = self._tensor(rows[:, self._ctrl[self._positions]])
        self._robot.set_joint_position_target_index(target=targets, joint_ids=self._positions.tolist())
        rates = self._tensor(rows[:, self._ctrl[self._rates]])
        self._robot.set_joint_velocity_target_index(target=rates, joint_ids=self._rates.tolist())

    def read(self) -> list[EngineState]:
        """The state of each environment, relative to its origin; the arrays are overwritten by the next call."""
        before = self._v.copy()
        self._q[:, self._qpos] = _numpy(self._robot.data.joint_pos)
        self._v[:, self._dof] = _numpy(self._robot.data.joint_vel)
        pose, twist = _numpy(self._cube.data.root_link_pose_w), _numpy(self._cube.data.root_link_vel_w)
        q, v = self._cube_qpos, self._cube_dof
        self._q[:, q : q + 3] = pose[:, :3] - self._origins
        self._q[:, q + 3 : q + 7] = rotations.wxyz_from_xyzw(pose[:, 3:7])
        self._v[:, v : v + 3] = twist[:, :3]
        # MuJoCo keeps a free body's rate of turning in the body's own frame.
        self._v[:, v + 3 : v + 6] = rotations.rotate(rotations.quat_inverse(pose[:, 3:7]), twist[:, 3:6])
        np.subtract(self._v, before, out=self._a)
        self._a /= self._dt_s
        return [EngineState(*row) for row in zip(self._q, self._v, self._a, strict=True)]

    def write(self, envs: Sequence[int], states: Sequence[tuple[F64, F64]]) -> None:
        """Put environments into states (qpos, qvel)."""
        ids = torch.tensor(list(envs), dtype=torch.int32, device=self._device)
        qpos, qvel = (np.stack(rows) for rows in zip(*states, strict=True))
        q, v, rows = self._cube_qpos, self._cube_dof, list(envs)
        self._q[rows], self._v[rows] = qpos, qvel
        position, velocity = self._tensor(qpos[:, self._qpos]), self._tensor(qvel[:, self._dof])
        self._robot.write_joint_position_to_sim_index(position=position, env_ids=ids)
        self._robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids)
        xyzw = rotations.xyzw_from_wxyz(qpos[:, q + 3 : q + 7])
        pose = np.concatenate((qpos[:, q : q + 3] + self._origins[rows], xyzw), axis=1)
        twist = np.concatenate((qvel[:, v : v + 3], rotations.rotate(xyzw, qvel[:, v + 3 : v + 6])), axis=1)
        self._cube.write_root_link_pose_to_sim_index(root_pose=self._tensor(pose), env_ids=ids)
        self._cube.write_root_link_velocity_to_sim_index(root_velocity=self._tensor(twist), env_ids=ids)

    def _tensor(self, values: F64) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float32), device=self._device)


def _numpy(array: Any) -> F64:
    values: F64 = array.torch.detach().cpu().numpy().astype(np.float64)
    return values
