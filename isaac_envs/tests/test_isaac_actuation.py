"""One step of the engine: what a drive does to its joint, at rest, within its effort and beyond it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from tether.assembly import make_world
from tether.contracts import F64, TICK_NS, EpisodeSpec
from tether.robot.roles import COMMAND_JOINTS
from tether.world.model import SUBSTEP_NS
from tether.world.mujoco_world import TruthChannel
from tether_isaac.env import PickEnv
from tether_isaac.world import Batch, IsaacWorld

ROLL = COMMAND_JOINTS.index("wrist_roll")
CASES = {
    "within its effort": (0.002, 0.0),
    "at its effort, from rest": (1.0, 0.0),
    "at its effort, at speed": (1.0, 3.0),
    "braking at its effort": (-1.0, 3.0),
}
"""How far the set-point is from the joint (rad), and how fast the joint turns (rad/s)."""


@pytest.mark.parametrize("case", CASES)
def test_a_step_changes_the_servos_speed_as_in_mujoco(env: PickEnv, case: str) -> None:
    """Of 2.5 ms, explicit, in both engines. An implicit one falls short by a fifth where the effort is cut off."""
    ahead, speed = CASES[case]
    batch = Batch.of(env)
    world = IsaacWorld(batch, "pick", "ideal", truth=TruthChannel())
    world.reset(EpisodeSpec("pick", "ideal", 3), TICK_NS)
    index, model = world.mirror.index, world.mirror.model
    qpos, qvel = (state.copy() for state in world.mirror.state)
    qvel[index.joint_qvel[ROLL]] = speed
    rows = world.mirror.plan(None).copy()
    rows[:, index.joint_ctrl.start + ROLL] = qpos[index.joint_qpos[ROLL]] + ahead
    expected = _step_in_mujoco(model, qpos, qvel, rows[0], batch.dt_s)
    found = (_step_in_isaac(batch, qpos, qvel, rows[0]) - qvel)[index.joint_qvel]
    expected = (expected - qvel)[index.joint_qvel]
    world.close()
    print(f"\n{case}: wrist roll gains {found[ROLL]:.4f} rad/s in Isaac Lab, {expected[ROLL]:.4f} in MuJoCo")
    assert abs(expected[ROLL]) > 0.05
    assert found[:5] == pytest.approx(expected[:5], abs=0.01 * abs(expected[ROLL]))


def test_a_step_of_the_carried_base_and_the_wheels_is_mujocos(env: PickEnv) -> None:
    """From states that the MuJoCo world comes through. A wheel that touched the ground would lift and roll the base."""
    batch = Batch.of(env)
    mujoco_world = make_world("pick_moving", "ideal", truth_age_ns=0, pictures=False)
    mujoco_world.reset(EpisodeSpec("pick_moving", "ideal", 3), TICK_NS)
    model, index, start = mujoco_world.model, mujoco_world.index, mujoco_world.data.qpos.copy()
    others = slice(0, index.joint_qvel[0])
    for _ in range(5):
        for _ in range(20):
            mujoco_world.step(None)
        qpos, qvel, ctrl = (a.copy() for a in (mujoco_world.data.qpos, mujoco_world.data.qvel, mujoco_world.data.ctrl))
        expected = _step_in_mujoco(model, qpos, qvel, ctrl, batch.dt_s) - qvel
        model.opt.timestep = SUBSTEP_NS * 1e-9
        found = _step_in_isaac(batch, qpos, qvel, ctrl) - qvel
        assert np.abs(expected[index.base_qpos]).max() > 1e-4, "the base has to be moved"
        assert found[others] == pytest.approx(expected[others], abs=2e-5)
    assert np.abs(mujoco_world.data.qpos - start)[index.base_qpos].max() > 0.005
    mujoco_world.close()


def _step_in_isaac(batch: Batch, qpos: F64, qvel: F64, ctrl: F64) -> F64:
    """Rates (nv,) after one step of the engine from a state."""
    batch.exchange.write([0], [(qpos, qvel)])
    batch.sim.forward()
    batch.exchange.command(np.repeat(ctrl[None], batch.env.num_envs, axis=0))
    return batch.step()[0].qvel.copy()


def _step_in_mujoco(model: mujoco.MjModel, qpos: F64, qvel: F64, ctrl: F64, dt_s: float) -> F64:
    """Rates (nv,) after one step of `dt_s` from a state."""
    model.opt.timestep = dt_s
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, ctrl
    mujoco.mj_step(model, data)
    return data.qvel.copy()
