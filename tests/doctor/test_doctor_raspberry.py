"""Each trap of docs/robot.md is found, on machines made of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.doctor import raspberry, raspberry_camera
from tether.doctor.finding import Finding, Machine, Status

PI = {
    "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
    "etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
}
GROUP_FILE = "dialout:x:20:ada\ni2c:x:115:ada\nvideo:x:44:bob,ada\n"


def put(machine: Machine, path: str, data: bytes) -> None:
    target = machine.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.mark.parametrize("probe", [*raspberry.PROBES, *raspberry_camera.PROBES], ids=lambda probe: probe.__name__)
def test_other_machines_have_none_of_a_pis_findings(probe, make_machine) -> None:
    assert probe(make_machine({"etc/os-release": "ID=debian\n", "proc/cmdline": "console=ttyAMA0"})) == []


def test_ubuntu_on_a_pi_5_is_what_is_expected(make_machine) -> None:
    assert only(raspberry.system(make_machine(PI))).status is Status.OK


def test_raspberry_pi_os_is_named_with_the_way_out(make_machine) -> None:
    files = {**PI, "etc/os-release": 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n'}
    finding = only(raspberry.system(make_machine(files)))
    assert finding.status is Status.WARN
    assert "docker/robot.Dockerfile" in finding.fix


@pytest.mark.parametrize(("milliampere", "status"), [(5000, Status.OK), (3000, Status.WARN)])
def test_supply_is_judged_by_what_it_offered(make_machine, milliampere: int, status: Status) -> None:
    machine = make_machine(PI)
    put(machine, "proc/device-tree/chosen/power/max_current", milliampere.to_bytes(4, "big"))
    finding = only(raspberry.supply(machine))
    assert finding.status is status
    assert str(milliampere) in finding.found


def test_usb_that_took_too_much_fails(make_machine) -> None:
    machine = make_machine(PI)
    put(machine, "proc/device-tree/chosen/power/max_current", (5000).to_bytes(4, "big"))
    put(machine, "proc/device-tree/chosen/power/usb_over_current_detected", (1).to_bytes(4, "big"))
    assert only(raspberry.supply(machine)).status is Status.FAIL


@pytest.mark.parametrize(
    ("rpm", "milli", "status"), [("2800", "55000", Status.OK), ("0", "45000", Status.OK), ("0", "71000", Status.FAIL)]
)
def test_fan_that_stands_still_on_a_hot_board_fails(make_machine, rpm: str, milli: str, status: Status) -> None:
    hwmon = {"sys/class/hwmon/hwmon3/name": "pwmfan\n", "sys/class/hwmon/hwmon3/fan1_input": rpm}
    machine = make_machine({**PI, **hwmon, "sys/class/thermal/thermal_zone0/temp": milli})
    assert only(raspberry.fan(machine)).status is status


def test_missing_fan_is_a_warning(make_machine) -> None:
    assert only(raspberry.fan(make_machine(PI))).status is Status.WARN


@pytest.mark.parametrize(
    ("text", "held", "status", "word"),
    [
        (GROUP_FILE, (20, 44, 115), Status.OK, "dialout"),
        (GROUP_FILE, (20, 44), Status.WARN, "not in this login"),
        (GROUP_FILE.replace("dialout:x:20:ada", "dialout:x:20:"), (44, 115), Status.WARN, "dialout (serial ports)"),
        (GROUP_FILE.replace("i2c:x:115:ada\n", ""), (20, 44), Status.WARN, "no group i2c"),
    ],
)
def test_groups_are_held_against_file_and_login(make_machine, text, held, status, word) -> None:
    finding = only(raspberry.groups(make_machine({**PI, "etc/group": text}), "ada", lambda: held))
    assert finding.status is status
    assert word in finding.found


@pytest.mark.parametrize(("hertz", "status"), [(100_000, Status.WARN), (400_000, Status.OK)])
def test_slow_i2c_is_named_with_the_line_that_makes_it_faster(make_machine, hertz: int, status: Status) -> None:
    machine = make_machine(PI)
    put(machine, "sys/bus/i2c/devices/i2c-1/of_node/clock-frequency", hertz.to_bytes(4, "big"))
    finding = only(raspberry.i2c_clock(machine))
    assert finding.status is status
    assert status is Status.OK or "i2c_arm_baudrate=400000" in finding.fix


def test_everybody_who_opens_the_servo_bus_is_named(make_machine) -> None:
    files = {
        "proc/cmdline": "console=serial0,115200 console=tty1 root=LABEL=writable",
        "dev/ttyAMA0": "",
        "dev/ttyACM0": "",
        "usr/sbin/ModemManager": "",
        "usr/lib/udev/rules.d/85-brltty.rules": "",
    }
    names = {finding.name for finding in raspberry.serial_owners(make_machine({**PI, **files}))}
    assert names == {"pi console", "pi modem service", "pi braille"}


def test_rules_of_ours_keep_the_modem_service_away(make_machine) -> None:
    rules = (Path(__file__).resolve().parents[2] / "docker" / "99-tether.rules").read_text()
    files = {"dev/ttyACM0": "", "usr/sbin/ModemManager": "", "etc/udev/rules.d/99-tether.rules": rules}
    assert only(raspberry.serial_owners(make_machine({**PI, **files}))).status is Status.OK


@pytest.mark.parametrize(("hard", "status"), [(0, Status.WARN), (30, Status.OK), (-1, Status.OK)])
def test_right_to_go_first_is_asked_of_the_limits(make_machine, hard: int, status: Status) -> None:
    assert only(raspberry.going_first(make_machine(PI), lambda which: (0, hard), root=False)).status is status


def test_trial_that_was_cut_short_is_found_on_any_machine(make_machine) -> None:
    machine = make_machine()
    place = machine.root / "var/lib/tether"
    (place / "versions" / "a1").mkdir(parents=True)
    assert only(raspberry.deployment(machine)).status is Status.WARN
    (place / "current").symlink_to("versions/a1")
    assert only(raspberry.deployment(machine)).status is Status.OK
    (place / "trial.json").write_text('{"before": null, "new": "a1"}')
    assert "never ended" in only(raspberry.deployment(machine)).found


@pytest.mark.parametrize(
    ("line", "status"),
    [("camera_auto_detect=1", Status.OK), ("dtoverlay=imx708,cam0", Status.OK), ("#dtoverlay=imx708", Status.WARN)],
)
def test_firmware_must_look_for_a_camera(make_machine, line: str, status: Status) -> None:
    machine = make_machine({**PI, "boot/firmware/config.txt": f"[all]\n{line}\n"})
    assert only(raspberry_camera.configured(machine)).status is status


CSI = {"sys/class/video4linux/video0/name": "rp1-cfe-csi2_ch0\n"}


def test_usb_camera_needs_no_libcamera(make_machine) -> None:
    machine = make_machine({**PI, "sys/class/video4linux/video0/name": "UVC Camera"})
    assert raspberry_camera.library(machine, lambda name: None) == []


def test_camera_on_the_connector_without_the_fork_is_named(make_machine) -> None:
    files = {**PI, **CSI, "opt/ros/jazzy/lib/aarch64-linux-gnu/libcamera.so.0.5.0": ""}
    finding = only(raspberry_camera.library(make_machine(files), lambda name: None))
    assert finding.status is Status.WARN
    assert "ipa_rpi_pisp.so" in finding.found
    assert "docs/robot.md" in finding.fix


def test_fork_is_enough_and_two_versions_are_too_many(make_machine) -> None:
    fork = "usr/local/lib/aarch64-linux-gnu/"
    files = {**PI, **CSI, f"{fork}libcamera.so.0.5.2": "", f"{fork}libcamera/ipa_rpi_pisp.so": ""}
    assert only(raspberry_camera.library(make_machine(files), lambda name: None)).status is Status.OK
    more = {"opt/ros/jazzy/lib/aarch64-linux-gnu/libcamera.so.0.5.0": ""}
    finding = only(raspberry_camera.library(make_machine({**files, **more}), lambda name: None))
    assert finding.status is Status.WARN
    assert "0.5.0, 0.5.2" in finding.found


def test_picamera2_is_enough(make_machine) -> None:
    assert only(raspberry_camera.library(make_machine({**PI, **CSI}), lambda name: object())).status is Status.OK
