"""All servos of the robot on one bus: set up, written, read, lost and found again.

A cycle writes the goals and reads the state of all servos. Torque comes on only with the goal at where the servo is,
and only once every servo was found; a servo whose power was cut is set up anew when it answers again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tether.clock import Clock, SteadyClock
from tether.contracts import F64
from tether.hardware.calibration import RobotCalibration
from tether.hardware.feetech import MODEL_STS3215, STEPS_PER_TURN, OperatingMode, Register, sync_write_packet
from tether.hardware.notices import BackOff, Level, Notices
from tether.hardware.serial_port import Port, PortLostError
from tether.hardware.servo import ISOLATING, STATE_ADDRESS, STATE_SIZE, JointRange, Servo, ServoHealth, ServoState
from tether.hardware.servo_bus import ServoBus
from tether.hardware.settings import AtEnd, ServoSettings
from tether.hardware.wheel_guard import WheelGuard
from tether.robot.model import RobotModel
from tether.robot.roles import COMMAND_JOINTS, WHEEL_JOINTS

_TORQUE_FULL = 1000
_FASTEST, _UNLIMITED = 254, 0
"""Accelerations: the greatest that can be told, and none told."""
_SETUP_TRIES = 3
_TORQUE_LOOK_CYCLES = 10
_MULTI_TURN = 0x10
"""Bit 4 of the phase register: positions count turns (lerobot pull request 3373)."""


class _NoAnswerError(Exception):
    """A servo was asked several times and did not answer rightly: nothing is known of its state."""


@dataclass(frozen=True, eq=False)
class ServoReading:
    """State of arm and gripper, in the order of COMMAND_JOINTS, rad and rad/s (m, m/s). stamp_ns: of the clock."""

    stamp_ns: int
    position: F64
    velocity: F64


class Servos:
    """See the module. Not for more than one thread at a time."""

    def __init__(
        self,
        settings: ServoSettings,
        calibration: RobotCalibration,
        robot: RobotModel,
        notices: Notices,
        open_port: Callable[[], Port],
        clock: Clock | None = None,
        *,
        guarded: bool = False,
    ) -> None:
        """guarded: see `tether.hardware.wheel_guard`; only where the clock is that of real time."""
        self._clock: Clock = clock or SteadyClock()
        self._settings = settings
        self._open_port = open_port
        self._notices = notices
        self._all = {name: _servo(name, calibration, robot, settings, notices) for name in calibration.servos}
        self._arm = [self._all[name] for name in COMMAND_JOINTS]
        self._wheels = [self._all[name] for name in WHEEL_JOINTS]
        self._bus: ServoBus | None = None
        self._guarded = guarded
        self._guard: WheelGuard | None = None
        self._said_lost = False
        self._back_off = BackOff(settings.retry_min_s, settings.retry_max_s)
        self._revival = BackOff(settings.retry_min_s, settings.retry_max_s)
        self._cycle = self._revivals = 0
        self._wheel_rates: tuple[float, ...] = (0.0,) * len(self._wheels)
        self.taken_up = 0
        """How often a servo was set up: after each, what was commanded before means nothing."""

    @property
    def connected(self) -> bool:
        """Whether the bus is there."""
        return self._bus is not None

    @property
    def ready(self) -> bool:
        """Whether every servo takes goals; where not, none may move."""
        return self._bus is not None and all(servo.usable for servo in self._all.values())

    @property
    def health(self) -> list[ServoHealth]:
        """What each servo last said of itself."""
        return [servo.health for servo in self._all.values() if servo.health is not None]

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened on the bus since it was last opened."""
        return {} if self._bus is None else dataclasses.asdict(self._bus.counts)

    @property
    def states(self) -> Mapping[str, ServoState]:
        """Joint → how far its servo can be relied on."""
        return {name: servo.state for name, servo in self._all.items()}

    def cycle(self, position: Sequence[float] | None, wheel_rates: Sequence[float]) -> ServoReading | None:
        """Write goals (None: the arm holds where it is told already), then read.

        position: (len(COMMAND_JOINTS),) rad (m); wheel_rates: (3,) rad/s. None where not every joint of the arm could
        be read: an old or half a state is never given as a new one.
        """
        try:
            if self._bus is None and not self._connect():
                return None
            self._beat()
            self._write(position, wheel_rates)
            reading = self._read()
            self._look_after()
        except PortLostError as error:
            self._lose(error)
            return None
        return reading

    def close(self) -> None:
        """Wheels stop and let go; the arm does what the settings say."""
        bus, self._bus = self._bus, None
        if bus is None:
            return
        with contextlib.suppress(PortLostError):
            bus.sync_write(Register.GOAL_VELOCITY, {servo.id: 0 for servo in self._wheels})
            let_go = self._wheels if self._settings.at_end is AtEnd.HOLD else list(self._all.values())
            bus.sync_write(Register.TORQUE_ENABLE, {servo.id: 0 for servo in let_go})
            bus.ping(self._arm[0].id)  # what was written is on the wire before the port is closed
        self._end_guard()
        bus.close()

    # -- one cycle ------------------------------------------------------------------------------------------------

    def _write(self, position: Sequence[float] | None, wheel_rates: Sequence[float]) -> None:
        bus = self._bus
        if bus is None:
            return
        if position is not None:
            goals = {
                servo.id: min(max(servo.calibration.to_steps(value), 0), STEPS_PER_TURN - 1)
                for servo, value in zip(self._arm, position, strict=True)
                if servo.usable
            }
            if goals:
                bus.sync_write(Register.GOAL_POSITION, goals)
        rates = within_speed(wheel_rates, self._wheels[0].joint.velocity)
        if any(rates) or any(self._wheel_rates) or self._cycle % _TORQUE_LOOK_CYCLES == 0:
            speeds = {
                servo.id: round(rate / servo.calibration.units_per_step)
                for servo, rate in zip(self._wheels, rates, strict=True)
                if servo.usable or rate == 0.0  # one that is only unheard hears a stop all the same
            }
            if speeds:
                bus.sync_write(Register.GOAL_VELOCITY, speeds)
        self._wheel_rates = tuple(rates)

    def _read(self) -> ServoReading | None:
        bus = self._bus
        asked = [servo for servo in self._all.values() if servo.state is not ServoState.SILENT]
        if bus is None or not asked:
            return None
        begun_ns = self._clock.now_ns()
        replies = bus.sync_read([servo.id for servo in asked], STATE_ADDRESS, STATE_SIZE)
        ended_ns = self._clock.now_ns()
        for servo in asked:
            servo.take(replies.get(servo.id), ended_ns * 1e-9)
        if not all(servo.fresh for servo in self._arm):
            return None
        position = np.array([servo.position for servo in self._arm])
        velocity = np.array([servo.velocity for servo in self._arm])
        return ServoReading((begun_ns + ended_ns) // 2, position, velocity)

    def _look_after(self) -> None:
        """Beside each cycle a little: whether a servo has lost its torque unnoticed, whether a silent one is back."""
        self._cycle += 1
        bus = self._bus
        if bus is None:
            return
        if self._cycle % _TORQUE_LOOK_CYCLES == 0:
            servos = list(self._all.values())
            servo = servos[self._cycle // _TORQUE_LOOK_CYCLES % len(servos)]
            if servo.usable and bus.read(servo.id, Register.TORQUE_ENABLE) == 0:
                why = "its torque is off, though it was switched on: its power was cut for a moment"
                self._notices.add(Level.WARN, "servo_restarted", f"{servo.who}: {why}")
                self._take_up(servo)
            return
        gone = [servo for servo in self._all.values() if not servo.usable]
        now_s = self._now_s()
        if gone and self._revival.due(now_s):
            self._revival.failed(now_s)
            self._revivals += 1  # not the cycle: that is as even as the pauses are, and would ask the same one for ever
            self._revive(gone[self._revivals % len(gone)])

    def _revive(self, servo: Servo) -> None:
        """Take up a servo that was silent and answers, or faulted and lost its fault and its torque with its power."""
        bus = self._bus
        reply = None if bus is None else bus.ping(servo.id)
        if bus is None or reply is None or reply.error & ISOLATING:
            return
        if servo.state is ServoState.SILENT or bus.read(servo.id, Register.TORQUE_ENABLE) == 0:
            self._take_up(servo)
            if servo.usable:
                self._revival.reset()
                self._notices.add(Level.INFO, "servo_back", f"{servo.who} is back")

    # -- setting up -----------------------------------------------------------------------------------------------

    def _connect(self) -> bool:
        """Open the port, find every servo, set each up. What is missing is said once, and tried again later."""
        now_s = self._now_s()
        if not self._back_off.due(now_s):
            return False
        bus = None
        try:
            bus = ServoBus(self._open_port(), self._settings.baud, self._settings.reply_margin_ms * 1e-3)
            # Whoever had the bus before may have left them turning, and it is not given up for one that is missing.
            bus.sync_write(Register.GOAL_VELOCITY, {servo.id: 0 for servo in self._wheels})
            missing = [servo.who for servo in self._all.values() if not _answers(bus, servo)]
            if missing:
                raise PortLostError("servo bus", f"no answer from {', '.join(missing)}")
            self._bus = bus
            for servo in self._all.values():
                self._beat()
                self._take_up(servo)
        except PortLostError as error:
            self._end_guard()
            if bus is not None:
                bus.close()
            self._bus = None
            self._back_off.failed(self._now_s())
            self._say_lost(str(error))
            return False
        self._back_off.reset()
        self._said_lost = False
        self._notices.add(Level.INFO, "servo_bus_ready", f"{len(self._all)} servos on {self._settings.port}")
        return True

    def _take_up(self, servo: Servo) -> None:
        """Set a servo up and switch its torque on with the goal at where it stands; isolate one that refuses."""
        bus = self._bus
        if bus is None:
            return
        self.taken_up += 1
        servo.reset()
        try:
            why = self._set_up(bus, servo)
        except _NoAnswerError as error:  # says nothing of the servo's state: it is asked again, torque on or off
            servo.lose(str(error))
            return
        if why is not None:
            servo.isolate(ServoState.FAULTED, why)

    def _set_up(self, bus: ServoBus, servo: Servo) -> str | None:
        """What keeps a servo from being used, None where nothing does; _NoAnswerError where it does not say."""
        if _read(bus, servo, Register.MODEL) != MODEL_STS3215:
            return f"is not of model {MODEL_STS3215} (STS3215)"
        mode = OperatingMode.VELOCITY if servo.is_wheel else OperatingMode.POSITION
        settings = {Register.RETURN_DELAY: 0, Register.OPERATING_MODE: int(mode)}
        phase = _read(bus, servo, Register.PHASE)
        if phase & _MULTI_TURN:
            settings[Register.PHASE] = phase & ~_MULTI_TURN
        writes = [(register, n) for register, n in settings.items() if _read(bus, servo, register) != n]
        if writes:  # settings outlive the power, and the memory they are in wears out: written only where they differ
            writes = [(Register.TORQUE_ENABLE, 0), (Register.LOCK, 0), *writes, (Register.LOCK, 1)]
        position = _read(bus, servo, Register.PRESENT_POSITION)
        for register, number in [*writes, *self._start_values(servo, position), (Register.TORQUE_ENABLE, 1)]:
            if not any(bus.write(servo.id, register, number) is not None for _ in range(_SETUP_TRIES)):
                raise _NoAnswerError(f"does not acknowledge {register.name} = {number}")
        if _read(bus, servo, Register.TORQUE_ENABLE) != 1:
            return "does not switch its torque on"
        return None

    def _start_values(self, servo: Servo, position: int) -> list[tuple[Register, int]]:
        """What is written just before the torque comes on: stand still where you are, as fast as your joint may."""
        if servo.is_wheel:
            return [(Register.GOAL_VELOCITY, 0), (Register.ACCELERATION, _FASTEST)]
        speed = round(abs(servo.joint.velocity / servo.calibration.units_per_step))
        torque = round(_TORQUE_FULL * self._settings.torque_limit_share)
        goal = min(max(position, 0), STEPS_PER_TURN - 1)
        return [
            (Register.ACCELERATION, _UNLIMITED),
            (Register.GOAL_VELOCITY, speed),
            (Register.TORQUE_LIMIT, torque),
            (Register.GOAL_POSITION, goal),
        ]

    def _now_s(self) -> float:
        return self._clock.now_ns() * 1e-9

    def _beat(self) -> None:
        """Tell the wheels' guard that this process is alive; start one where there is none."""
        if self._guard is not None and not self._guard.alive:
            self._end_guard()
            self._notices.add(Level.ERROR, "wheel_guard_lost", "the wheels' guard had ended; it is started again")
        if self._guarded and self._guard is None and self._bus is not None:
            stop = sync_write_packet(Register.GOAL_VELOCITY.address, {servo.id: b"\0\0" for servo in self._wheels})
            self._guard = WheelGuard(self._bus.fileno(), stop, self._settings.guard_ms * 1e-3)
        if self._guard is not None:
            self._guard.beat()

    def _end_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.close()

    def _lose(self, error: PortLostError) -> None:
        self._end_guard()
        if self._bus is not None:
            self._bus.close()
        self._bus = None
        for servo in self._all.values():
            servo.reset()
        self._back_off.reset()
        self._say_lost(str(error))

    def _say_lost(self, text: str) -> None:
        if not self._said_lost:
            self._notices.add(Level.ERROR, "servo_bus_lost", text)
        self._said_lost = True


def within_speed(rates: Sequence[float], fastest: float) -> list[float]:
    """The wheels' rates, all by the same share slower where one is beyond its limit: the direction stays."""
    top = max(abs(rate) for rate in rates)
    return [rate * fastest / top for rate in rates] if top > fastest else list(rates)


def _read(bus: ServoBus, servo: Servo, register: Register) -> int:
    """A register, asked for again where a reply was lost; _NoAnswerError."""
    for _ in range(_SETUP_TRIES):
        number = bus.read(servo.id, register)
        if number is not None:
            return number
    raise _NoAnswerError(f"does not tell {register.name}")


def _answers(bus: ServoBus, servo: Servo) -> bool:
    return any(bus.ping(servo.id) is not None for _ in range(_SETUP_TRIES))


def _servo(name: str, calibration: RobotCalibration, robot: RobotModel, settings: ServoSettings, out: Notices) -> Servo:
    limits = robot.limits(name)
    bounded = math.isfinite(limits.lower) and math.isfinite(limits.upper) and name not in WHEEL_JOINTS
    joint = JointRange(limits.lower if bounded else None, limits.upper if bounded else None, limits.velocity)
    return Servo(name, calibration.servos[name], joint, settings, out.add)
