"""The servos' health as diagnostics: temperature, voltage, current and load of each, and whether it can be used."""

from __future__ import annotations

from tether.codec.diagnostics import (
    SERVO,
    SERVO_BUS,
    SERVO_CURRENT,
    SERVO_TEMPERATURE,
    SERVO_VOLTAGE,
    Diagnosis,
    Wellness,
)
from tether.hardware.servo import ServoHealth, ServoState
from tether.hardware.servos import Servos

_LEVELS = {
    ServoState.OK: Wellness.OK,
    ServoState.SILENT: Wellness.STALE,
    ServoState.IMPLAUSIBLE: Wellness.ERROR,
    ServoState.FAULTED: Wellness.ERROR,
}


def servo_diagnostics(servos: Servos) -> list[Diagnosis]:
    """One for the bus, one for each servo that has answered since the driver started."""
    counts = servos.counts
    bus = Diagnosis(
        Wellness.OK if servos.connected else Wellness.STALE,
        SERVO_BUS,
        "connected" if servos.connected else "not there",
        "servo_bus",
        {name: str(value) for name, value in counts.items()},
    )
    return [bus, *(_diagnosis(health, servos.states[health.name]) for health in servos.health)]


def _diagnosis(health: ServoHealth, state: ServoState) -> Diagnosis:
    values = {
        SERVO_TEMPERATURE: f"{health.temperature_c:.0f}",
        SERVO_VOLTAGE: f"{health.voltage_v:.1f}",
        SERVO_CURRENT: f"{health.current_a:.2f}",
        "load_share": f"{health.load_share:.3f}",
        "error_bits": f"{int(health.error):#04x}",
    }
    return Diagnosis(_LEVELS[state], SERVO + health.name, state.value, f"sts3215_{health.id}", values)
