"""Headless OpenGL: which of EGL and OSMesa works here, found out by trying it in a process of its own.

A failed attempt leaves PyOpenGL bound to the platform that failed, so it must not happen in this process.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import lru_cache
from typing import Any

from tether.errors import Fault, InvalidInputError

BACKENDS = ("egl", "osmesa")
_PROBE_S = 60.0
_PROBE = """
import sys, mujoco
from importlib import import_module
context = import_module("mujoco." + sys.argv[1]).GLContext(64, 64)
context.make_current()
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
sys.stdout.write("works")
sys.stdout.flush()
import os
os._exit(0)
"""


@lru_cache(maxsize=1)
def choose_backend() -> str:
    """The backend that MUJOCO_GL names, or the first of BACKENDS that draws; raises with both reasons if none does."""
    wanted = os.environ.get("MUJOCO_GL", "")
    candidates = (wanted,) if wanted in BACKENDS else BACKENDS
    faults = []
    for backend in candidates:
        problem = _try(backend)
        if problem is None:
            return backend
        faults.append(Fault(f"GL backend {backend}", problem, "a context that draws"))
    raise InvalidInputError(
        "headless rendering", faults, "install libegl1 and libgl1-mesa-dri, or libosmesa6 (make setup does)"
    )


def _try(backend: str) -> str | None:
    """None if `backend` draws, else what stopped it."""
    environment = {**os.environ, "MUJOCO_GL": backend}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, backend],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PROBE_S:g} s"
    if done.stdout == "works":
        return None
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"


def make_context(width: int, height: int) -> Any:
    """An off-screen context of the chosen backend, made current in this thread."""
    backend = choose_backend()
    os.environ["MUJOCO_GL"] = backend
    context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
    context.make_current()
    return context
