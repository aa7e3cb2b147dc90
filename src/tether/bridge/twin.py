"""A digital twin of cube, base and arm, and whether it may be believed.

The twin is kinematic: the arm's servos follow the executed commands with their nominal lag, the cube lies on the ground
or goes with the closed fingers, the base moves as its IMU says. It is kept by the hand-written filter of the policy
`classic`, from the same arrivals as the student's state, and shares no learned part with it but the boxes. Its state
has the form of the world's truth, because that is what a teacher reads; it is not the truth.

The check: before a picture or a joint reading is used, the twin says what it will show. The differences, in units of
`TwinConfig.box_px` and `joint_rad`, are residuals; the twin passes while their RMS is at most `limit`.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tether.bridge.twin_config import TwinConfig
from tether.contracts import (
    F64,
    TICK_NS,
    Estimate,
    ExecutedCommand,
    ImageFeature,
    ImuBatch,
    JointSample,
    SampleRef,
    SkillContext,
    Stream,
    TruthSample,
)
from tether.fusion.classic import ClassicEstimator
from tether.fusion.classic_config import ClassicConfig
from tether.fusion.estimator import Arrivals
from tether.fusion.grip import Grip, GripSense
from tether.motion.config import LagModel
from tether.robot.model import RobotModel, reorder
from tether.robot.roles import COMMAND_JOINTS

_TICK_S = TICK_NS * 1e-9
_PATH_TICKS = 64
"""Ticks of the servos' way that are kept: longer than a joint reading's delay."""
_MISSED_TICKS_MAX = 50
"""Executed commands that did not come are taken to repeat the one before, so many of them at most."""
_N_ARM = len(COMMAND_JOINTS) - 1


@dataclass(frozen=True, eq=False)
class TwinView:
    """The twin at one decision. state: in the form of a truth, None while it has none. says: why it passes or not.

    residual: RMS of the newest residuals, None while there are none.
    """

    state: TruthSample | None
    passes: bool
    says: str
    residual: float | None


class ServoModel:
    """Set-points through dead time and a first-order lag, tick by tick. Deterministic."""

    def __init__(self, lag: LagModel, v_max: F64) -> None:
        """v_max: (n,) velocity limits, rad/s (m/s)."""
        self._dead_ticks = lag.dead_time_s / _TICK_S
        self._gain = 1.0 - math.exp(-_TICK_S / lag.time_constant_s) if lag.time_constant_s > 0.0 else 1.0
        self._step_max = v_max * _TICK_S
        self._commands: deque[F64] = deque(maxlen=math.ceil(self._dead_ticks) + 1)
        self.position: F64 | None = None

    def reset(self) -> None:
        """Nowhere, until told."""
        self._commands.clear()
        self.position = None

    def place(self, position: F64) -> None:
        """Stand still at `position` (n,)."""
        self.position = position.copy()
        self._commands.clear()
        self._commands.extend([self.position] * (math.ceil(self._dead_ticks) + 1))

    def advance(self, command: F64) -> F64:
        """Take the command of a tick (n,); the position at its end."""
        if self.position is None:
            raise ValueError("a servo model has to be placed before it can move")
        self._commands.append(command)
        late = self._dead_ticks - math.floor(self._dead_ticks)
        whole = math.floor(self._dead_ticks)
        target = self._commands[-1 - whole] * (1.0 - late)
        if late > 0.0:
            target = target + self._commands[-2 - whole] * late
        step = self._gain * (target - self.position)
        self.position = self.position + np.minimum(np.maximum(step, -self._step_max), self._step_max)
        return self.position

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        position = b"" if self.position is None else self.position.tobytes()
        return position + b"".join(command.tobytes() for command in self._commands)


class _ArmTwin:
    """Joints as executed commands move them, drawn to the readings by a share of each residual."""

    def __init__(self, lag: LagModel, v_max: F64, correction: float) -> None:
        self._servos = ServoModel(lag, v_max)
        self._correction = correction
        self.reset()

    def reset(self) -> None:
        self._servos.reset()
        self._offset: F64 = np.zeros(len(COMMAND_JOINTS))
        self._path: deque[tuple[int, F64]] = deque(maxlen=_PATH_TICKS)
        self._newest_reading_ns = -1
        self._velocity: F64 = np.zeros(len(COMMAND_JOINTS))

    @property
    def position(self) -> F64 | None:
        """Where the joints are at the end of the last executed tick, (6,)."""
        return None if self._servos.position is None else self._servos.position + self._offset

    @property
    def velocity(self) -> F64:
        """Rates over the last tick, (6,)."""
        return self._velocity

    def move(self, executed: Iterable[ExecutedCommand]) -> None:
        """Follow the commands, each over its tick."""
        for each in executed:
            if self._servos.position is None:
                continue
            command = each.command
            wanted = reorder(command.joint_names, command.position, COMMAND_JOINTS, "executed command")
            end_ns = each.ref.stamp_ns + TICK_NS
            known_ns = self._path[-1][0] if self._path else each.ref.stamp_ns
            missed = min(max((end_ns - known_ns) // TICK_NS - 1, 0), _MISSED_TICKS_MAX)
            for tick in range(missed + 1):
                before = self._servos.position
                after = self._servos.advance(wanted)
                self._velocity = (after - before) / _TICK_S
                self._path.append((end_ns - (missed - tick) * TICK_NS, after))

    def read(self, reading: JointSample) -> F64 | None:
        """Take a reading; its residual (6,) against what was foretold, None where nothing was."""
        stamp_ns = reading.ref.stamp_ns
        if stamp_ns <= self._newest_reading_ns:
            return None
        self._newest_reading_ns = stamp_ns
        measured = reorder(reading.names, reading.position, COMMAND_JOINTS, "joint reading")
        if self._servos.position is None:
            self._servos.place(measured)
            self._path.append((stamp_ns, measured))
            return None
        foretold = self._at(stamp_ns)
        if foretold is None:
            return None
        residual: F64 = measured - (foretold + self._offset)
        self._offset = self._offset + self._correction * residual
        return residual

    def _at(self, stamp_ns: int) -> F64 | None:
        """Servos at a reading's stamp, between two ends of ticks on the line through them."""
        before = None
        for end_ns, position in self._path:
            if end_ns == stamp_ns:
                return position
            if end_ns > stamp_ns:
                if before is None:
                    return None
                share = (stamp_ns - before[0]) / (end_ns - before[0])
                return before[1] + share * (position - before[1])
            before = (end_ns, position)
        return None if before is None or stamp_ns - before[0] > TICK_NS else before[1]

    def dump(self) -> bytes:
        path = b"".join(repr(end_ns).encode() + position.tobytes() for end_ns, position in self._path)
        return self._servos.dump() + self._offset.tobytes() + path + repr(self._newest_reading_ns).encode()


class KinematicTwin:
    """See the module. Deterministic in the sequence of (stamp, arrivals) since `reset`."""

    def __init__(self, robot: RobotModel, classic: ClassicConfig, lag: LagModel, config: TwinConfig) -> None:
        self._config = config
        self._estimator = ClassicEstimator(robot, classic)
        self._grip = GripSense(classic.grip)
        v_max = np.array([robot.limits(name).velocity for name in COMMAND_JOINTS])
        self._arm = _ArmTwin(lag, v_max, config.correction)
        self._half_m = classic.cube.side_m / 2.0
        self._box_ns: int | None = None
        self._clear()

    def reset(self, skill: SkillContext) -> None:
        """Start an episode."""
        self._estimator.reset(skill)
        self._grip.reset()
        self._arm.reset()
        self._clear()

    def update(self, decision_id: int, stamp_ns: int, arrivals: Arrivals) -> TwinView:
        """Take what arrived since the decision before; the twin at `stamp_ns`."""
        for picture in arrivals.pictures:
            self._hold_against(picture)
        self._arm.move(arrivals.executed)
        for reading in arrivals.joints:
            residual = self._arm.read(reading)
            if residual is not None:
                self._joint_residuals.append(float(np.abs(residual[:_N_ARM]).max()) / self._config.joint_rad)
            opening = 2.0 * float(reading.position[reading.names.index(COMMAND_JOINTS[-1])])
            self._grip.take(reading.ref.stamp_ns, opening)
        estimate = self._estimator.update(stamp_ns, arrivals)
        for batch in arrivals.imu:
            self._take_rate(batch)
        state = self._state(decision_id, stamp_ns, estimate)
        passes, says, residual_rms = self._check(stamp_ns, state is not None)
        return TwinView(state, passes, says, residual_rms)

    def dump(self) -> bytes:
        """Digest of the memory, for hashes."""
        sha = hashlib.sha256(self._estimator.state_hash().encode() + self._grip.dump() + self._arm.dump())
        sha.update(repr((list(self._box_residuals), list(self._joint_residuals), self._box_ns, self._wz)).encode())
        return sha.digest()

    # -- the check --------------------------------------------------------------------------------------------------

    def _hold_against(self, picture: ImageFeature) -> None:
        """Where the twin foretells the cube at a picture's stamp, against the nearest box of the picture."""
        tracker, stamp_ns = self._estimator.tracker, picture.ref.stamp_ns
        newest = tracker.newest
        if picture.rejected is not None or newest is None or stamp_ns <= newest.belief.stamp_ns:
            return
        if self._grip.state is Grip.HOLDING:
            self._box_ns = stamp_ns  # the cube goes with the fingers, which are felt
            return
        foretold = tracker.at(stamp_ns)
        gap_px = None if foretold is None else tracker.gap_px(foretold[0].p, picture)
        if gap_px is not None:
            self._box_residuals.append(gap_px / self._config.box_px)
            self._box_ns = stamp_ns

    def _check(self, stamp_ns: int, has_state: bool) -> tuple[bool, str, float | None]:
        kinds = (("boxes", self._box_residuals), ("joints", self._joint_residuals))
        rms = {name: _rms(residuals) for name, residuals in kinds if residuals}
        worst = max(rms, key=lambda name: rms[name], default=None)
        residual = None if worst is None else rms[worst]
        if not has_state:
            return False, "twin has not seen the cube", residual
        if worst is None or residual is None or len(rms) < len(kinds):
            return False, "twin not checked yet", residual
        text = f"twin's residual {residual:.2f} ({worst})"
        if residual > self._config.limit:
            return False, f"{text} > {self._config.limit:g}", residual
        age_s = math.inf if self._box_ns is None else (stamp_ns - self._box_ns) * 1e-9
        if age_s > self._config.stale_s:
            return False, f"twin not checked against a box for {age_s:.1f} s", residual
        return True, text, residual

    # -- the state --------------------------------------------------------------------------------------------------

    def _state(self, decision_id: int, stamp_ns: int, estimate: Estimate) -> TruthSample | None:
        joints = self._arm.position
        if not estimate.valid or joints is None:
            return None
        held = self._grip.state is Grip.HOLDING
        p, v = estimate.p_base_cube, estimate.v_base_cube
        # A cube that lies still shows the base's own velocity: v = -w x p - v_base.
        planar = [0.0, 0.0] if held else [-v[0] + self._wz * p[1], -v[1] - self._wz * p[0]]
        return TruthSample(
            ref=SampleRef(Stream.TRUTH, stamp_ns, decision_id),
            p_base_cube=p,
            v_base_cube=v,
            p_world_base=np.zeros(3),
            base_twist=np.array([*planar, self._wz]),
            joint_position=joints,
            joint_velocity=self._arm.velocity,
            held=held,
            cube_height_m=float(p[2]) - self._half_m,
        )

    def _take_rate(self, batch: ImuBatch) -> None:
        if batch.samples:
            self._wz = float(np.mean([sample.angular_velocity_rad_s[2] for sample in batch.samples]))

    def _clear(self) -> None:
        self._box_residuals: deque[float] = deque(maxlen=self._config.window)
        self._joint_residuals: deque[float] = deque(maxlen=self._config.window)
        self._box_ns = None
        self._wz = 0.0


def _rms(values: Iterable[float]) -> float:
    squares = [value * value for value in values]
    return math.sqrt(sum(squares) / len(squares))
