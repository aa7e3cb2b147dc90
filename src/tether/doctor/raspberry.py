"""Traps of a Raspberry Pi 5 under Ubuntu 24.04: system, power, cooling, groups, buses, right to go first, deployment.

Each is described with its source in docs/robot.md. Other machines than a Raspberry Pi have none of these findings.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

from tether.deploy.layout import Place
from tether.doctor.finding import Finding, Machine, Status, ok

BOOT = "boot/firmware/config.txt"
SUPPLY_MA = 5000
I2C_HZ = 400_000
# The fan's curve begins at 50 °C, with 30 % (Raspberry Pi documentation, "Cooling a Raspberry Pi").
FAN_RUNS_C = 60.0
GROUPS = {"dialout": "serial ports", "i2c": "I2C", "video": "cameras and the firmware"}
# The gate asks for niceness -10 (docs/realtime.md); the limit is 20 less that.
NICE_LIMIT = 30


def system(machine: Machine) -> list[Finding]:
    """ROS 2 Jazzy has packages for Ubuntu 24.04 and no other system of a Pi."""
    if not machine.is_pi:
        return []
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', machine.read("etc/os-release") or "", re.MULTILINE))
    found = f"{machine.read('proc/device-tree/model')}, {fields.get('PRETTY_NAME', 'an unknown system')}"
    expected = "Raspberry Pi 5 with Ubuntu 24.04"
    if (fields.get("ID"), fields.get("VERSION_ID")) != ("ubuntu", "24.04"):
        fix = (
            "install Ubuntu Server 24.04 (64-bit) with Raspberry Pi Imager, or run the image of docker/robot.Dockerfile"
        )
        return [Finding("pi system", Status.WARN, found, expected, fix)]
    if "Raspberry Pi 5" not in found and "Compute Module 5" not in found:
        fix = "use a Raspberry Pi 5: an older one is too slow for the student at 20 Hz beside the camera"
        return [Finding("pi system", Status.WARN, found, expected, fix)]
    return [ok("pi system", found, expected)]


def supply(machine: Machine) -> list[Finding]:
    """What the power supply said it can give, and whether USB ever took more than it may."""
    offered_ma = cell(machine, "proc/device-tree/chosen/power/max_current")
    if not machine.is_pi or offered_ma is None:
        return []
    expected = f"{SUPPLY_MA} mA"
    if cell(machine, "proc/device-tree/chosen/power/usb_over_current_detected"):
        fix = "feed the servo adapter and other loads from their own supply, not over USB"
        return [Finding("pi supply", Status.FAIL, "USB took too much current before this start", expected, fix)]
    if offered_ma < SUPPLY_MA:
        found = f"the supply offers {offered_ma} mA: all USB ports together get 600 mA"
        fix = (
            "use the 27 W supply (5.1 V, 5 A); where another source gives 5 A: usb_max_current_enable=1 in "
            + f"/{BOOT}"
        )
        return [Finding("pi supply", Status.WARN, found, expected, fix)]
    return [ok("pi supply", f"{offered_ma} mA", expected)]


def fan(machine: Machine) -> list[Finding]:
    """A Pi 5 under load reaches its limit of 85 °C without a fan."""
    if not machine.is_pi:
        return []
    expected = "a fan that turns once the board is warm"
    speeds = [machine.read_int(str(path.relative_to(machine.root) / "fan1_input")) for path in fans(machine)]
    if not speeds:
        fix = "fit the Active Cooler (4-pin connector J17); with another fan of your own this stays a warning"
        return [Finding("pi fan", Status.WARN, "no fan on the board's connector", expected, fix)]
    rpm = max(speed or 0 for speed in speeds)
    degrees = (machine.read_int("sys/class/thermal/thermal_zone0/temp") or 0) / 1000.0
    if rpm == 0 and degrees >= FAN_RUNS_C:
        fix = f"free the fan, seat its plug; remove dtparam=fan_temp0… lines from /{BOOT}"
        return [Finding("pi fan", Status.FAIL, f"stands still at {degrees:.0f} °C", expected, fix)]
    return [ok("pi fan", f"{rpm} rpm at {degrees:.0f} °C", expected)]


def fans(machine: Machine) -> list[Path]:
    """Folders of fans in sysfs."""
    return [path.parent for path in machine.glob("sys/class/hwmon/hwmon*/name") if path.read_text().strip() == "pwmfan"]


def groups(
    machine: Machine, user: str | None = None, held: Callable[[], Sequence[int]] = os.getgroups
) -> list[Finding]:
    """The groups exist, this user is in them, and this login knows."""
    if not machine.is_pi or (user is None and os.geteuid() == 0):
        return []
    who = user or machine.environ.get("USER", "")
    table = {}
    for line in (machine.read("etc/group") or "").splitlines():
        name, _, rest = line.partition(":")
        _, _, rest = rest.partition(":")
        number, _, members = rest.partition(":")
        table[name] = (number, members.split(","))
    expected = f"{who or 'this user'} in {', '.join(GROUPS)}"
    missing = [name for name in GROUPS if name not in table]
    if missing:
        fix = f"sudo apt-get install -y i2c-tools; sudo groupadd -f {missing[0]}; then docker/99-tether.rules"
        return [Finding("pi groups", Status.WARN, f"no group {' and no group '.join(missing)}", expected, fix)]
    outside = [name for name in GROUPS if who not in table[name][1]]
    if outside:
        fix = f"sudo usermod -aG {','.join(outside)} {who or '$USER'}, then log in again"
        found = f"not in {', '.join(f'{name} ({GROUPS[name]})' for name in outside)}"
        return [Finding("pi groups", Status.WARN, found, expected, fix)]
    stale = [name for name in GROUPS if table[name][0] not in {str(number) for number in held()}]
    if stale:
        found = f"in {', '.join(stale)} by /etc/group, but not in this login"
        return [
            Finding("pi groups", Status.WARN, found, expected, "log out and in again (all of tmux, too), or restart")
        ]
    return [ok("pi groups", ", ".join(GROUPS), expected)]


def i2c_clock(machine: Machine) -> list[Finding]:
    """A bus at 100 kHz is busy a third of the time with an IMU of 200 Hz, and more with its FIFO."""
    hertz = cell(machine, "sys/bus/i2c/devices/i2c-1/of_node/clock-frequency")
    if not machine.is_pi or hertz is None:
        return []
    expected = f"{I2C_HZ // 1000} kHz"
    if hertz < I2C_HZ:
        fix = f"dtparam=i2c_arm=on,i2c_arm_baudrate={I2C_HZ} in /{BOOT}, then restart"
        return [Finding("pi i2c clock", Status.WARN, f"{hertz // 1000} kHz", expected, fix)]
    return [ok("pi i2c clock", f"{hertz // 1000} kHz", expected)]


def serial_owners(machine: Machine) -> list[Finding]:
    """Others that open the servo bus's port: the kernel's console, modem and Braille services that probe adapters."""
    if not machine.is_pi:
        return []
    expected = "nobody but the driver opens the servo bus"
    out = []
    console = re.search(r"console=(ttyAMA0|serial0)\b", machine.read("proc/cmdline") or "")
    if console and machine.glob("dev/ttyAMA0"):
        fix = (
            f"remove console={console[1]},115200 from /boot/firmware/cmdline.txt, then "
            "`sudo systemctl mask serial-getty@ttyAMA0` and restart (only for servos on the header's pins)"
        )
        out.append(Finding("pi console", Status.WARN, f"the kernel's console is on {console[1]}", expected, fix))
    adapters = [*machine.glob("dev/ttyUSB*"), *machine.glob("dev/ttyACM*")]
    ours = any("ID_MM_DEVICE_IGNORE" in (_text(path)) for path in machine.glob("etc/udev/rules.d/*.rules"))
    if machine.glob("usr/sbin/ModemManager") and adapters and not ours:
        fix = "sudo cp docker/99-tether.rules /etc/udev/rules.d/, or `sudo systemctl disable --now ModemManager`"
        found = f"ModemManager asks {adapters[0].name} whether it is a modem"
        out.append(Finding("pi modem service", Status.WARN, found, expected, fix))
    if machine.glob("usr/lib/udev/rules.d/*brltty*.rules"):
        fix = "sudo apt-get remove -y brltty (unless a Braille display is in use)"
        out.append(Finding("pi braille", Status.WARN, "brltty takes CH340 adapters for itself", expected, fix))
    return out or [ok("pi serial owners", "nobody", expected)]


def going_first(
    machine: Machine, limit: Callable[[int], tuple[int, int]] = resource.getrlimit, root: bool | None = None
) -> list[Finding]:
    """May this user's gate go before others?"""
    if not machine.is_pi or (os.geteuid() == 0 if root is None else root):
        return []
    expected = "niceness down to -10"
    allowed = limit(resource.RLIMIT_NICE)[1]
    if allowed == resource.RLIM_INFINITY or allowed >= NICE_LIMIT:
        return [ok("pi niceness", f"down to {max(-20, 20 - allowed) if allowed >= 0 else -20}", expected)]
    fix = (
        "echo '$USER - nice -10' | sudo tee /etc/security/limits.d/tether.conf, then log in again "
        "(docker/tether-native.service and the container have it)"
    )
    return [Finding("pi niceness", Status.WARN, "this login may not lower it", expected, fix)]


def deployment(machine: Machine) -> list[Finding]:
    """Which version `tether deploy` left here, and whether a trial of one was cut short."""
    place = Place(machine.root / "var/lib/tether")
    if not (place.root / "versions").is_dir():
        return []
    expected = "a version that was found healthy"
    current = place.linked("current")
    if place.unfinished() is not None:
        fix = "restart the robot's service, or `tether deploy --agent settle`: it goes back to the version before"
        return [Finding("deployment", Status.WARN, f"the trial of {current} was never ended", expected, fix)]
    if current is None:
        return [Finding("deployment", Status.WARN, "versions, but none in use", expected, "tether deploy USER@HOST")]
    return [ok("deployment", f"{current}, before it {place.linked('previous') or 'none'}", expected)]


def cell(machine: Machine, path: str) -> int | None:
    """A number of the device tree: four bytes, the highest first; None where there is none."""
    try:
        data = (machine.root / path).read_bytes()
    except OSError:
        return None
    return int.from_bytes(data, "big") if len(data) == 4 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


PROBES = (system, supply, fan, groups, i2c_clock, serial_owners, going_first, deployment)
