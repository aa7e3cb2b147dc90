"""Second line of defence, inside world or driver: stops the robot when gated commands stop, on its own clock.

Stands alone on purpose: it shares no code and no state with the supervisor, so that no fault of the one is a
fault of both. The stop is controlled: joints brake along their last motion and then hold (an arm is never let
go limp), the base brakes to standstill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether.contracts import F64, TICK_NS, Command, Source
from tether.errors import Fault, InvalidInputError

_TICK_S = TICK_NS * 1e-9


@dataclass(frozen=True, eq=False)
class WatchdogLimits:
    """What the watchdog needs to know.

    timeout_ns: silence after which it stops the robot. joint_names: set-points a command must carry.
    velocity_max, acceleration_max: (n,) rad/s and rad/s² (m/s and m/s² for prismatic joints).
    base_linear_m_s2, base_angular_rad_s2: braking of the base.
    """

    timeout_ns: int
    joint_names: tuple[str, ...]
    velocity_max: F64
    acceleration_max: F64
    base_linear_m_s2: float
    base_angular_rad_s2: float

    def __post_init__(self) -> None:
        n = len(self.joint_names)
        faults = []
        if self.timeout_ns <= 0:
            faults.append(Fault("timeout_ns", str(self.timeout_ns), "more than 0 (there is no way to switch it off)"))
        for name, values in (
            ("velocity_max", self.velocity_max),
            ("acceleration_max", self.acceleration_max),
        ):
            if np.shape(values) != (n,) or not np.all(np.isfinite(values)) or not np.all(np.asarray(values) > 0):
                faults.append(Fault(name, str(values), f"{n} finite numbers above 0"))
        for name, value in (
            ("base_linear_m_s2", self.base_linear_m_s2),
            ("base_angular_rad_s2", self.base_angular_rad_s2),
        ):
            if not (math.isfinite(value) and value > 0):
                faults.append(Fault(name, str(value), "a finite number above 0"))
        if faults:
            raise InvalidInputError("watchdog limits", faults)


class Watchdog:
    """Feed it every gated command; while `expired`, apply `stop_command` instead, once a tick.

    Until the first command it is not expired: nothing has moved yet and there is nothing to stop.
    A command that is not finite or does not carry exactly the expected joints does not count as one.
    """

    def __init__(self, limits: WatchdogLimits) -> None:
        self._limits = limits
        self._last: Command | None = None
        self._fed_ns = 0
        self._seen_ns = 0
        self._clock_broken = False
        self._position: list[float] = []
        self._before: list[float] = []
        self._velocity: list[float] | None = None
        self._twist = [0.0, 0.0, 0.0]

    def reset(self) -> None:
        """Forget everything: a new episode, or a driver that was started again."""
        self._last = None
        self._fed_ns = self._seen_ns = 0
        self._clock_broken = False
        self._position, self._before, self._velocity, self._twist = [], [], None, [0.0, 0.0, 0.0]

    def feed(self, command: Command, now_ns: int) -> bool:
        """Take a gated command that is about to be applied. False if it was refused and so feeds nothing."""
        self._see(now_ns)
        position = self._ordered(command)
        if position is None:
            return False
        self._before = position if self._last is None else self._position
        self._velocity = None
        self._last, self._fed_ns = command, now_ns
        self._position = position
        self._twist = command.base_twist.tolist()
        return True

    def expired(self, now_ns: int) -> bool:
        """True once no acceptable command came for longer than the timeout, or the clock ran backwards."""
        self._see(now_ns)
        if self._last is None:
            return False
        return self._clock_broken or now_ns - self._fed_ns > self._limits.timeout_ns

    def stop_command(self, now_ns: int) -> Command:
        """The next tick of the controlled stop. Call once a tick while expired; needs an earlier command."""
        if self._last is None:
            fault = Fault("watchdog", "no command yet", "a command fed before a stop")
            raise InvalidInputError("stop_command", [fault], "call it only while expired() is True")
        before = self._motion() if self._velocity is None else self._velocity
        limits = self._limits.acceleration_max.tolist()
        velocity = [_toward_zero(v, limit * _TICK_S) for v, limit in zip(before, limits, strict=True)]
        self._velocity = velocity
        self._position = [q + v * _TICK_S for q, v in zip(self._position, velocity, strict=True)]
        vx, vy, wz = self._twist
        speed = math.hypot(vx, vy)
        share = _toward_zero(speed, self._limits.base_linear_m_s2 * _TICK_S) / speed if speed > 0.0 else 0.0
        self._twist = [vx * share, vy * share, _toward_zero(wz, self._limits.base_angular_rad_s2 * _TICK_S)]
        return Command(
            tick=now_ns // TICK_NS,
            stamp_ns=now_ns,
            decision_id=self._last.decision_id,
            source=Source.FALLBACK,
            joint_names=self._limits.joint_names,
            position=np.array(self._position),
            velocity=np.array(velocity),
            base_twist=np.array(self._twist),
        )

    def _motion(self) -> list[float]:
        """How fast the last two set-points moved, within the velocity limits."""
        step = [(new - old) / _TICK_S for new, old in zip(self._position, self._before, strict=True)]
        return [min(max(v, -m), m) for v, m in zip(step, self._limits.velocity_max.tolist(), strict=True)]

    def _see(self, now_ns: int) -> None:
        if now_ns < self._seen_ns:
            self._clock_broken = True
        self._seen_ns = max(self._seen_ns, now_ns)

    def _ordered(self, command: Command) -> list[float] | None:
        """Set-points in the order of the limits; None where the command does not count."""
        # matched by name here once more: the watchdog shares no code with what it watches
        names, given, n = self._limits.joint_names, command.joint_names, len(self._limits.joint_names)
        if given != names and (set(given) != set(names) or len(given) != n):
            return None
        if len(command.position) != n or len(command.velocity) != n or len(command.base_twist) != 3:
            return None
        position: list[float] = command.position.tolist()
        if not all(map(math.isfinite, (*position, *command.velocity.tolist(), *command.base_twist.tolist()))):
            return None
        if given == names:
            return position
        at = {name: i for i, name in enumerate(given)}
        return [position[at[name]] for name in names]


def _toward_zero(value: float, step: float) -> float:
    return math.copysign(max(abs(value) - step, 0.0), value)
