"""One servo: what its replies mean, which of them are believed, and when it is left alone.

A reading outside the encoder's turn, beyond the joint's limits, or farther from the last one than the servo can move,
is refused: a jump in a joint state becomes a jump of the arm. A servo that reported an overload is isolated until it
was seen without power: it has let go by itself, and torque would come back to an arm that is somewhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tether.hardware.calibration import ServoCalibration
from tether.hardware.feetech import STEPS_PER_TURN, ErrorBit, Register, Reply
from tether.hardware.notices import Level
from tether.hardware.settings import ServoSettings

STATE_ADDRESS = Register.PRESENT_POSITION.address
STATE_SIZE = Register.PRESENT_CURRENT.address + Register.PRESENT_CURRENT.size - STATE_ADDRESS
"""From present position to present current: all that is read in a cycle."""
_AMPERE = 0.0065
_VOLT = 0.1
_LOAD_SHARE = 0.001
ISOLATING = ErrorBit.OVERLOAD | ErrorBit.TEMPERATURE | ErrorBit.CURRENT | ErrorBit.SENSOR
"""The servo lets go by itself (or does not know where it is)."""
Say = Callable[[Level, str, str], None]


class ServoState(str, Enum):
    """How far a servo can be relied on."""

    OK = "ok"
    SILENT = "silent"
    """Does not answer; asked for once in a while."""
    IMPLAUSIBLE = "implausible"
    """Its readings cannot be true."""
    FAULTED = "faulted"
    """Reported an overload or the like, and let go."""


@dataclass(frozen=True)
class ServoHealth:
    """What a servo says of itself. load_share: of the stall torque, signed."""

    name: str
    id: int
    state: ServoState
    temperature_c: float
    voltage_v: float
    current_a: float
    load_share: float
    error: ErrorBit


@dataclass(frozen=True)
class JointRange:
    """The joint's limits; a wheel has none (None). velocity: rad/s (m/s), above 0."""

    lower: float | None
    upper: float | None
    velocity: float


class Servo:
    """One servo of a bus. `take` is given each cycle's reply, or None."""

    def __init__(
        self, name: str, calibration: ServoCalibration, joint: JointRange, settings: ServoSettings, say: Say
    ) -> None:
        self.name = name
        self.calibration = calibration
        self.joint = joint
        self.is_wheel = joint.lower is None
        self._settings = settings
        self._say = say
        self.error = ErrorBit(0)
        self.health: ServoHealth | None = None
        self.reset()

    def reset(self) -> None:
        """Nothing is known: a bus that was opened, a servo that came back."""
        self.state = ServoState.OK
        self.position = math.nan
        self.velocity = math.nan
        self.fresh = False
        self._at_s = 0.0
        self._missing = 0
        self._refused = 0

    @property
    def id(self) -> int:
        """Its address on the bus."""
        return self.calibration.id

    @property
    def usable(self) -> bool:
        """Whether it may be given goals."""
        return self.state is ServoState.OK

    @property
    def who(self) -> str:
        """For messages."""
        return f"servo {self.id} ({self.name})"

    def take(self, reply: Reply | None, now_s: float) -> None:
        """Judge a reply; `fresh` says whether position and velocity are of this cycle."""
        self.fresh = False
        if reply is None:
            self._missing += 1
            if self._missing > self._settings.missing_max and self.state is not ServoState.SILENT:
                self.lose("does not answer")
            return
        self._missing = 0
        self._take_health(reply)
        if reply.error & ISOLATING and self.state is not ServoState.FAULTED:
            self.isolate(ServoState.FAULTED, _fault_text(reply.error))
        steps = Register.PRESENT_POSITION.decode(reply.data, STATE_ADDRESS)
        speed = Register.PRESENT_VELOCITY.decode(reply.data, STATE_ADDRESS)
        position = self.calibration.to_position(steps)
        velocity = speed * self.calibration.units_per_step
        why = self._implausible(steps, position, velocity, now_s)
        if why is not None:
            self._refuse(why)
            return
        self._refused = 0
        self.position, self.velocity, self._at_s, self.fresh = position, velocity, now_s, True

    def lose(self, why: str) -> None:
        """Give it no more goals until it answers again."""
        self.state = ServoState.SILENT
        self._say(Level.ERROR, "servo_silent", f"{self.who}: {why}; fix: check its cable and its id")

    def isolate(self, state: ServoState, why: str) -> None:
        """Give it no more goals until its power was cut."""
        self.state = state
        fix = "cut the servos' power, look for what blocks it, then give power back; the driver takes it up again"
        self._say(Level.ERROR, f"servo_{state.value}", f"{self.who}: {why}; it is left alone; fix: {fix}")

    def _implausible(self, steps: int, position: float, velocity: float, now_s: float) -> str | None:
        """Why a reading cannot be true, None where it can."""
        if self.is_wheel:
            return None  # it turns without end, and nobody asks where it is
        if not 0 <= steps < STEPS_PER_TURN:
            return f"step {steps} is outside one turn [0, {STEPS_PER_TURN}): it counts turns, or its offset is wrong"
        joint, settings = self.joint, self._settings
        lower, upper = float(joint.lower or 0.0), float(joint.upper or 0.0)
        margin = settings.outside_max_rad * self.calibration.per_rad
        if not lower - margin <= position <= upper + margin:
            return f"{position:.3f} is outside the joint's [{lower:.3f}, {upper:.3f}]"
        v_max = joint.velocity * settings.speed_share_max
        if not math.isnan(self.position):
            reach = v_max * max(now_s - self._at_s, 0.0) + settings.jump_max_rad * self.calibration.per_rad
            if abs(position - self.position) > reach:
                return f"from {self.position:.3f} to {position:.3f} is farther than {reach:.3f} in the time"
        if abs(velocity) > 2.0 * v_max:
            return f"{velocity:.2f} a second is more than twice what the joint can do ({v_max:.2f})"
        return None

    def _refuse(self, why: str) -> None:
        self._refused += 1
        if self._refused == 1:
            self._say(Level.WARN, "servo_reading_refused", f"{self.who}: {why}")
        if self._refused > self._settings.refused_max and self.state is ServoState.OK:
            self.isolate(ServoState.IMPLAUSIBLE, why)

    def _take_health(self, reply: Reply) -> None:
        def number(register: Register) -> int:
            return register.decode(reply.data, STATE_ADDRESS)

        if reply.error & ErrorBit.VOLTAGE and not self.error & ErrorBit.VOLTAGE:
            voltage_v = number(Register.PRESENT_VOLTAGE) * _VOLT
            self._say(Level.WARN, "servo_voltage", f"{self.who} reports its supply as out of range: {voltage_v:.1f} V")
        self.error = reply.error
        self.health = ServoHealth(
            self.name,
            self.id,
            self.state,
            float(number(Register.PRESENT_TEMPERATURE)),
            number(Register.PRESENT_VOLTAGE) * _VOLT,
            number(Register.PRESENT_CURRENT) * _AMPERE,
            number(Register.PRESENT_LOAD) * _LOAD_SHARE,
            reply.error,
        )


def _fault_text(error: ErrorBit) -> str:
    names = [bit.name.lower() for bit in ErrorBit if bit & error & ISOLATING and bit.name is not None]
    return f"reports {' and '.join(names)}"
