"""Who may talk into this robot's graph: DDS security, how far the graph is seen, and the key for calls."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from tether.doctor.finding import Finding, Machine, Status, ok
from tether.errors import InvalidInputError
from tether.safety.token import key_file, read_key

_LIBRARIES = ("libfastrtps.so", "libfastdds.so")
_MARK = b"dds.sec.auth.plugin"
"""The property by which a participant names its authentication plugin: only a build with security looks for it."""


def dds_security(machine: Machine) -> list[Finding]:
    """Was the installed Fast DDS built with security, is it asked for, and does the graph need it?"""
    expected = "security plugins in Fast DDS wherever others on the network see the graph"
    library = next(_libraries(machine), None)
    asked = machine.environ.get("ROS_SECURITY_ENABLE", "").lower() == "true"
    if library is None:
        return [Finding("dds security", Status.WARN, "no Fast DDS found", expected, "make setup")]
    if built_with_security(library):
        found = f"{library.name} has it; ROS_SECURITY_ENABLE={'true' if asked else 'not set'}"
        return [ok("dds security", found, expected)]
    if asked:
        fix = "unset ROS_SECURITY_ENABLE, or use ROS 2's own packages (Ubuntu), whose Fast DDS has it"
        return [Finding("dds security", Status.FAIL, f"{library.name} was built without it", expected, fix)]
    if machine.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "") in ("SUBNET", "SYSTEM_DEFAULT"):
        fix = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST (launch files do), or use ROS 2's own packages"
        found = f"{library.name} was built without it, and the network sees the graph"
        return [Finding("dds security", Status.WARN, found, expected, fix)]
    return [ok("dds security", f"{library.name} was built without it; launch files bind to this machine", expected)]


def call_key(machine: Machine) -> list[Finding]:
    """The key with which calls that reset or swap are signed: there or to be made, and nobody else's to read."""
    path = key_file()
    expected = "a file of mode 0600 that belongs to this user"
    if not path.exists():
        return [ok("call key", f"{path} is made at the first start", expected)]
    try:
        read_key(path)
    except InvalidInputError as error:
        found = "; ".join(f"{fault.where}: {fault.found}" for fault in error.faults)
        return [Finding("call key", Status.FAIL, found, expected, error.fix or f"rm {path}")]
    return [ok("call key", str(path), expected)]


def built_with_security(library: Path) -> bool:
    """Whether a Fast DDS library was built with SECURITY=ON, by what stands in its bytes."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(_MARK) >= 0


def _libraries(machine: Machine) -> Iterator[Path]:
    folders = [machine.prefix / "lib"]
    folders += [Path(p) / "lib" for p in machine.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    for folder in folders:
        for name in _LIBRARIES:
            path = folder / name
            if path.is_file() and path.stat().st_size:
                yield path


PROBES = (dds_security, call_key)
