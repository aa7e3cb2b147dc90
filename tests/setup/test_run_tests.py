"""`scripts/run_tests`, which `make test` calls, on small folders of tests: no failure is lost between its two runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = """[tool.pytest.ini_options]
markers = ["realtime: alone"]
addopts = "--strict-markers -p xdist -p no:cacheprovider"
"""
BESIDE = "def test_beside(): assert {}\n"
ALONE = """
import os, pytest
@pytest.mark.realtime
def test_alone(): assert "PYTEST_XDIST_WORKER" not in os.environ and {}
"""


@pytest.mark.parametrize(
    ("beside", "alone", "picked", "status"),
    [
        (True, True, "tests", 0),
        (False, True, "tests", 1),
        (True, False, "tests", 1),
        (False, True, "tests/test_alone.py", 0),
        (True, True, "tests/test_none.py", 5),
    ],
)
def test_it_fails_where_a_test_of_either_kind_fails_or_none_is_found(
    beside: bool, alone: bool, picked: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/run_tests", tmp_path / "scripts")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_beside.py").write_text(BESIDE.format(beside))
    (tests / "test_alone.py").write_text(ALONE.format(alone))
    (tests / "test_none.py").touch()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # ROS brings a dozen
    done = subprocess.run(
        ["sh", "scripts/run_tests", picked],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
