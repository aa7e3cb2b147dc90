"""Resources are found from a checkout and from an installed wheel, and missing ones are named."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tether.errors import InvalidInputError
from tether.resources import resource_path

ROOT = Path(__file__).resolve().parents[2]


def test_checkout_serves_its_own_folders() -> None:
    assert resource_path("config") == ROOT / "config"
    assert resource_path("msg", "Decision.msg").read_text().strip()


def test_missing_resource_is_refused_naming_every_place_looked_at() -> None:
    with pytest.raises(InvalidInputError) as caught:
        resource_path("urdf", "no_such_robot.xacro")
    text = str(caught.value)
    assert str(ROOT / "urdf" / "no_such_robot.xacro") in text
    assert "share/urdf/no_such_robot.xacro" in text


def test_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"config, urdf, models, launch, msg"):
        resource_path("recipes")


@pytest.mark.parametrize("name", ["../pyproject.toml", "/etc/hostname", "a/../../b"])
def test_name_outside_its_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="a path below config"):
        resource_path("config", name)


@pytest.mark.slow
def test_installed_wheel_serves_the_same_files(tmp_path: Path) -> None:
    source = tmp_path / "source"
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("src", "config", "urdf", "launch", "ros2_ws/src/tether_msgs"):
        shutil.copytree(ROOT / folder, source / folder, ignore=skip)
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*command, str(source)], check=True, timeout=300, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    ask = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tether.resources import resource_path as r; "
        "import tether; assert tether.__file__.startswith(sys.argv[1]); "
        "print(r('config', 'skills.yaml').read_text(), r('msg', 'Decision.msg').read_text(), sep='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, str(site)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    expected = (ROOT / "config/skills.yaml").read_text() + (
        ROOT / "ros2_ws/src/tether_msgs/msg/Decision.msg"
    ).read_text()
    assert done.stdout == expected + "\n"
