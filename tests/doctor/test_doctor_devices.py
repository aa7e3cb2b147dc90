"""Cameras, I2C and serial ports: presence and permission."""

from __future__ import annotations

from tether.doctor import devices
from tether.doctor.finding import Status

PI = {"proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0"}


def yes(path, mode) -> bool:
    return True


def no(path, mode) -> bool:
    return False


def test_missing_hardware_is_fine_in_simulation_and_a_warning_on_the_robot(make_machine) -> None:
    plain, robot = make_machine(), None
    assert all(probe(plain)[0].status is Status.OK for probe in devices.PROBES)
    robot = make_machine(PI)
    found = [probe(robot)[0] for probe in devices.PROBES]
    assert all(f.status is Status.WARN and "config.txt" in f.fix for f in found)


def test_codecs_of_the_chip_are_not_taken_for_cameras(make_machine) -> None:
    files = {**PI, "dev/video19": "", "sys/class/video4linux/video19/name": "rpi-hevc-dec"}
    (finding,) = devices.cameras(make_machine(files), access=yes)
    assert finding.found == "no video device"


def test_camera_is_shown_by_name(make_machine) -> None:
    files = {"dev/video0": "", "sys/class/video4linux/video0/name": "imx708_wide"}
    (finding,) = devices.cameras(make_machine(files), access=yes)
    assert finding.status is Status.OK
    assert finding.found == "video0 (imx708_wide)"


def test_missing_permission_names_the_group(make_machine) -> None:
    files = {"dev/video0": "", "dev/i2c-1": "", "dev/ttyACM0": ""}
    machine = make_machine(files)
    fixes = [probe(machine, access=no)[0].fix for probe in devices.PROBES]
    assert ["video" in fixes[0], "i2c" in fixes[1], "dialout" in fixes[2]] == [True, True, True]
    assert all("usermod" in fix for fix in fixes)


def test_slow_latency_timer_of_a_serial_adapter_is_named(make_machine) -> None:
    files = {"dev/ttyUSB0": "", "sys/bus/usb-serial/devices/ttyUSB0/latency_timer": "16"}
    port, latency = devices.serial(make_machine(files), access=yes)
    assert port.status is Status.OK
    assert latency.found == "ttyUSB0 waits 16 ms"
    assert "ttyUSB0/latency_timer" in latency.fix
