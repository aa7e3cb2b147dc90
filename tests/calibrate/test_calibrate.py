"""`tether calibrate` over emulated devices with the MuJoCo world behind them: what is true of them is found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tether import cli
from tether.calibrate.measured import zeros
from tether.errors import TetherError
from tether.hardware.calibration import load_calibration
from tether.hardware.emulate.servos import EmulatedServo, ServoBusEmulator
from tether.hardware.serial_port import SerialPort
from tether.hardware.servo_bus import ServoBus
from tether.hardware.settings import load_robot_settings
from tether.world.profile import load_profile

POSE = {"shoulder_pan": 0.3, "shoulder_lift": -1.2, "elbow_flex": 1.0, "wrist_flex": 0.0, "wrist_roll": -0.5}


def test_servo_zeros_are_found_within_one_step_from_a_known_pose(tmp_path: Path) -> None:
    nominal = load_calibration(load_robot_settings("emulated").calibration)
    truth = {name: nominal.servos[name].zero_step + 37 * i - 60 for i, name in enumerate(POSE)}
    servos = []
    for name, servo in nominal.servos.items():
        at = truth.get(name, servo.zero_step) + round(POSE.get(name, 0.0) / servo.units_per_step)
        servos.append(EmulatedServo(servo.id, at))
    with ServoBusEmulator(tmp_path / "bus", servos) as emulator:
        bus = ServoBus(SerialPort(emulator.path, 1_000_000), margin_s=2.0)
        found = zeros(bus, nominal, POSE)
        assert {name: found.servos[name].zero_step for name in POSE} == pytest.approx(truth, abs=1)
        assert found.servos["gripper"] == nominal.servos["gripper"]
        assert not any(servo.torque for servo in servos), "nothing is switched on"
        bus._margin_s = 0.02
        emulator.faults.silent.add(2)
        with pytest.raises(TetherError, match=r"servo 2 \(shoulder_lift\): 0 of 20 replies"):
            zeros(bus, nominal, POSE)
        bus.close()


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.timeout(900)
def test_bias_noise_and_delays_of_an_emulated_robot_become_its_calibration_and_profile(tmp_path: Path) -> None:
    """Profile real: 120 ms to a picture, up to a tick until it is out; 30 + 100 ms of servo, a few of mechanics."""
    assert cli.main(["calibrate", "rest", "delays", "--out", str(tmp_path), "--seed", "3"]) == 0
    figures = json.loads((tmp_path / "calibrate.json").read_text())
    calibration = load_calibration(tmp_path / "tether_rover.calibration.yaml")
    profile = load_profile(tmp_path / "tether_rover.profile.yaml")
    assert profile.name == "tether_rover_measured"
    assert profile.camera.delay.latency_s == pytest.approx(0.126, abs=0.010)
    assert profile.camera.delay.jitter_s == pytest.approx(0.022, abs=0.008)
    assert figures["delays"]["seen"]["stamp_s"] == pytest.approx(0.0, abs=0.010)
    lag = profile.actuation
    assert lag.dead_time_s + lag.time_constant_s == pytest.approx(0.134, abs=0.018), "lag_scale: 0.92 to 1.08"
    assert lag.dead_time_s == pytest.approx(0.033, abs=0.012)
    assert profile.imu.gyro_noise_rad_s == pytest.approx(0.0011, rel=0.3)
    assert profile.imu.accel_noise_m_s2 == pytest.approx(0.048, rel=0.3)
    assert profile.camera.pixel_noise == pytest.approx(4.0, rel=0.3)
    bias = np.array(calibration.imu.gyro_bias_rad_s)
    assert 0.0005 < np.abs(bias).max() < 0.04, "one sigma of what the world draws is 0.008"
