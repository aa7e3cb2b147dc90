"""The executable that stands for Isaac Lab's world: it hands over to another Python, or says what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

NODE = Path(__file__).parents[2] / "ros2_ws" / "src" / "tether_world" / "tether_world" / "isaac_world.py"
CALL = "import runpy, sys; sys.argv[0] = 'isaac_world'; runpy.run_path(sys.argv.pop(1))['main']()"


def start(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TETHER_ISAAC_PYTHON": str(python)}
    command = [sys.executable, "-c", CALL, str(NODE), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_without_isaac_lab_it_names_what_is_missing_and_the_fix(tmp_path: Path) -> None:
    done = start(tmp_path / "none" / "python")
    assert done.returncode == 2
    assert str(tmp_path / "none" / "python") in done.stderr
    assert "scripts/setup_isaac" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_becomes_the_other_python_with_the_node_and_every_argument_of_the_launch(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([os.getpid(), sys.argv[1:]]))\n")
    other.chmod(0o755)
    words = ["--ros-args", "-r", "__node:=world", "--params-file", "a file.yaml"]
    env = {**os.environ, "TETHER_ISAAC_PYTHON": str(other)}
    process = subprocess.Popen([sys.executable, "-c", CALL, str(NODE), *words], env=env, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(out) == [process.pid, ["-m", "tether_isaac.node", *words]], "one process from start to end"
