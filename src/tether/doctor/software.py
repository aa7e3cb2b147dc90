"""Python, packages whose versions clash, messages that do not fit, and models with their manifests."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tether.doctor.finding import Finding, Machine, Status, ok
from tether.errors import InvalidInputError
from tether.resources import resource_path

PYTHONS = ((3, 10), (3, 13))
DISTRIBUTION = "tether-robotics"
WITH_EXTRAS = ("sim",)
# ROS 2 Jazzy's own Debian packages are compiled against NumPy 1 and abort under NumPy 2.
NUMPY_1_ROS = "/opt/ros/"
_MANIFEST = "manifest.json"
Version = Callable[[str], "str | None"]


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def python_version(machine: Machine, version: tuple[int, ...] = sys.version_info[:3]) -> list[Finding]:
    """Python within the supported versions."""
    low, high = PYTHONS
    expected = f"Python {low[0]}.{low[1]} to {high[0]}.{high[1]}"
    found = ".".join(map(str, version))
    if low <= version[:2] <= high:
        return [ok("python", found, expected)]
    return [Finding("python", Status.FAIL, found, expected, "make setup PYTHON=python3.12")]


def numpy_and_ros(
    machine: Machine, version: Version = installed_version, ros_module: Callable[[], str] | None = None
) -> list[Finding]:
    """NumPy fits the ROS messages' compiled modules."""
    found = version("numpy")
    expected = "a NumPy that ROS's message modules were compiled for"
    if found is None:
        return [Finding("numpy", Status.FAIL, "not installed", expected, "make setup")]
    place = (ros_module or rclpy_file)()
    if place.startswith(NUMPY_1_ROS) and int(found.split(".")[0]) >= 2:
        fix = "pip uninstall numpy in this venv, or make clean setup (NumPy 1.26 beside an installed ROS 2)"
        return [Finding("numpy", Status.FAIL, f"{found} with ROS 2 from {NUMPY_1_ROS}", expected, fix)]
    return [ok("numpy", found, expected)]


def rclpy_file() -> str:
    """Where this Python finds rclpy, empty where it does not."""
    spec = find_spec("rclpy")
    return spec.origin or "" if spec else ""


def requirements(
    machine: Machine,
    version: Version = installed_version,
    wanted: Callable[[], Sequence[str]] | None = None,
) -> list[Finding]:
    """Every package that Tether needs is there in a version that it works with."""
    expected = "every required package in a fitting version"
    lines = (wanted or declared_requirements)()
    if not lines:
        fix = "make setup, or pip install 'tether-robotics[sim]'"
        return [Finding("packages of Python", Status.WARN, f"{DISTRIBUTION} is not installed", expected, fix)]
    faults = [fault for line in lines if (fault := misfit(line, version)) is not None]
    if faults:
        return [Finding("packages of Python", Status.FAIL, "; ".join(faults), expected, "make setup")]
    return [ok("packages of Python", f"{len(lines)} checked", expected)]


def declared_requirements() -> list[str]:
    """Requirement lines of the installed Tether, with the extras that simulation needs."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    marked = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
    out = []
    for line in lines:
        extra = marked.search(line)
        if extra is None or extra[1] in WITH_EXTRAS:
            out.append(line.split(";")[0].strip())
    return out


def misfit(line: str, version: Version) -> str | None:
    """What is wrong with a requirement of the form `name>=1.2,<3`, or None."""
    match = re.fullmatch(r"([\w.-]+)\s*(.*)", line)
    if match is None:
        return f"unreadable requirement '{line}'"
    name, clauses = match[1], [c.strip() for c in match[2].split(",") if c.strip()]
    found = version(name)
    if found is None:
        return f"{name} is not installed"
    for clause in clauses:
        limit = re.fullmatch(r"(>=|<)\s*([\d.]+)", clause)
        if limit is None:
            return f"unreadable requirement '{line}'"
        fits = numbers(found) >= numbers(limit[2]) if limit[1] == ">=" else numbers(found) < numbers(limit[2])
        if not fits:
            return f"{name} {found}, needs {clause}"
    return None


def numbers(version: str) -> tuple[int, ...]:
    """Leading numbers of a version, for comparing."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in match[0].split(".")] if match else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def messages(machine: Machine, source: Callable[[], Path] | None = None) -> list[Finding]:
    """The built tether_msgs was built from the .msg files that this library reads recordings with."""
    expected = "tether_msgs built from this checkout's .msg files"
    try:
        folder = source() if source is not None else resource_path("msg")
    except InvalidInputError as error:
        return [Finding("messages", Status.FAIL, str(error).splitlines()[-1].strip(), expected, "reinstall Tether")]
    prefixes = [
        machine.prefix,
        *map(Path, filter(None, machine.environ.get("AMENT_PREFIX_PATH", "").split(":"))),
    ]
    built = next((p for prefix in prefixes if (p := prefix / "share/tether_msgs/msg").is_dir()), None)
    if built is None:
        return [Finding("messages", Status.FAIL, "tether_msgs is not built", expected, "make setup")]
    ours, theirs = ({p.name: p.read_bytes() for p in f.glob("*.msg")} for f in (folder, built))
    differing = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
    if differing:
        return [Finding("messages", Status.FAIL, f"differ: {', '.join(differing)}", expected, "make setup")]
    return [ok("messages", f"{len(ours)} message types", expected)]


def models(machine: Machine, source: Callable[[], Path] | None = None) -> list[Finding]:
    """Each model has a manifest beside it, and the file is the one that the manifest names."""
    expected = "each model with its manifest, which names the file and its sha256"
    try:
        folder = source() if source is not None else resource_path("models")
    except InvalidInputError:
        return [ok("models", "none shipped; `scripted` and `classic` need none", expected)]
    models = sorted({path.parent for pattern in ("*.onnx", _MANIFEST) for path in folder.rglob(pattern)})
    faults = [f"{m.relative_to(folder)}: {fault}" for m in models if (fault := manifest_fault(m)) is not None]
    if faults:
        fix = "restore models/ from the release (git lfs pull where it is used)"
        return [Finding("models", Status.FAIL, "; ".join(faults), expected, fix)]
    return [ok("models", f"{len(models)} with fitting manifests", expected)]


def manifest_fault(folder: Path) -> str | None:
    """What is wrong with the manifest in a model's folder, or with the file that it names; or None."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except OSError:
        return f"no {_MANIFEST}"
    except (ValueError, RecursionError) as error:
        return f"{_MANIFEST} is not JSON ({error})"
    facts = manifest if isinstance(manifest, dict) else {}
    file, named = facts.get("model_file"), facts.get("sha256")
    if not isinstance(file, str) or not isinstance(named, str):
        return f"{_MANIFEST} names no model_file or no sha256"
    try:
        real = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    except OSError:
        return f"no {file}"
    return None if named == real else f"{file} has sha256 {real[:12]}…, manifest says {named[:12]}…"


PROBES = (python_version, numpy_and_ros, requirements, messages, models)
