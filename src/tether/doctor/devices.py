"""Cameras, I2C and serial ports: are they there, and may this user open them?

Without a robot attached none of them is needed, so their absence is a warning only on a Raspberry Pi.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tether.doctor.finding import Finding, Machine, Status, ok

Access = Callable[[Path, int], bool]
# FTDI adapters hold bytes back for 16 ms by default, most of a 20 ms servo period.
LATENCY_MAX_MS = 4
GROUPS = {"camera": "video", "i2c": "i2c", "serial": "dialout"}


def cameras(machine: Machine, access: Access = os.access) -> list[Finding]:
    """Video devices that capture; a Pi's camera is there only when libcamera sees it."""
    expected = "a camera that this user can open"
    nodes = [p for p in machine.glob("dev/video*") if p.name.removeprefix("video").isdigit()]
    named = {p: machine.read(f"sys/class/video4linux/{p.name}/name") or p.name for p in nodes}
    # Codecs and image processors of the SoC are video devices too.
    real = {p: n for p, n in named.items() if not any(w in n.lower() for w in ("codec", "isp", "hevc", "rpivid"))}
    if not real:
        fix = "check the ribbon cable and camera_auto_detect=1 in /boot/firmware/config.txt"
        return absent(machine, "camera", "no video device", expected, fix)
    return openable("camera", real, expected, access)


def i2c(machine: Machine, access: Access = os.access) -> list[Finding]:
    """I2C buses, where the IMU hangs."""
    expected = "an I2C bus that this user can open"
    buses = {p: machine.read(f"sys/class/i2c-adapter/{p.name}/name") or p.name for p in machine.glob("dev/i2c-*")}
    if not buses:
        fix = "dtparam=i2c_arm=on in /boot/firmware/config.txt, `sudo modprobe i2c-dev`, then restart"
        return absent(machine, "i2c", "no /dev/i2c-*", expected, fix)
    return openable("i2c", buses, expected, access)


def serial(machine: Machine, access: Access = os.access) -> list[Finding]:
    """Serial ports, where the servo bus hangs, and their latency timer."""
    expected = "a serial port that this user can open"
    ports = {}
    for pattern in ("dev/ttyUSB*", "dev/ttyACM*", "dev/ttyAMA*"):
        ports.update({p: p.name for p in machine.glob(pattern)})
    if not ports:
        fix = "plug in the servo adapter; for the header's pins enable_uart=1 in /boot/firmware/config.txt"
        return absent(machine, "serial", "no ttyUSB, ttyACM or ttyAMA", expected, fix)
    out = openable("serial", ports, expected, access)
    for port in ports:
        wait_ms = machine.read_int(f"sys/bus/usb-serial/devices/{port.name}/latency_timer")
        if wait_ms is not None and wait_ms > LATENCY_MAX_MS:
            fix = f"echo 1 | sudo tee /sys/bus/usb-serial/devices/{port.name}/latency_timer"
            limit = f"at most {LATENCY_MAX_MS} ms"
            out.append(Finding("serial latency", Status.WARN, f"{port.name} waits {wait_ms} ms", limit, fix))
    return out


def absent(machine: Machine, name: str, found: str, expected: str, fix: str) -> list[Finding]:
    """Nothing of this kind: a warning on a Pi, nothing to do elsewhere."""
    if machine.is_pi:
        return [Finding(name, Status.WARN, found, expected, fix)]
    return [ok(name, f"{found}; simulation needs none", expected)]


def openable(name: str, found: dict[Path, str], expected: str, access: Access) -> list[Finding]:
    """Devices of one kind, those that may not be opened among them."""
    refused = [p for p in found if not access(p, os.R_OK | os.W_OK)]
    if not refused:
        listed = ", ".join(f"{p.name} ({n})" if n != p.name else n for p, n in found.items())
        return [ok(name, listed, expected)]
    shown = ", ".join(p.name for p in refused)
    fix = f"sudo usermod -aG {GROUPS[name]} $USER, then log in again"
    return [Finding(name, Status.WARN, f"no permission for {shown}", expected, fix)]


PROBES = (cameras, i2c, serial)
