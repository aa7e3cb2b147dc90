"""From the servos' registers over the bus and /diagnostics to the gate's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tether import topics
from tether.assembly import make_gate_model
from tether.codec import decode, encode
from tether.codec.convert.guarding import servo_sample_from
from tether.codec.diagnostics import Diagnosis, Wellness, diagnostics_message
from tether.contracts import (
    TICK_NS,
    Command,
    GateOutput,
    ImuSample,
    JointSample,
    Mode,
    SampleRef,
    Source,
    Stream,
)
from tether.hardware.feetech import Register
from tether.hardware.health import servo_diagnostics
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.inputs import ServoSample
from tether.safety.settings import SERVO_HEALTH
from tether.safety.supervisor import Supervisor

REST = np.array([0.0, -1.0, 1.6, 0.95, 0.0, 0.02])


class Watched:
    """A gate of a robot whose driver tells how its servos are; everything else is well."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig
        self.gate = Supervisor(make_gate_model("scripted", servo_health=True))
        self.now_ns = 0
        rig.until_ready()

    def heard(self) -> ServoSample | None:
        """What the gate hears of the servos after one more cycle of the bus."""
        self.rig.cycle()
        raw = encode(diagnostics_message(self.now_ns, servo_diagnostics(self.rig.servos)))
        return servo_sample_from(decode(raw, topics.DIAGNOSTICS.type))

    def run(self, ticks: int, tell: bool = True) -> GateOutput:
        """So many ticks; the servos are told of every 200 ms, as the driver does."""
        for i in range(ticks):
            self.now_ns += TICK_NS
            if tell and i % 20 == 0:
                sample = self.heard()
                assert sample is not None
                self.gate.on_servos(sample, self.now_ns)
            ref = SampleRef(Stream.JOINTS, self.now_ns, i)
            self.gate.on_joints(JointSample(ref, COMMAND_JOINTS, REST, np.zeros(6)), self.now_ns)
            ref = SampleRef(Stream.IMU, self.now_ns, i)
            self.gate.on_imu(ImuSample(ref, np.zeros(3), np.array([0.0, 0.0, 9.8])), self.now_ns)
            stay = Command(i, self.now_ns, 0, Source.SCRIPTED, COMMAND_JOINTS, REST, np.zeros(6), np.zeros(3))
            self.gate.propose(stay, self.now_ns)
            output = self.gate.tick(self.now_ns)
        return output


@pytest.fixture
def watched(rig: Any) -> Iterator[Watched]:
    made = Watched(rig)
    made.gate.arm("test")
    assert made.run(5).mode is Mode.ACTIVE
    yield made


def servo(watched: Watched, joint: str) -> Any:
    """The emulated servo of a joint."""
    return watched.rig.emulator.servos[watched.rig.servos._all[joint].id]


def refused(output: GateOutput) -> dict[str, str]:
    return {v.check: v.reason for v in output.verdicts if v.scale < 1.0}


def test_healthy_servos_restrict_nothing(watched: Watched) -> None:
    assert watched.run(100).scale == 1.0
    sample = watched.heard()
    assert sample is not None
    assert set(COMMAND_JOINTS) < set(sample.names)
    assert len(sample.names) == 9, "the wheels' servos are judged with the arm's"
    assert sample.temperature_c == (35.0,) * 9
    assert sample.voltage_v == (12.0,) * 9


@pytest.mark.parametrize("joint", ["elbow_flex", "wheel_left"])
@pytest.mark.parametrize(
    ("register", "number", "check", "says"),
    [
        (Register.PRESENT_TEMPERATURE, 66, "servo_temperature", "66.0 °C"),
        (Register.PRESENT_CURRENT, 400, "servo_current", "2.60 A"),
        (Register.PRESENT_VOLTAGE, 92, "servo_voltage", "9.20 V"),
        (Register.PRESENT_VOLTAGE, 141, "servo_voltage", "14.10 V"),
    ],
)
def test_a_servo_outside_its_limits_stops_the_robot_by_name_and_it_goes_on_when_it_is_back(
    watched: Watched, joint: str, register: Register, number: int, check: str, says: str
) -> None:
    chosen = servo(watched, joint)
    before = chosen.get(register)
    chosen.set(register, number)
    output = watched.run(21)
    assert (output.scale, output.mode) == (0.0, Mode.ARMED)
    assert says in refused(output)[check]
    assert joint in refused(output)[check]
    chosen.set(register, before)
    assert watched.run(21).mode is Mode.ACTIVE


def test_a_warm_servo_slows_the_robot_before_it_stops(watched: Watched) -> None:
    servo(watched, "shoulder_lift").set(Register.PRESENT_TEMPERATURE, 60)
    output = watched.run(21)
    assert output.scale == pytest.approx(0.5)
    assert output.mode is Mode.ACTIVE


def test_a_driver_that_says_nothing_more_of_its_servos_stops_the_robot(watched: Watched) -> None:
    assert watched.run(45, tell=False).scale == 1.0
    output = watched.run(10, tell=False)
    assert "servos: nothing for" in refused(output)["sensor_silence"]


def test_a_bus_that_is_gone_vouches_for_no_servo(watched: Watched) -> None:
    watched.rig.servos.close()
    raw = encode(diagnostics_message(0, servo_diagnostics(watched.rig.servos)))
    sample = servo_sample_from(decode(raw, topics.DIAGNOSTICS.type))
    assert sample is not None and sample.names == ()
    watched.gate.on_servos(sample, watched.now_ns)
    assert "servos: missing shoulder_pan" in refused(watched.run(1, tell=False))["joint_names"]


@pytest.mark.parametrize(
    ("parts", "check"),
    [
        ({"elbow_flex": (Wellness.STALE, {})}, "joint_names"),
        ({"elbow_flex": (Wellness.OK, {"temperature_c": "warm"})}, "finite"),
        ({"elbow_flex": (Wellness.OK, {"voltage_v": "inf"})}, "finite"),
        ({"elbow_flex": (Wellness.OK, {})}, None),
    ],
)
def test_what_is_told_badly_is_refused(
    watched: Watched, parts: dict[str, tuple[Wellness, dict[str, str]]], check: str | None
) -> None:
    well = {"temperature_c": "30", "current_a": "0.10", "voltage_v": "12.0"}
    told = [Diagnosis(Wellness.OK, "servo bus", "connected", "servo_bus", {})]
    for name in COMMAND_JOINTS:
        level, changed = parts.get(name, (Wellness.OK, {}))
        told.append(Diagnosis(level, f"servo {name}", "", "", {**well, **changed}))
    sample = servo_sample_from(decode(encode(diagnostics_message(0, told)), topics.DIAGNOSTICS.type))
    assert sample is not None
    watched.gate.on_servos(sample, watched.now_ns)
    found = refused(watched.run(1, tell=False))
    assert set(found) - {"mode"} == ({check} if check else set())


def test_what_others_say_on_diagnostics_is_none_of_the_gates_business() -> None:
    told = [Diagnosis(Wellness.ERROR, "some camera", "hot", "x", {"temperature_c": "99"})]
    assert servo_sample_from(decode(encode(diagnostics_message(0, told)), topics.DIAGNOSTICS.type)) is None


@pytest.mark.parametrize(("physical", "told"), [(True, False), (False, True), (False, False)])
def test_a_physical_robot_cannot_do_without_and_a_simulated_world_names_what_it_lacks(
    physical: bool, told: bool
) -> None:
    model = make_gate_model("scripted", physical=physical, servo_health=told)
    fitted = {hardware for hardware in SERVO_HEALTH if model.settings.fits(hardware)}
    assert fitted == (set(SERVO_HEALTH) if physical or told else set())
    assert model.servo_hardware == frozenset(fitted)
