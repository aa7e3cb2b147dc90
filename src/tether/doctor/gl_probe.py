"""Tries each headless GL way of MuJoCo by drawing a picture, every one in a process of its own.

A wrong GL library can abort the process or leave it without any GL, so nothing is tried in-process.
`python -m tether.doctor.gl_probe` prints JSON: way → null when it drew, else what went wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

BACKENDS = ("egl", "osmesa")
DRAW = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    '<mujoco><visual><quality offsamples="0"/></visual>'
    '<worldbody><light pos="0 0 3"/><geom type="box" size=".2 .2 .2" rgba="1 0 0 1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 48, 64) as renderer:
    renderer.update_scene(data)
    picture = renderer.render()
red = (picture[:, :, 0] > 60) & (picture[:, :, 1] < 30)
if red.mean() < 0.02:
    raise SystemExit('the picture of a red box has no red in it')
"""


def try_backend(backend: str, timeout_s: float = 60.0) -> str | None:
    """None when MuJoCo draws a picture this way, otherwise the last line of what went wrong."""
    env = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    try:
        done = subprocess.run(
            [sys.executable, "-c", DRAW],
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no picture after {timeout_s:.0f} s"
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    fault = next((line for line in lines if "Error" in line), lines[-1] if lines else "")
    return f"exit status {done.returncode}: {fault or 'no message'}"


def try_all(timeout_s: float = 60.0) -> dict[str, str | None]:
    """Each way with its fault, best first."""
    return {backend: try_backend(backend, timeout_s) for backend in BACKENDS}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(try_all()) + "\n")
