"""The MuJoCo world behind the World protocol: one tick of 10 ms at a time, the same for the same seed, bit for bit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np

from tether.clock import Clock
from tether.contracts import (
    F64,
    TICK_NS,
    TICKS_PER_DECISION,
    Command,
    EpisodeResult,
    EpisodeSpec,
    ExecutedCommand,
    SampleRef,
    Source,
    Stream,
    TickDelivery,
    TruthSample,
)
from tether.errors import Fault, InvalidInputError
from tether.robot.model import read_model
from tether.robot.roles import COMMAND_JOINTS, OmniBase
from tether.safety.watchdog import Watchdog, WatchdogLimits
from tether.world.carrier import CarrierPath
from tether.world.commands import PositionLimits
from tether.world.distractors import scattered
from tether.world.judge import Judge
from tether.world.model import SUBSTEP_NS, SUBSTEPS_PER_TICK, Block, SceneSpec, compile_model
from tether.world.profile import Profile
from tether.world.sensors import IMU_PERIOD_NS, FastSensors
from tether.world.servo import Drive, ServoBank
from tether.world.streams import DelayQueue, Draw, generator
from tether.world.task import Task
from tether.world.truth import TruthHistory
from tether.world.variation import Variation

_TICK_S = TICK_NS * 1e-9
_GRAVITY = 9.81
_IMU_SUBSTEPS = tuple(range(IMU_PERIOD_NS // SUBSTEP_NS - 1, SUBSTEPS_PER_TICK, IMU_PERIOD_NS // SUBSTEP_NS))
"""Physics steps of a tick after which the IMU is read: it falls due every 5 ms."""
_BRAKING_S = 0.1
"""The watchdog brakes a joint from its highest speed to rest in this time."""
_LOST_M = 0.60
"""A cube farther than this from the base's centre cannot be reached without driving."""


@dataclass(frozen=True)
class TruthChannel:
    """Asks the world for its true state: a TruthSample at every decision tick, as it was `age_ns` ago."""

    age_ns: int = 0


class WorldClock:
    """The world's own time, for the watchdog in lockstep. Runs on through resets."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        """Nanoseconds simulated since the world was made."""
        return self.ns


class MujocoWorld:
    """See `tether.world.protocol.World`.

    urdf: expanded text of the robot. truth: None leaves the truth channel out altogether. pictures: whether the camera
    is rendered. measures: keep what `measure` is asked for. clock: what the watchdog runs on, else world time.
    """

    joint_names = COMMAND_JOINTS

    def __init__(
        self,
        urdf: str,
        task: Task,
        profile: Profile,
        *,
        truth: TruthChannel | None = None,
        pictures: bool = False,
        measures: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.task = task
        self.profile = profile
        blocks = tuple(Block(d.side_m, d.mass_kg, d.rgb) for d in task.distractors)
        scene = SceneSpec(cube_side_m=task.cube.side_m, cube_mass_kg=task.cube.mass_kg, distractors=blocks)
        self.scene = replace(
            scene,
            camera_fovy_rad=profile.camera.fovy_rad,
            width=profile.camera.width,
            height=profile.camera.height,
        )
        self.model, self.index = compile_model(urdf, self.scene)
        self.data = mujoco.MjData(self.model)
        self._start = _start_pose(task, self.model)
        actuated = self.model.actuator_trnid[self.index.joint_ctrl, 0]
        self._limits = PositionLimits(*self.model.jnt_range[actuated].T)
        # Controls of each physics step of a tick, one row a step, and views of them made once.
        self._rows = np.zeros((SUBSTEPS_PER_TICK, self.model.nu))
        self._row_list = list(self._rows)
        self._base_rows = self._rows[:, self.index.base_ctrl]
        self._wheel_rows = self._rows[:, self.index.wheel_ctrl]
        self._ctrl, self._qpos = self.data.ctrl, self.data.qpos
        robot = read_model(urdf)
        self._base = OmniBase.of(robot)
        v_max = np.array([robot.limits(name).velocity for name in COMMAND_JOINTS])
        self._servos = ServoBank(v_max, self._rows[:, self.index.joint_ctrl])
        self._drive = Drive(self._base.distance_m)
        self._clock = WorldClock()
        self._watchdog = Watchdog(_watchdog_limits(profile, v_max, self._base))
        self._watchdog_clock: Clock = clock or self._clock
        self._variation = Variation(self.model, self.index)
        self._truth_channel = truth
        self._measures = measures
        self._history = TruthHistory(self.model.nq, self.model.nv, self.index, task.cube.side_m / 2)
        self._camera: Any = None
        if pictures:
            from tether.world.camera import CameraSensor  # needs GL, which a world without pictures must not

            self._camera = CameraSensor(self.model, self.index, profile.camera)
        self._carrier_rows = np.zeros((0, 6))
        self._episode = -1
        self._tick = 0
        self._start_ns = 0

    # -- World protocol ------------------------------------------------------------------------------------------

    def reset(self, spec: EpisodeSpec, start_ns: int = 0) -> TickDelivery:
        """Start the episode of `spec` at time `start_ns`, which shifts stamps and changes nothing else.

        Refused where the spec names another task or profile than this world's.
        """
        expected = (self.task.name, self.profile.name)
        if (spec.task, spec.profile) != expected or spec.seed < 0:
            fault = Fault("spec", f"{spec}", f"task {expected[0]!r}, profile {expected[1]!r} and a seed ≥ 0")
            raise InvalidInputError("episode", [fault], "make a world for that task and profile")
        self._episode += 1
        self._tick = 0
        self._start_ns = start_ns
        self._seed = spec.seed
        self._begin_state(spec.seed)
        self._begin_actuation(spec.seed)
        self._queue = DelayQueue()
        self._sensors = FastSensors(self.profile, spec.seed, self.data, self.index, self._queue)
        self._judge: Judge | None = Judge(spec, self.task.success, self.task.cube.side_m / 2, _LOST_M)
        if self._camera is not None:
            self._camera.reset(spec.seed, start_ns)
        self._history.clear()
        return self._deliver(None, None)

    def step(self, command: Command | None) -> TickDelivery:
        """Apply `command` over one tick. A malformed or non-finite command is refused and nothing moves."""
        executed = self._accept(command)
        self._plan_tick()
        ctrl, model, data, sensors = self._ctrl, self.model, self.data, self._sensors
        end_ns = self._now_ns()
        for substep, row in enumerate(self._row_list):
            ctrl[:] = row
            mujoco.mj_step(model, data)
            end_ns += SUBSTEP_NS
            if substep in _IMU_SUBSTEPS:
                sensors.read_imu(end_ns)
        self._tick += 1
        self._clock.ns += TICK_NS
        if abs(data.time - self._tick * _TICK_S) > 1e-4:
            # MuJoCo resets a state that has gone to infinity, its clock included, and carries on as if nothing were.
            raise RuntimeError(f"the simulation diverged in tick {self._tick} of seed {self._seed}; report the seed")
        return self._deliver(executed, self._judged())

    def close(self) -> None:
        """Free the renderer and its GL context."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None

    # -- Beside the protocol -------------------------------------------------------------------------------------

    def skip(self, lost_ns: int) -> None:
        """Real time went on by `lost_ns` without the world: stamps from now on are that much later."""
        self._start_ns += lost_ns
        if self._camera is not None:
            self._camera.skip(lost_ns)

    def truth(self, age_ns: int = 0) -> TruthSample:
        """The true state of `age_ns` ago; refused where the world was made without the truth channel."""
        if self._truth_channel is None:
            raise RuntimeError("this world has no truth channel; make it with truth=TruthChannel()")
        return self._history.at_age(age_ns)

    def measure(self) -> TruthSample:
        """The state now, for the reward server: no sample of the delivery, so no policy can come by it."""
        if not self._measures:
            raise RuntimeError("this world measures nothing for rewards; make it with measures=True")
        return self._history.at_age(0)

    # -- Episode start -------------------------------------------------------------------------------------------

    def _begin_state(self, seed: int) -> None:
        model, data, index = self.model, self.data, self.index
        mujoco.mj_resetData(model, data)
        self._lag_scale = self._variation.draw(self.profile.variation, generator(seed, Draw.VARIATION))
        mujoco.mj_setConst(model, data)
        mujoco.mj_resetData(model, data)
        rng = generator(seed, Draw.CUBE)
        cube = self.task.cube
        x, y, yaw = (rng.uniform(*span) for span in (cube.x_m, cube.y_m, cube.yaw_rad))
        at = index.cube_qpos
        data.qpos[at : at + 7] = [x, y, cube.side_m / 2, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
        draw = generator(seed, Draw.DISTRACTORS)
        for at, (u, v, turn), side_m in scattered(self.task.distractors, index.distractor_qpos, np.array([x, y]), draw):
            data.qpos[at : at + 7] = [u, v, side_m / 2, math.cos(turn / 2), 0.0, 0.0, math.sin(turn / 2)]
        data.qpos[index.joint_qpos] = self._start
        data.qpos[index.joint_qpos[-1] + 1] = self._start[-1]  # the mimicking finger
        self._carrier: CarrierPath | None = None
        self._carrier_rows = np.zeros((0, 6))
        self._carrier_next = 0
        if self.task.carrier is not None:
            self._carrier = CarrierPath(self.task.carrier, SUBSTEP_NS * 1e-9, generator(seed, Draw.CARRIER))
            position, velocity = self._extend_carrier()
            data.qpos[index.base_qpos] = position
            data.qvel[index.base_qpos] = velocity

    def _begin_actuation(self, seed: int) -> None:
        act, scale = self.profile.actuation, self._lag_scale
        self._servos.configure(act.dead_time_s * scale, act.time_constant_s * scale)
        self._servos.reset(self._start)
        self._drive.configure(
            act.base_dead_time_s * scale, act.base_time_constant_s * scale, act.base_acceleration_m_s2
        )
        self._drive.reset()
        self._watchdog.reset()
        self._rows[:] = 0.0
        self._base_at_rest()
        self._stopped = False
        zero = np.zeros(len(COMMAND_JOINTS))
        self._applied = Command(0, 0, -1, Source.FALLBACK, COMMAND_JOINTS, self._start.copy(), zero, np.zeros(3))

    def _now_ns(self) -> int:
        return self._start_ns + self._tick * TICK_NS

    # -- One tick ------------------------------------------------------------------------------------------------

    def _accept(self, command: Command | None) -> ExecutedCommand:
        if command is None:
            now_ns = self._watchdog_clock.now_ns()
            if self._watchdog.expired(now_ns):
                stop = self._watchdog.stop_command(now_ns)
                self._applied = self._limits.applied(replace(stop, tick=self._tick, stamp_ns=self._now_ns()))
                self._stopped = True
        else:
            self._applied = self._limits.applied(command)
            self._stopped = False
            self._watchdog.feed(self._applied, self._watchdog_clock.now_ns())
        ref = SampleRef(Stream.EXECUTED, self._now_ns(), self._tick)
        return ExecutedCommand(ref, self._applied, self._stopped)

    def _plan_tick(self) -> None:
        """Fill the controls of each physics step of the coming tick."""
        self._servos.advance(self._applied.position)
        before = self._drive.pose
        self._drive.advance(self._applied.base_twist)
        driven = self._drive.moving or before != (0.0, 0.0, 0.0)
        if self._carrier is not None:
            if self._carrier_next >= len(self._carrier_rows):
                self._extend_carrier()
            self._base_rows[:] = self._carrier_rows[self._carrier_next : self._carrier_next + SUBSTEPS_PER_TICK]
            self._carrier_next += SUBSTEPS_PER_TICK
        elif driven:
            self._base_at_rest()
        if driven:
            self._add_drive(before)

    def _base_at_rest(self) -> None:
        self._base_rows[:] = 0.0
        self._base_rows[:, 2] = _GRAVITY * self.index.base_m_over_kp[2]

    def _add_drive(self, before: tuple[float, float, float]) -> None:
        drive = self._drive
        share = np.arange(SUBSTEPS_PER_TICK)[:, None] / SUBSTEPS_PER_TICK
        start, end = np.array(before), np.array(drive.pose)
        rate = (end - start) / (TICK_NS * 1e-9)
        self._base_rows[:, [0, 1, 3]] += start + share * (end - start) + self.index.base_kv_over_kp * rate
        self._wheel_rows[:] = self._base.wheel_rates(*drive.twist)

    def _extend_carrier(self) -> tuple[F64, F64]:
        """Controls for the carrier's next block; returns position and velocity at its start."""
        if self._carrier is None:
            raise RuntimeError("no carrier to extend")
        position, velocity, acceleration = self._carrier.block()
        acceleration[:, 2] += _GRAVITY
        index = self.index
        self._carrier_rows = position + index.base_kv_over_kp * velocity + index.base_m_over_kp * acceleration
        self._carrier_next = 0
        return position[0], velocity[0]

    @property
    def attempts(self) -> int:
        """How often the gripper has closed in this episode; 0 once it is over."""
        return 0 if self._judge is None else self._judge.attempts

    def _judged(self) -> EpisodeResult | None:
        if self._judge is None:
            return None
        at = self.index.cube_qpos
        x, y, z = self._qpos[at : at + 3].tolist()
        base_x, base_y = self._qpos[:2].tolist()
        share = self._applied.position[-1] / self._limits.high[-1]
        result = self._judge.tick(z, (x - base_x) ** 2 + (y - base_y) ** 2, share)
        if result is not None:
            self._judge = None
        return result

    def _deliver(self, executed: ExecutedCommand | None, result: EpisodeResult | None) -> TickDelivery:
        tick = self._tick
        now_ns = self._now_ns()
        self._sensors.read_joints(now_ns)
        if self._camera is not None:
            self._camera.acquire(self.data, now_ns, self._queue)
        samples: list[Any] = self._queue.due(now_ns)
        if self._truth_channel is not None or self._measures:
            self._history.push(tick, now_ns, self.data.qpos, self.data.qvel, self._held())
        if self._truth_channel is not None and tick % TICKS_PER_DECISION == 0:
            samples.append(self._history.at_age(self._truth_channel.age_ns))
        return TickDelivery(self._episode, tick, now_ns, samples, executed, result)

    def _held(self) -> bool:
        """Both fingers touch the cube."""
        geoms = self.data.contact.geom
        touching = geoms[(geoms == self.index.cube_geom).any(axis=1)]
        return all((touching == finger).any() for finger in self.index.finger_geoms)


def _start_pose(task: Task, model: mujoco.MjModel) -> F64:
    if set(task.start) != set(COMMAND_JOINTS):
        fault = Fault(f"task {task.name}: start", f"{sorted(task.start)}", f"exactly {sorted(COMMAND_JOINTS)}")
        raise InvalidInputError("task", [fault])
    pose = np.array([task.start[name] for name in COMMAND_JOINTS])
    faults = []
    for name, value in zip(COMMAND_JOINTS, pose, strict=True):
        low, high = model.joint(name).range
        if not low <= value <= high:
            faults.append(Fault(f"task {task.name}: start.{name}", f"{value:g}", f"within [{low:g}, {high:g}]"))
    if faults:
        raise InvalidInputError("task", faults)
    return pose


def _watchdog_limits(profile: Profile, v_max: F64, base: OmniBase) -> WatchdogLimits:
    act = profile.actuation
    return WatchdogLimits(
        timeout_ns=round(act.watchdog_s * 1e9),
        joint_names=COMMAND_JOINTS,
        velocity_max=v_max,
        acceleration_max=v_max / _BRAKING_S,
        base_linear_m_s2=act.base_acceleration_m_s2,
        base_angular_rad_s2=act.base_acceleration_m_s2 / base.distance_m,
    )
