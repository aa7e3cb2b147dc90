"""Headless OpenGL: which of EGL and OSMesa draws here, found out by drawing a picture in a process of its own.

A wrong GL library can abort its process, and a failed attempt leaves PyOpenGL bound to the platform that failed, so
nothing is tried in this process. `python -m tether.world.gl` prints JSON: backend → null when it drew, else what went
wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import lru_cache
from typing import Any

from tether.errors import Fault, InvalidInputError

BACKENDS = ("egl", "osmesa")
"""Best first."""
DRAW = """
import os
import mujoco
model = mujoco.MjModel.from_xml_string(
    '<mujoco><visual><quality offsamples="0"/></visual>'
    '<worldbody><light pos="0 0 3"/><geom type="box" size=".2 .2 .2" rgba="1 0 0 1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 48, 64)
renderer.update_scene(data)
picture = renderer.render()
red = (picture[:, :, 0] > 60) & (picture[:, :, 1] < 30)
if red.mean() < 0.02:
    raise SystemExit('the picture of a red box has no red in it')
os._exit(0)  # it draws; how its library takes its leave does not matter
"""


def try_backend(backend: str, timeout_s: float = 60.0) -> str | None:
    """None when MuJoCo draws a picture this way, otherwise what stopped it."""
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    try:
        done = subprocess.run(
            [sys.executable, "-c", DRAW],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no picture after {timeout_s:g} s"
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    fault = next((line for line in lines if "Error" in line), lines[-1] if lines else "")
    return f"exit status {done.returncode}: {fault or 'no message'}"


def try_all() -> dict[str, str | None]:
    """Each backend with what stopped it, best first."""
    return {backend: try_backend(backend) for backend in BACKENDS}


@lru_cache(maxsize=1)
def choose_backend() -> str:
    """The backend that MUJOCO_GL names, or the first of BACKENDS that draws; raises with both reasons if none does."""
    wanted = os.environ.get("MUJOCO_GL", "")
    candidates = (wanted,) if wanted in BACKENDS else BACKENDS
    faults = []
    for backend in candidates:
        problem = try_backend(backend)
        if problem is None:
            return backend
        faults.append(Fault(f"GL backend {backend}", problem, "a context that draws"))
    raise InvalidInputError(
        "headless rendering", faults, "install libegl1 and libgl1-mesa-dri, or libosmesa6 (make setup does)"
    )


def make_context(width: int, height: int) -> Any:
    """An off-screen context of the chosen backend, made current in this thread."""
    backend = choose_backend()
    os.environ["MUJOCO_GL"] = backend
    context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
    context.make_current()
    return context


if __name__ == "__main__":
    sys.stdout.write(json.dumps(try_all()) + "\n")
