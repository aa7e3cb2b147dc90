"""Which ROS 2 is used, repaired CMake files, workspace packages and their links."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from setup_steps import ros
from setup_steps.core import Context, SetupError

MANIFEST = "<package format='3'><name>{name}</name><export><build_type>{kind}</build_type></export></package>"


def fake_ros(prefix: Path, python: str = "3.12") -> Path:
    """A folder that looks like an installed ROS 2."""
    (prefix / f"lib/python{python}/site-packages/rclpy").mkdir(parents=True)
    (prefix / "setup.bash").write_text(
        f"export AMENT_PREFIX_PATH={prefix}\nexport ROS_DISTRO=jazzy\n"
        f"export LD_LIBRARY_PATH={prefix}/lib\nexport PATH={prefix}/bin:$PATH\n"
    )
    return prefix


def test_wheels_are_used_when_asked_for_although_ros_is_sourced(tmp_path: Path) -> None:
    prefix = fake_ros(tmp_path / "jazzy")
    env = {"TETHER_ROS": "wheels", "ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": str(prefix)}
    assert ros.installed_ros(env) is None


def test_sourced_jazzy_is_used_also_below_an_overlay(tmp_path: Path) -> None:
    prefix = fake_ros(tmp_path / "jazzy")
    env = {"ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": f"{tmp_path / 'overlay'}:{prefix}"}
    assert ros.installed_ros(env) == prefix
    assert ros.python_of(prefix) == "3.12"


def test_another_distribution_is_not_taken_for_jazzy(tmp_path: Path) -> None:
    prefix = fake_ros(tmp_path / "humble", python="3.10")
    found = ros.installed_ros({"ROS_DISTRO": "humble", "AMENT_PREFIX_PATH": str(prefix)})
    assert found != prefix


def test_wrong_tether_ros_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"expected 'wheels' or a folder with setup\.bash"):
        ros.installed_ros({"TETHER_ROS": str(tmp_path)})


def test_sourcing_is_captured_as_lists_without_the_system_paths(tmp_path: Path) -> None:
    prefix = fake_ros(tmp_path / "jazzy")
    found = ros.sourced_environment(prefix)
    assert found["PATH"] == [f"{prefix}/bin"]
    assert found["LD_LIBRARY_PATH"] == [f"{prefix}/lib"]
    assert found["ROS_DISTRO"] == "jazzy"


@pytest.mark.parametrize("build", ["cp310-cp310", "cp313-cp313"])
@pytest.mark.parametrize("core", ["core", "_core"])
def test_cmake_files_are_pointed_at_this_venv_and_stay_so(build: str, core: str) -> None:
    version = f"3.{build[3:5]}"
    line = (
        'INTERFACE_INCLUDE_DIRECTORIES "${_IMPORT_PREFIX}/include/x;'
        f"/opt/python/{build}/include/python{version};"
        f'/opt/python/{build}/lib/python{version}/site-packages/numpy/{core}/include"'
    )
    once = ros.repoint(line, "/py/include", "/np/include")
    assert once == 'INTERFACE_INCLUDE_DIRECTORIES "${_IMPORT_PREFIX}/include/x;/py/include;/np/include"'
    assert ros.repoint(once, "/py/include", "/np/include") == once


def write_package(src: Path, name: str, kind: str, setup: str = "") -> Path:
    """A package of a workspace."""
    folder = src / name
    (folder / name).mkdir(parents=True)
    (folder / "package.xml").write_text(MANIFEST.format(name=name, kind=kind))
    (folder / "setup.py").write_text(setup)
    return folder


def test_manifest_without_build_type_is_named(tmp_path: Path) -> None:
    write_package(tmp_path, "odd", "cargo")
    with pytest.raises(SetupError, match=r"odd/package\.xml: expected <name> and <build_type> ament_cmake"):
        ros.ros_packages(tmp_path)


def test_broken_manifest_is_named(tmp_path: Path) -> None:
    write_package(tmp_path, "odd", "ament_python")
    (tmp_path / "odd/package.xml").write_text("<package>")
    with pytest.raises(SetupError, match=r"odd/package\.xml: not well-formed"):
        ros.ros_packages(tmp_path)


SETUP_PY = """
from setuptools import setup
setup(
    name="demo", version="0.1.0", packages=["demo"],
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/demo"]),
        ("share/demo", ["package.xml"]),
    ],
    entry_points={"console_scripts": ["talk = demo.talk:main"]},
)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Context:
    """A checkout with one node package and a bare stand-in for its venv that shares our interpreter."""
    folder = write_package(tmp_path / "ros2_ws/src", "demo", "ament_python", SETUP_PY)
    (folder / "resource").mkdir()
    (folder / "resource/demo").touch()
    (folder / "demo/__init__.py").touch()
    (folder / "demo/talk.py").write_text("def main():\n    print('hello')\n")
    ctx = Context(tmp_path, tmp_path / ".venv")
    ctx.keys["wheels"] = "k"
    (ctx.venv / "bin").mkdir(parents=True)
    ctx.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    ctx.python.chmod(0o755)
    (ctx.venv / "lib/python3.11/site-packages").mkdir(parents=True)
    return ctx


def test_node_package_is_found_by_index_and_its_executable_runs(workspace: Context) -> None:
    ros.link_nodes(workspace)
    venv = workspace.venv
    assert (venv / "share/ament_index/resource_index/packages/demo").is_symlink()
    assert (venv / "share/demo/package.xml").read_text() == MANIFEST.format(name="demo", kind="ament_python")
    (paths,) = (venv / "lib/python3.11/site-packages/_tether_nodes.pth").read_text().splitlines()
    env = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([venv / "lib/demo/talk"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "hello\n"


def test_removed_executable_does_not_stay_behind(workspace: Context) -> None:
    ros.link_nodes(workspace)
    setup = workspace.root / "ros2_ws/src/demo/setup.py"
    setup.write_text(SETUP_PY.replace("talk = ", "speak = "))
    ros.link_nodes(workspace)
    assert sorted(p.name for p in (workspace.venv / "lib/demo").iterdir()) == ["speak"]


def test_broken_package_is_named_and_the_others_are_linked(workspace: Context) -> None:
    write_package(workspace.root / "ros2_ws/src", "bad", "ament_python", "raise ValueError('no such folder')")
    with pytest.raises(SetupError, match=r"(?s)bad/setup.py cannot be evaluated.*no such folder"):
        ros.link_nodes(workspace)
    assert (workspace.venv / "lib/demo/talk").exists()
    assert not (workspace.state / "nodes.json").exists()


def test_missing_data_file_is_named(workspace: Context) -> None:
    (workspace.root / "ros2_ws/src/demo/resource/demo").unlink()
    with pytest.raises(SetupError, match=r"demo/setup.py: data file 'resource/demo' does not exist"):
        ros.link_nodes(workspace)


def test_executable_starts_also_below_a_folder_with_spaces(tmp_path: Path) -> None:
    python = tmp_path / "my robot" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    script = tmp_path / "talk"
    script.write_text(f"{ros.shebang(python)}\nimport sys\n\nprint(sys.argv[1:])\n")
    script.chmod(0o755)
    done = subprocess.run([script, "a b", "c"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "['a b', 'c']\n"


def test_activated_venv_with_the_wheels_is_no_installed_ros(tmp_path: Path) -> None:
    rclpy = tmp_path / "lib/python3.11/site-packages/rclpy"
    rclpy.mkdir(parents=True)
    (tmp_path / "setup.bash").touch()
    environ = {"ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": str(tmp_path)}
    assert ros.installed_ros(environ) == tmp_path
    (tmp_path / "pyvenv.cfg").touch()
    assert ros.installed_ros(environ) != tmp_path


def test_messages_are_built_on_all_cores_however_busy_they_are(tmp_path: Path) -> None:
    env = ros.build_env(Context(tmp_path, tmp_path / ".venv"))
    cores = str(len(os.sched_getaffinity(0)))
    assert env["MAKEFLAGS"] == f"-j{cores}", "with it colcon adds no -l, under which ninja waits for a low load"
    assert env["CMAKE_BUILD_PARALLEL_LEVEL"] == cores
