"""Who may talk into this robot's graph: DDS security, how far the graph is seen, and the key for calls."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from tether.doctor.finding import Finding, Machine, Status, ok
from tether.enclaves import load_policy
from tether.errors import InvalidInputError
from tether.safety.token import key_file, read_key

_LIBRARIES = ("libfastrtps.so", "libfastdds.so")
_MARK = b"dds.sec.auth.plugin"
"""The property by which a participant names its authentication plugin: only a build with security looks for it."""

_ENCLAVE_FILES = (
    *("identity_ca.cert.pem", "cert.pem", "key.pem"),
    *("permissions_ca.cert.pem", "governance.p7s", "permissions.p7s"),
)
"""What rmw_fastrtps reads of an enclave."""


def dds_security(machine: Machine) -> list[Finding]:
    """Was the installed Fast DDS built with security, is it on, and does the graph need it?"""
    expected = "security plugins in Fast DDS, and on, wherever others on the network see the graph"
    library = next(_libraries(machine), None)
    if library is None:
        return [Finding("dds security", Status.WARN, "no Fast DDS found", expected, "make setup")]
    has, asked = built_with_security(library), _is_on(machine)
    seen = machine.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "") in ("SUBNET", "SYSTEM_DEFAULT")
    found = f"{library.name} {'has it' if has else 'was built without it'}"
    if asked and not has:
        fix = "unset ROS_SECURITY_ENABLE, or use ROS 2's own packages (Ubuntu), whose Fast DDS has it"
        return [Finding("dds security", Status.FAIL, found, expected, fix)]
    if asked:
        return [ok("dds security", f"{found}, and it is on", expected)]
    if seen:
        way = "switch it on: docs/security.md" if has else "use ROS 2's own packages"
        fix = f"export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST (launch files do), or {way}"
        off = f"{found}, it is off" if has else found
        return [Finding("dds security", Status.WARN, f"{off}, and the network sees the graph", expected, fix)]
    return [ok("dds security", f"{found}; it is off; launch files bind to this machine", expected)]


def enclaves(machine: Machine) -> list[Finding]:
    """Where SROS 2 is on: is it enforced, and has the keystore all that the launch needs, for this user alone?"""
    if not _is_on(machine):
        return []
    expected = "ROS_SECURITY_STRATEGY=Enforce, and a keystore with every enclave of config/sros2/robot.policy.xml"
    if machine.environ.get("ROS_SECURITY_STRATEGY") != "Enforce":
        found = "without keys a node runs all the same, unprotected"
        return [Finding("enclaves", Status.FAIL, found, expected, "export ROS_SECURITY_STRATEGY=Enforce")]
    keystore = Path(machine.environ.get("ROS_SECURITY_KEYSTORE") or "none")
    wanted = [keystore / "enclaves" / path.strip("/") for path in load_policy()]
    lacking = [str(folder / name) for folder in wanted for name in _ENCLAVE_FILES if not (folder / name).is_file()]
    if lacking:
        fix = "ros2 security generate_artifacts -k KEYSTORE -p config/sros2/robot.policy.xml (docs/security.md)"
        return [Finding("enclaves", Status.FAIL, f"no {lacking[0]}, {len(lacking)} such", expected, fix)]
    open_keys = [str(folder / "key.pem") for folder in wanted if (folder / "key.pem").stat().st_mode & 0o077]
    if open_keys:
        fix = f"chmod -R go= {keystore}; make new keys if others have read them"
        return [Finding("enclaves", Status.FAIL, f"others may read {open_keys[0]}", expected, fix)]
    if list((keystore / "private").glob("*.key.pem")):
        found = f"{keystore}/private can make keys for anybody"
        return [Finding("enclaves", Status.WARN, found, expected, "keep private/ on the workstation, off the robot")]
    return [ok("enclaves", f"{len(wanted)} in {keystore}, enforced", expected)]


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


def _is_on(machine: Machine) -> bool:
    return machine.environ.get("ROS_SECURITY_ENABLE", "").lower() == "true"


def _libraries(machine: Machine) -> Iterator[Path]:
    folders = [machine.prefix / "lib"]
    folders += [Path(p) / "lib" for p in machine.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    for folder in folders:
        for name in _LIBRARIES:
            path = folder / name
            if path.is_file() and path.stat().st_size:
                yield path


PROBES = (dds_security, enclaves, call_key)
