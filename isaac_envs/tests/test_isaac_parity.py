"""Isaac Lab against the MuJoCo world: the same states, commands, observations and rewards give the same."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tether.assembly import make_world, robot, skills, task
from tether.contracts import (
    F64,
    TICK_NS,
    Command,
    EpisodeSpec,
    ImuSample,
    JointSample,
    Source,
    TickDelivery,
)
from tether.policy.scripted import ScriptedPolicy
from tether.robot.roles import COMMAND_JOINTS
from tether.teacher.loop import OracleLoop
from tether.teacher.observation import SIZE, names
from tether.world.mujoco_world import MujocoWorld, TruthChannel
from tether.world.profile import Delay
from tether_isaac.env import PickEnv
from tether_isaac.world import Batch, IsaacWorld

NO_DELAY = Delay(0.0, 0.0, 0.0)
CHIRP_S, CHIRP_HZ = 2.0, (0.3, 3.0)
CHIRP_AMPLITUDE = np.array([0.30, 0.10, 0.10, 0.15, 0.50, 0.004])
"""rad, m for the gripper: from the start pose this keeps the tool above the cube."""
RMS_JOINT_RAD, TOOL_M = 0.03, 0.010


@pytest.fixture
def mujoco_loop() -> Iterator[OracleLoop]:
    loop = OracleLoop("pick", "ideal_lagged", NO_DELAY)
    yield loop
    loop.close()


def isaac_world(env: PickEnv, task_name: str, profile_name: str) -> IsaacWorld:
    return IsaacWorld(Batch.of(env), task_name, profile_name, truth=TruthChannel(), measures=True)


def mujoco_world(task_name: str, profile_name: str) -> MujocoWorld:
    return make_world(task_name, profile_name, truth_age_ns=0, pictures=False, measures=True)


def chirp(tick: int) -> F64:
    """Position commands of a tick: each joint swings about the start pose, faster and faster, out of step."""
    t = tick * TICK_NS * 1e-9
    low, high = CHIRP_HZ
    phase = 2.0 * math.pi * (low * t + (high - low) * t**2 / (2.0 * CHIRP_S))
    start = np.array([task("pick").start[name] for name in COMMAND_JOINTS])
    shares = np.sin(phase * np.array([1.0, 0.9, 0.8, 1.1, 1.2, 0.7]))
    return start + CHIRP_AMPLITUDE * shares


def command(tick: int, position: F64) -> Command:
    zero = np.zeros(len(COMMAND_JOINTS))
    return Command(tick, tick * TICK_NS, 0, Source.TEACHER, COMMAND_JOINTS, position, zero, np.zeros(3))


def tool(world: MujocoWorld) -> F64:
    return world.data.xpos[world.index.tcp_body].copy()


def drive(world: MujocoWorld | IsaacWorld, task_name: str, profile_name: str, ticks: int) -> list[TickDelivery]:
    """The chirp from the start of seed 3."""
    deliveries = [world.reset(EpisodeSpec(task_name, profile_name, 3), TICK_NS)]
    deliveries += [world.step(command(tick, chirp(tick))) for tick in range(ticks)]
    return deliveries


def test_start_of_a_seed_is_the_same_in_every_number(env: PickEnv, mujoco_loop: OracleLoop) -> None:
    """qpos of both worlds, the cube's turned quaternion among them, after a way through the engine's tensors."""
    env.begin(0, 11)
    env.begin(1, 12)
    env.reset()
    env.scene.update(env.physics_dt)
    for seed, state in zip((11, 12), env.exchange.read(), strict=True):
        mujoco_loop.reset(seed)
        expected = mujoco_loop.world.data.qpos
        at = mujoco_loop.world.index.cube_qpos
        assert abs(expected[at + 6]) > 0.01, "the cube is turned, else the order of the quaternion shows nothing"
        assert state.qpos == pytest.approx(expected, abs=2e-6)


def test_observation_at_the_start_is_the_teachers_to_the_rounding(env: PickEnv, mujoco_loop: OracleLoop) -> None:
    env.begin(0, 21)
    env.begin(1, 22)
    observed, _ = env.reset()
    assert observed["policy"].shape == (env.num_envs, SIZE)
    assert observed["policy"].dtype is torch.float32
    for seed, row in zip((21, 22), observed["policy"].cpu().numpy(), strict=True):
        mujoco_loop.reset(seed)
        expected, _ = mujoco_loop.memory.observe(mujoco_loop.truth, mujoco_loop.now_ns)
        for name, found, wanted in zip(names(), row.tolist(), expected.tolist(), strict=True):
            assert found == pytest.approx(wanted, abs=1e-5), name


@pytest.fixture(scope="module")
def chirps(env: PickEnv) -> tuple[F64, F64, F64, F64]:
    """Joints (ticks, 6) and tool (ticks, 3) in Isaac Lab, then in MuJoCo, for the same commands under lag."""
    ticks = round(CHIRP_S * 1e9 / TICK_NS)
    found: list[F64] = []
    isaac, mujoco = isaac_world(env, "pick", "ideal_lagged"), mujoco_world("pick", "ideal_lagged")
    for world, mirror in ((isaac, isaac.mirror), (mujoco, mujoco)):
        world.reset(EpisodeSpec("pick", "ideal_lagged", 3), TICK_NS)
        joints, tools = [], []
        for tick in range(ticks):
            world.step(command(tick, chirp(tick)))
            joints.append(world.measure().joint_position)
            tools.append(tool(mirror))
        found += [np.array(joints), np.array(tools)]
        world.close()
    return found[0], found[1], found[2], found[3]


def test_joints_follow_a_chirp_alike_within_30_mrad_rms(chirps: tuple[F64, F64, F64, F64]) -> None:
    isaac, _, mujoco, _ = chirps
    moved = np.ptp(mujoco, axis=0)
    assert (moved > 0.5 * CHIRP_AMPLITUDE).all(), "the chirp has to move every joint"
    rms = np.sqrt(np.mean((isaac - mujoco) ** 2, axis=0))
    print("\nRMS between the worlds, rad (m for the gripper):", dict(zip(COMMAND_JOINTS, rms.tolist(), strict=True)))
    assert (rms[:5] <= RMS_JOINT_RAD).all()
    assert rms[5] <= 0.001


def test_tool_follows_a_chirp_alike_within_10_mm(chirps: tuple[F64, F64, F64, F64]) -> None:
    _, isaac, _, mujoco = chirps
    apart = np.linalg.norm(isaac - mujoco, axis=1)
    print(f"\nTool apart: {1e3 * apart.max():.3f} mm at most, {1e3 * np.sqrt(np.mean(apart**2)):.3f} mm RMS")
    assert apart.max() <= TOOL_M


def test_base_is_carried_alike_and_the_imu_reads_it(env: PickEnv) -> None:
    ticks = 40
    isaac, mujoco = isaac_world(env, "pick_moving", "ideal"), mujoco_world("pick_moving", "ideal")
    runs = [drive(world, "pick_moving", "ideal", ticks) for world in (isaac, mujoco)]
    apart = isaac.measure().p_world_base - mujoco.measure().p_world_base
    assert np.abs(apart).max() <= 1e-3
    readings = [[s for d in run for s in d.samples if isinstance(s, ImuSample)] for run in runs]
    assert len(readings[0]) == len(readings[1]) == 2 * ticks
    gyro, accel = (
        [np.array([getattr(s, field) for s in run]) for run in readings]
        for field in ("angular_velocity_rad_s", "linear_acceleration_m_s2")
    )
    print(f"\nIMU apart: gyro {_rms(gyro):.4f} rad/s, accelerometer {_rms(accel):.3f} m/s² RMS")
    assert _rms(gyro) <= 0.002
    assert _rms(accel) <= 0.2
    assert accel[0][:, 2].mean() == pytest.approx(9.81, abs=0.2)
    isaac.close()
    mujoco.close()


def _rms(pair: list[F64]) -> float:
    # The first readings are of bodies that have just been let go.
    return float(np.sqrt(np.mean((pair[0][8:] - pair[1][8:]) ** 2)))


def test_samples_are_stamped_and_delayed_alike_under_the_real_profile(env: PickEnv) -> None:
    isaac, mujoco = isaac_world(env, "pick", "real"), mujoco_world("pick", "real")
    arrivals = [
        [[s.ref for s in d.samples if isinstance(s, JointSample)] for d in drive(world, "pick", "real", 15)]
        for world in (isaac, mujoco)
    ]
    assert arrivals[0] == arrivals[1]
    assert any(not refs for refs in arrivals[0]), "under delay nothing arrives at first"
    isaac.close()
    mujoco.close()


def test_scripted_episodes_are_paid_the_same_subgoals_in_both(env: PickEnv, mujoco_loop: OracleLoop) -> None:
    """The scripted oracle on two seeds at once, each decision through the tensor of hybrid actions."""
    seeds = (0, 1)
    policies = [ScriptedPolicy(robot(), skills()) for _ in seeds]
    for i, seed in enumerate(seeds):
        env.begin(i, seed)
        policies[i].reset(seed)
    env.reset()
    paid: list[list[float]] = [[], []]
    won: dict[int, bool] = {}
    while len(won) < len(seeds):
        rows = []
        for i, policy in enumerate(policies):
            wanted = policy.decide(env.lane(i).loop.state(), env.lane(i).loop.truth)
            rows.append(env.rows.write(wanted.primitive, wanted.params))
        started = [i for i in range(len(seeds)) if i not in won]
        _, reward, terminated, truncated, extras = env.step(torch.as_tensor(np.stack(rows)))
        for i in started:
            if reward[i] > 0.0:
                paid[i].append(float(reward[i]))
            if terminated[i] or truncated[i]:
                won[i] = bool(terminated[i]) and extras["log"]["Metrics/success_rate"] > 0.0
    for i, seed in enumerate(seeds):
        expected, success = _scripted_in_mujoco(mujoco_loop, policies[i], env, seed)
        print(f"\nseed {seed}: paid {paid[i]} in Isaac Lab, {expected} in MuJoCo")
        assert paid[i] == pytest.approx(expected)
        assert won[i] == success


def _scripted_in_mujoco(loop: OracleLoop, policy: ScriptedPolicy, env: PickEnv, seed: int) -> tuple[list[float], bool]:
    loop.reset(seed)
    policy.reset(seed)
    paid: list[float] = []
    while True:
        wanted = policy.decide(loop.state(), loop.truth)
        _, estimate = loop.memory.observe(loop.truth, loop.now_ns)
        turn = loop.act(*env.rows.read(env.rows.write(wanted.primitive, wanted.params)), estimate)
        reward = sum(r.payment.value for r in turn.rewards)
        if reward > 0.0:
            paid.append(reward)
        if turn.result is not None:
            return paid, turn.result.success
