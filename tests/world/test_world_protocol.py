"""The MuJoCo world behind the World protocol: determinism, delays, refusals, and its own watchdog."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tether.assembly import ROBOT_FILE, profile, task
from tether.contracts import (
    TICK_NS,
    Command,
    EpisodeSpec,
    ImuSample,
    JointSample,
    Source,
    TickDelivery,
    TruthSample,
)
from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.robot.description import expand
from tether.robot.roles import COMMAND_JOINTS
from tether.world.mujoco_world import MujocoWorld, TruthChannel
from tether.world.profile import Profile

URDF = expand(resource_path("urdf", ROBOT_FILE))
START = np.array([task("pick").start[name] for name in COMMAND_JOINTS])


def _world(
    task_name: str = "pick", profile_name: str = "real", truth: TruthChannel | None = None, **changes: object
) -> MujocoWorld:
    p: Profile = dataclasses.replace(profile(profile_name), **changes)  # type: ignore[arg-type]
    return MujocoWorld(URDF, task(task_name), p, truth=truth)


def _spec(world: MujocoWorld, seed: int = 3) -> EpisodeSpec:
    return EpisodeSpec(world.task.name, world.profile.name, seed)


def _command(position: np.ndarray = START, twist: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Command:
    return Command(0, 0, 0, Source.OPERATOR, COMMAND_JOINTS, position, np.zeros(6), np.array(twist))


def _digest(deliveries: list[TickDelivery]) -> str:
    h = hashlib.sha256()
    for d in deliveries:
        for s in d.samples:
            h.update(repr(s.ref).encode())
            if isinstance(s, ImuSample):
                h.update(s.angular_velocity_rad_s.tobytes() + s.linear_acceleration_m_s2.tobytes())
            elif isinstance(s, JointSample):
                h.update(s.position.tobytes() + s.velocity.tobytes())
            elif isinstance(s, TruthSample):
                h.update(s.p_base_cube.tobytes() + s.v_base_cube.tobytes())
    return h.hexdigest()


def _run(world: MujocoWorld, seed: int, ticks: int = 120, start_ns: int = 0) -> list[TickDelivery]:
    out = [world.reset(_spec(world, seed), start_ns)]
    for k in range(ticks):
        wave = START + 0.1 * np.sin(0.05 * k)
        wave[-1] = START[-1]
        out.append(world.step(_command(wave)))
    return out


@pytest.mark.parametrize("name", ["pick", "pick_moving"])
def test_the_same_seed_gives_the_same_episode_bit_for_bit(name: str) -> None:
    truth = TruthChannel()
    one = _world(name, truth=truth)
    first, other, again = (_digest(_run(one, seed)) for seed in (3, 4, 3))
    fresh = _digest(_run(_world(name, truth=truth), 3))
    assert first == again == fresh != other


def test_the_truth_channel_changes_nothing_of_an_episode() -> None:
    with_truth, without = _world(truth=TruthChannel()), _world()
    seen = [[s for s in d.samples if not isinstance(s, TruthSample)] for d in _run(with_truth, 5)]
    plain = _run(without, 5)
    assert [[s.ref for s in x] for x in seen] == [[s.ref for s in d.samples] for d in plain]
    assert (with_truth.data.qpos == without.data.qpos).all()
    assert not any(isinstance(s, TruthSample) for d in plain for s in d.samples)
    with pytest.raises(RuntimeError, match="no truth channel"):
        without.truth()


def test_changing_one_sensor_leaves_the_draws_of_the_others_alone() -> None:
    base = profile("real")
    noisier = replace(base.imu, accel_noise_m_s2=1.0, delay=replace(base.imu.delay, drop_probability=0.5))
    plain, changed = _run(_world(), 6), _run(_world(imu=noisier), 6)

    def joints(deliveries: list[TickDelivery]) -> list[tuple[int, bytes]]:
        found = [s for d in deliveries for s in d.samples if isinstance(s, JointSample)]
        return [(s.ref.stamp_ns, s.position.tobytes()) for s in found]

    assert joints(plain) == joints(changed)


def test_samples_come_at_their_stamp_plus_the_delay_of_the_profile() -> None:
    p = profile("real")
    deliveries = _run(_world(), 8, ticks=600)
    for kind, delay in ((ImuSample, p.imu.delay), (JointSample, p.joints.delay)):
        pairs = [(s.ref, d.stamp_ns) for d in deliveries for s in d.samples if isinstance(s, kind)]
        waits = np.array([at - ref.stamp_ns for ref, at in pairs]) * 1e-9
        assert waits.min() >= delay.latency_s - delay.jitter_s
        assert waits.max() <= delay.latency_s + delay.jitter_s + TICK_NS * 1e-9
        assert len({ref.sequence for ref, _ in pairs}) == len(pairs)
    imu = [s.ref for d in deliveries for s in d.samples if isinstance(s, ImuSample)]
    assert np.diff([r.stamp_ns for r in imu]).min() == 5_000_000
    assert len(imu) == pytest.approx(1200, abs=15)


def test_dropped_samples_leave_gaps_in_the_sequence() -> None:
    p = profile("real")
    lossy = replace(p.imu, delay=replace(p.imu.delay, drop_probability=0.3))
    numbers = [s.ref.sequence for d in _run(_world(imu=lossy), 2, 300) for s in d.samples if isinstance(s, ImuSample)]
    assert len(numbers) == pytest.approx(420, abs=50)
    assert numbers[-1] > 590


def test_stamps_start_where_asked_and_nothing_else_changes() -> None:
    world = _world(truth=TruthChannel())
    zero, later = _run(world, 3), _run(world, 3, start_ns=5_000_000_000)
    assert later[0].stamp_ns == 5_000_000_000
    assert later[-1].samples[0].ref.stamp_ns - zero[-1].samples[0].ref.stamp_ns == 5_000_000_000
    assert [len(d.samples) for d in zero] == [len(d.samples) for d in later]


def test_stale_truth_is_the_fresh_truth_of_that_time() -> None:
    world = _world("pick_moving", truth=TruthChannel())
    kept: dict[int, TruthSample] = {}
    world.reset(_spec(world))
    for tick in range(1, 200):
        world.step(_command())
        kept[tick] = world.truth()
        if tick > 12:
            old = world.truth(120_000_000)
            assert old.ref == kept[tick - 12].ref
            assert (old.p_base_cube == kept[tick - 12].p_base_cube).all()


def test_truth_velocity_is_the_rate_of_the_truth_position() -> None:
    world = _world("pick_moving", "ideal", truth=TruthChannel())
    world.reset(_spec(world))
    truths = []
    for _ in range(200):
        world.step(_command())
        truths.append(world.truth())
    p = np.array([t.p_base_cube for t in truths])
    v = np.array([t.v_base_cube for t in truths])
    np.testing.assert_allclose((p[2:] - p[:-2]) / 0.02, v[1:-1], atol=0.006)
    assert np.hypot(v[:, 0], v[:, 1]).max() > 0.15


def test_malformed_commands_are_refused_by_name_and_nothing_moves() -> None:
    world = _world()
    world.reset(_spec(world))
    world.step(_command())
    before = world.data.qpos.copy()
    bad = START.copy()
    bad[2] = np.nan
    with pytest.raises(InvalidInputError, match="elbow_flex"):
        world.step(_command(bad))
    with pytest.raises(InvalidInputError, match="base_twist"):
        world.step(_command(twist=(np.inf, 0.0, 0.0)))
    with pytest.raises(InvalidInputError, match=r"velocity\[gripper\]"):
        world.step(replace(_command(), velocity=np.array([0.0, 0.0, 0.0, 0.0, 0.0, np.inf])))
    with pytest.raises(InvalidInputError, match="5 velocities"):
        world.step(replace(_command(), velocity=np.zeros(5)))
    with pytest.raises(InvalidInputError, match=r"(?s)missing: gripper,.*extra: grip,"):
        world.step(replace(_command(), joint_names=(*COMMAND_JOINTS[:-1], "grip")))
    assert (world.data.qpos == before).all()
    assert world.step(_command()).tick == 2


def test_set_points_beyond_the_urdf_limits_are_executed_at_the_limit_and_said_so() -> None:
    world = _world()
    world.reset(_spec(world))
    far = START.copy()
    far[0] = 3.0
    delivery = world.step(_command(far))
    assert delivery.executed is not None
    assert delivery.executed.command.position[0] == pytest.approx(1.92)


def test_silent_gate_stops_base_and_arm_after_more_than_100_ms() -> None:
    world = _world("pick", "ideal")
    world.reset(_spec(world))
    moving = START.copy()
    moving[0] = 0.8
    for _ in range(30):
        world.step(_command(moving, twist=(0.1, 0.0, 0.0)))
    stops = []
    for _ in range(60):
        delivery = world.step(None)
        assert delivery.executed is not None
        stops.append(delivery.executed.watchdog_stop)
    assert stops[:10] == [False] * 10 and all(stops[12:])
    assert np.abs(world.data.qvel[:6]).max() < 0.01
    assert np.abs(world.data.qvel[world.index.joint_qvel]).max() < 0.05
    assert world.step(_command()).executed.watchdog_stop is False  # type: ignore[union-attr]


def test_joints_of_a_command_are_matched_by_name_in_any_order() -> None:
    world = _world()
    world.reset(_spec(world))
    turned = replace(_command(START[::-1].copy()), joint_names=COMMAND_JOINTS[::-1])
    executed = world.step(turned).executed
    assert executed is not None
    assert executed.command.joint_names == COMMAND_JOINTS
    np.testing.assert_array_equal(executed.command.position, START)


def test_watchdog_brakes_a_moving_arm_within_its_limits_and_then_holds_it() -> None:
    world = _world("pick", "ideal")
    world.reset(_spec(world))
    at = START.copy()
    for _ in range(30):
        at = at.copy()
        at[0] += 0.02  # 2 rad/s
        world.step(_command(at, twist=(0.2, 0.0, 1.0)))
    stops = []
    for _ in range(100):
        executed = world.step(None).executed
        assert executed is not None
        if executed.watchdog_stop:
            stops.append(executed.command)
    q = np.array([stop.position[0] for stop in stops])
    rates = np.diff(q, prepend=at[0]) / 0.01
    assert 0.0 < rates[0] < 2.0 and (np.diff(rates) <= 1e-9).all(), "it brakes and neither jumps nor turns back"
    assert q[-1] == q[-2] and q[-1] - at[0] < 0.1
    speeds = np.array([stop.base_twist for stop in stops])
    assert 0.0 < speeds[0, 0] < 0.2 and not speeds[-1].any()
    np.testing.assert_allclose(world.data.qpos[world.index.joint_qpos[:5]], stops[-1].position[:5], atol=0.03)
    assert np.abs(world.data.qvel[world.index.joint_qvel]).max() < 0.01, "held, not limp"


def test_watchdog_keeps_the_grip() -> None:
    world = _world()
    world.reset(_spec(world))
    closed = START.copy()
    closed[-1] = 0.0
    world.step(_command(closed))
    for _ in range(40):
        delivery = world.step(None)
    assert delivery.executed is not None
    assert delivery.executed.command.position[-1] == 0.0


def test_driving_moves_the_base_and_turns_the_wheels() -> None:
    world = _world("pick", "ideal", truth=TruthChannel())
    world.reset(_spec(world))
    for _ in range(200):
        world.step(_command(twist=(0.1, 0.0, 0.0)))
    assert world.truth().p_world_base[0] == pytest.approx(0.2, abs=0.02)
    spin = world.data.qvel[[world.model.joint(n).dofadr[0] for n in ("wheel_left", "wheel_back", "wheel_right")]]
    np.testing.assert_allclose(spin, [-0.1 * np.sin(np.pi / 3) / 0.05, 0.0, 0.1 * np.sin(np.pi / 3) / 0.05], atol=0.05)


def test_imu_feels_the_carried_base() -> None:
    world = _world("pick_moving", "ideal", truth=TruthChannel())
    start_v = None
    world.reset(_spec(world))
    total, base = np.zeros(2), []
    for _ in range(200):
        for s in world.step(_command()).samples:
            if isinstance(s, ImuSample):
                total = total + s.linear_acceleration_m_s2[:2] * 0.005
        now = world.truth().base_twist[:2]
        start_v = now if start_v is None else start_v
        base.append(now - total)
    assert np.abs(np.array(base)).max() < 0.03, "integrated acceleration is the base's velocity"


def test_variation_follows_the_seed_and_starts_from_the_nominal_model_every_time() -> None:
    world = _world()
    seen = []
    for seed in (1, 2, 1):
        world.reset(_spec(world, seed))
        m = world.model
        seen.append((m.geom_friction[:, 0].sum(), float(m.body("cube").mass[0]), m.cam_pos[0].tolist()))
    assert seen[0] == seen[2] != seen[1]


def test_an_episode_of_another_task_is_refused() -> None:
    world = _world()
    with pytest.raises(InvalidInputError, match="pick_moving"):
        world.reset(EpisodeSpec("pick_moving", "real", 1))


def test_a_diverged_simulation_is_an_error_and_no_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warning into a log file where it runs
    world = _world()
    world.reset(_spec(world))
    world.step(_command())
    world.data.qvel[0] = 1e12
    with pytest.raises(RuntimeError, match="diverged"):
        for _ in range(5):
            world.step(_command())
