"""Headless GL, which draws the simulated camera's pictures."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from tether.doctor.finding import Finding, Machine, Status, ok
from tether.world.gl import try_all


def headless_gl(machine: Machine, attempt: Callable[[], dict[str, str | None]] = try_all) -> list[Finding]:
    """Tries to draw by EGL and by OSMesa."""
    expected = "EGL or OSMesa draws a picture"
    if find_spec("mujoco") is None:
        fix = "pip install 'tether-robotics[sim]' (a robot needs none)"
        return [Finding("gl", Status.WARN, "mujoco is not installed", expected, fix)]
    tried = attempt()
    works = [name for name, fault in tried.items() if fault is None]
    asked = machine.environ.get("MUJOCO_GL", "")
    if asked in tried and asked not in works and works:
        fix = f"unset MUJOCO_GL, or set it to {works[0]}"
        return [Finding("gl", Status.FAIL, f"MUJOCO_GL={asked}, which fails: {tried[asked]}", expected, fix)]
    if works:
        return [ok("gl", f"draws by {' and '.join(works)}", expected)]
    found = "; ".join(f"{name}: {fault}" for name, fault in tried.items())
    fix = "sudo apt-get update && sudo apt-get install -y libegl1 libgl1 libgl1-mesa-dri libosmesa6"
    return [Finding("gl", Status.FAIL, found, expected, fix)]


PROBES = (headless_gl,)
