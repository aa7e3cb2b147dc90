"""The Pi 5's own camera connector: its pictures need a libcamera that knows this board's image processor."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tether.doctor.finding import Finding, Machine, Status, ok

SENSOR = "rp1-cfe"
"""What the receiver of the Pi 5's connectors is called in V4L2; it delivers raw Bayer data, which is no picture yet."""
MODULE = "ipa_rpi_pisp.so"
"""libcamera's module for the Pi 5's image processor: Raspberry Pi's fork builds it."""
_FIX = "build Raspberry Pi's fork of libcamera together with camera_ros: docs/robot.md, `Camera`"


def configured(machine: Machine) -> list[Finding]:
    """Does the firmware look for a camera?"""
    text = machine.read("boot/firmware/config.txt")
    if not machine.is_pi or text is None:
        return []
    expected = "camera_auto_detect=1, or an overlay of the camera"
    lines = [line.strip() for line in text.splitlines()]
    overlay = next((x for x in lines if re.match(r"dtoverlay=(imx|ov|arducam|vd)\w*", x)), None)
    if overlay is None and "camera_auto_detect=1" not in lines:
        fix = "camera_auto_detect=1 in /boot/firmware/config.txt, then restart (a USB camera needs neither)"
        return [Finding("pi camera config", Status.WARN, "neither is set", expected, fix)]
    return [ok("pi camera config", overlay or "camera_auto_detect=1", expected)]


def library(machine: Machine, has_module: Callable[[str], object] = find_spec) -> list[Finding]:
    """Can anything here turn the connector's raw data into pictures?"""
    names = {machine.read(str(path.relative_to(machine.root))) for path in machine.glob("sys/class/video4linux/*/name")}
    if not machine.is_pi or not any(SENSOR in (name or "") for name in names):
        return []
    expected = f"picamera2, or a libcamera with {MODULE}"
    if has_module("picamera2") is not None:
        return [ok("pi libcamera", "picamera2", expected)]
    prefixes = libcameras(machine)
    able = [prefix for prefix in prefixes if any(prefix.rglob(MODULE))]
    if not able:
        found = f"a camera on the connector, no picamera2 (Ubuntu has no package of it), no {MODULE}"
        return [Finding("pi libcamera", Status.WARN, found, expected, _FIX)]
    versions = sorted({version for prefix in prefixes for version in library_versions(prefix)})
    if len(versions) > 1:
        found = f"several versions of libcamera: {', '.join(versions)} in {', '.join(map(str, prefixes))}"
        fix = "sudo apt-get remove -y ros-jazzy-libcamera 'libcamera0*', and " + _FIX
        return [Finding("pi libcamera", Status.WARN, found, "one version, which camera_ros was built with", fix)]
    return [ok("pi libcamera", f"{', '.join(versions) or 'a libcamera'} in {able[0]}", expected)]


def libcameras(machine: Machine) -> list[Path]:
    """Library folders in which some libcamera lies: the system's, and those of the sourced ROS workspaces."""
    folders = [*machine.glob("usr/lib/*-linux-gnu"), *machine.glob("usr/local/lib/*-linux-gnu")]
    folders += machine.glob("opt/ros/*/lib")
    folders += [Path(p) / "lib" for p in machine.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    return [folder for folder in dict.fromkeys(folders) if library_versions(folder)]


def library_versions(folder: Path) -> set[str]:
    """Versions (0.5.0) of the libcamera in a library folder or one below it."""
    found = [*folder.glob("libcamera.so.*"), *folder.glob("*-linux-gnu/libcamera.so.*")]
    return {match[1] for path in found if (match := re.fullmatch(r"libcamera\.so\.(\d+\.\d+\.\d+)", path.name))}


PROBES = (configured, library)
