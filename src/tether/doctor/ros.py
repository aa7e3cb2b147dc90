"""The ROS 2 environment: which ROS, domain, middleware, discovery, transports, what dead processes left."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from tether.doctor.finding import Finding, Machine, Status, ok
from tether.launch.shm import left_behind

DISTRO = "jazzy"
RMW = "rmw_fastrtps_cpp"
# Above 101 the ports of a domain run into Linux's ephemeral ones (ROS 2 documentation, "The ROS_DOMAIN_ID").
DOMAIN_MAX = 101
RANGES = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
PROFILE_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
# A 640×480 rgb8 image is 921,600 bytes; over UDP it has to fit the socket's buffer while Python is busy.
RECEIVE_BUFFER_MIN = 2 * 1024 * 1024
SHM_MIN_MIB, SHM_SIZE_MIB = 64.0, 256
"""Free, and in all: what docker/sim.compose.yaml gives a container, to which Docker gives 64 MiB."""
MIB = 2**20


def distribution(machine: Machine) -> list[Finding]:
    """Is rclpy there, from one ROS 2 only, and is that Jazzy?"""
    expected = "one ROS 2 Jazzy"
    if find_spec("rclpy") is None:
        fix = "make setup (wheels), or source /opt/ros/jazzy/setup.bash"
        return [Finding("ros", Status.FAIL, "this Python finds no rclpy", expected, fix)]
    distro = machine.environ.get("ROS_DISTRO", "")
    if distro and distro != DISTRO:
        fix = "open a shell that does not source it; `.venv/bin/tether` needs nothing sourced"
        return [Finding("ros", Status.FAIL, f"ROS_DISTRO is {distro}", expected, fix)]
    found = copies_of_rclpy(sys.path)
    if len(found) > 1:
        fix = "unset PYTHONPATH; `.venv/bin/tether` needs nothing sourced"
        return [Finding("ros", Status.FAIL, "rclpy in " + " and in ".join(found), expected, fix)]
    return [ok("ros", f"Jazzy, rclpy in {found[0] if found else 'an unusual place'}", expected)]


def copies_of_rclpy(path: Sequence[str]) -> list[str]:
    """Folders of a Python path that hold an rclpy."""
    return list(dict.fromkeys(str(Path(p).resolve()) for p in path if p and (Path(p) / "rclpy/__init__.py").is_file()))


def index(machine: Machine) -> list[Finding]:
    """Can launch files find Tether's packages?"""
    expected = "tether_msgs and tether_bringup in AMENT_PREFIX_PATH"
    prefixes = [p for p in machine.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    gone = [p for p in prefixes if not Path(p).is_dir()]
    marker = "share/ament_index/resource_index/packages"
    missing = [
        n for n in ("tether_msgs", "tether_bringup") if not any((Path(p) / marker / n).exists() for p in prefixes)
    ]
    if missing:
        found = f"no {' and no '.join(missing)} in {os.pathsep.join(prefixes) or 'an empty path'}"
        return [Finding("packages", Status.FAIL, found, expected, "make setup")]
    if gone:
        fix = "open a new shell; a workspace that was sourced has been removed"
        return [Finding("packages", Status.WARN, f"{', '.join(gone)} does not exist", expected, fix)]
    return [ok("packages", f"found in {len(prefixes)} prefix{'es' if len(prefixes) > 1 else ''}", expected)]


def domain(machine: Machine) -> list[Finding]:
    """Domain id, and whether other machines on the network can talk into this robot's graph."""
    text = machine.environ.get("ROS_DOMAIN_ID", "")
    expected = f"ROS_DOMAIN_ID from 0 to {DOMAIN_MAX}"
    if text and not (re.fullmatch(r"[0-9]{1,9}", text) and int(text) <= DOMAIN_MAX):
        fix = f"export ROS_DOMAIN_ID=<0…{DOMAIN_MAX}>, the same on every machine of this robot"
        return [Finding("domain", Status.FAIL, f"ROS_DOMAIN_ID={text}", expected, fix)]
    return [ok("domain", text or "0 (default)", expected)]


def discovery(machine: Machine) -> list[Finding]:
    """Who may discover this graph. Nodes with different settings do not see each other."""
    expected = f"ROS_AUTOMATIC_DISCOVERY_RANGE one of {', '.join(RANGES)}"
    value = machine.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "")
    old = machine.environ.get("ROS_LOCALHOST_ONLY", "")
    if value and value not in RANGES:
        fix = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
        return [Finding("discovery", Status.FAIL, f"'{value}'", expected, fix)]
    if value == "OFF":
        fix = "unset ROS_AUTOMATIC_DISCOVERY_RANGE, or set it to LOCALHOST"
        return [Finding("discovery", Status.FAIL, "OFF: no node finds another", expected, fix)]
    if old:
        fix = "unset ROS_LOCALHOST_ONLY; Jazzy uses ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
        return [Finding("discovery", Status.WARN, f"ROS_LOCALHOST_ONLY={old}, which overrides it", expected, fix)]
    return [ok("discovery", value or "SUBNET (default)", expected)]


def middleware(machine: Machine) -> list[Finding]:
    """The RMW that is asked for exists."""
    asked = machine.environ.get("RMW_IMPLEMENTATION", "")
    expected = f"{RMW}, which Tether is tested with"
    name = asked or RMW
    folders = [machine.prefix / "lib"]
    folders += [Path(p) / "lib" for p in machine.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    if not any((f / f"lib{name}.so").exists() for f in folders):
        fix = "unset RMW_IMPLEMENTATION" if asked else "make setup"
        return [Finding("rmw", Status.FAIL, f"no lib{name}.so", expected, fix)]
    if name != RMW:
        fix = f"export RMW_IMPLEMENTATION={RMW}, on every machine of this robot"
        return [Finding("rmw", Status.WARN, name, expected, fix)]
    return [ok("rmw", name, expected)]


def transports(machine: Machine) -> list[Finding]:
    """What decides whether large best-effort messages arrive: DDS profile files and socket buffers."""
    out = []
    for variable in PROFILE_VARIABLES:
        file = machine.environ.get(variable)
        if file and not Path(file).is_file():
            fix = f"unset {variable}, or write the file"
            out.append(Finding("dds profile", Status.FAIL, f"{variable}={file} does not exist", "a file", fix))
    limit = machine.read_int("proc/sys/net/core/rmem_max")
    expected = f"at least {RECEIVE_BUFFER_MIN // MIB} MiB for images between machines"
    if limit is None:
        return out
    found = f"net.core.rmem_max is {limit / MIB:.1f} MiB"
    if limit >= RECEIVE_BUFFER_MIN:
        return [*out, ok("socket buffer", found, expected)]
    # On one machine images go through shared memory.
    fix = f"sudo sysctl -w net.core.rmem_max={2 * RECEIVE_BUFFER_MIN}  # needed only between machines"
    return [*out, Finding("socket buffer", Status.WARN, found, expected, fix)]


def shared_memory(
    machine: Machine,
    usage: Callable[[str], tuple[int, int, int]] = shutil.disk_usage,
    leftovers: Callable[[int, Path], list[Path]] = left_behind,
) -> list[Finding]:
    """Room in /dev/shm, and Fast DDS files in it whose processes are dead."""
    folder = machine.root / "dev/shm"
    expected = f"/dev/shm with {SHM_MIN_MIB:g} MiB free and nothing left by dead processes"
    if not folder.is_dir():
        fix = _larger_shared_memory(machine, "sudo mount --mkdir -t tmpfs -o mode=1777,size={size} tmpfs /dev/shm")
        return [Finding("shared memory", Status.WARN, "no /dev/shm: images go through UDP", expected, fix)]
    whole, _, free = (size / MIB for size in usage(str(folder)))
    dead = leftovers(0, folder)
    size = sum(p.stat().st_size for p in dead if p.exists()) / MIB
    if free + size < SHM_MIN_MIB:
        # What fills one that is large enough may be in use: it is shown, not removed.
        fix = "ls -lS /dev/shm"
        if whole < SHM_SIZE_MIB:
            fix = _larger_shared_memory(machine, "sudo mount -o remount,size={size} /dev/shm")
        return [Finding("shared memory", Status.FAIL, f"{free:.0f} of {whole:.0f} MiB free", expected, fix)]
    if dead:
        fix = "rm " + " ".join(f"/dev/shm/{p.name}" for p in dead)
        return [
            Finding(
                "shared memory",
                Status.WARN if free >= SHM_MIN_MIB else Status.FAIL,
                f"{free:.0f} MiB free, {len(dead)} files ({size:.0f} MiB) of dead processes",
                expected,
                fix,
            )
        ]
    return [ok("shared memory", f"{free:.0f} MiB free, nothing left behind", expected)]


def _larger_shared_memory(machine: Machine, mount: str) -> str:
    """A command as it can be typed; a container's is typed outside, for its size is fixed when it is made."""
    if any((machine.root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return "docker compose -f docker/sim.compose.yaml run --rm sim sim"
    return mount.format(size=f"{SHM_SIZE_MIB}m")


PROBES = (distribution, index, domain, discovery, middleware, transports, shared_memory)
