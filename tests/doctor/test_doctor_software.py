"""Versions that clash, messages that do not fit, models and their manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.doctor import graphics, software
from tether.doctor.finding import Status


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 9, 18), Status.FAIL), ((3, 10, 0), Status.OK), ((3, 13, 9), Status.OK), ((3, 14, 0), Status.FAIL)],
)
def test_python_outside_the_supported_versions_fails(make_machine, version, status) -> None:
    assert software.python_version(make_machine(), version)[0].status is status


@pytest.mark.parametrize(
    ("numpy", "ros_file", "status"),
    [
        ("2.4.6", "/opt/ros/jazzy/lib/python3.12/site-packages/rclpy/__init__.py", Status.FAIL),
        ("1.26.4", "/opt/ros/jazzy/lib/python3.12/site-packages/rclpy/__init__.py", Status.OK),
        ("2.4.6", "/somewhere/.venv/lib/python3.11/site-packages/rclpy/__init__.py", Status.OK),
        (None, "", Status.FAIL),
    ],
)
def test_numpy_2_beside_an_installed_jazzy_fails(make_machine, numpy, ros_file, status) -> None:
    (finding,) = software.numpy_and_ros(make_machine(), lambda name: numpy, lambda: ros_file)
    assert finding.status is status


@pytest.mark.parametrize(
    ("line", "version", "fault"),
    [
        ("mcap>=1.2", "1.6.0", None),
        ("mujoco<5,>=3.3", "5.0.0", "mujoco 5.0.0, needs <5"),
        ("mujoco<5,>=3.3", "3.2.7", "mujoco 3.2.7, needs >=3.3"),
        ("numpy>=1.26", "2", None),
        ("rosbags>=0.10.4", "0.10.10", None),
        ("xacro", None, "xacro is not installed"),
        ("pyyaml>=6.0", "6.0rc1", None),
        ("odd~=1.0", "1.0", "unreadable requirement 'odd~=1.0'"),
    ],
)
def test_requirement_is_compared_by_numbers(line, version, fault) -> None:
    assert software.misfit(line, lambda name: version) == fault


def test_all_unfit_packages_are_listed_at_once(make_machine) -> None:
    (finding,) = software.requirements(make_machine(), lambda name: "1.0", lambda: ["a>=2", "b>=1", "c<1"])
    assert finding.found == "a 1.0, needs >=2; c 1.0, needs <1"


def test_declared_requirements_hold_simulation_but_not_training() -> None:
    lines = software.declared_requirements()
    names = {line.split(">")[0].split("<")[0] for line in lines}
    assert {"numpy", "mcap", "mujoco"} <= names
    assert not {"torch", "pytest"} & names


@pytest.fixture
def message_folders(tmp_path: Path) -> tuple[Path, Path]:
    """Message files of a checkout, and those that were built."""
    ours, built = tmp_path / "msg", tmp_path / "venv/share/tether_msgs/msg"
    for folder in (ours, built):
        folder.mkdir(parents=True)
        (folder / "Decision.msg").write_text("uint64 id\n")
    return ours, built


def test_messages_built_from_other_sources_fail_by_name(make_machine, message_folders) -> None:
    ours, built = message_folders
    assert software.messages(make_machine(), lambda: ours)[0].status is Status.OK
    (built / "Decision.msg").write_text("uint32 id\n")
    (ours / "New.msg").write_text("bool x\n")
    (finding,) = software.messages(make_machine(), lambda: ours)
    assert finding.status is Status.FAIL
    assert finding.found == "differ: Decision.msg, New.msg"


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        (None, "no manifest.json"),
        ("{", "not JSON"),
        ("[]", "names no model_file"),
        ('{"model_file": "m.onnx"}', "or no sha256"),
        ('{"model_file": "m.onnx", "sha256": "0123"}', "manifest says 0123"),
        ('{"model_file": "other.onnx", "sha256": "0123"}', "no other.onnx"),
    ],
)
def test_model_without_a_fitting_manifest_fails(make_machine, tmp_path: Path, manifest, fault) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/m.onnx").write_bytes(b"model")
    if manifest is not None:
        (tmp_path / "mine/manifest.json").write_text(manifest)
    (finding,) = software.models(make_machine(), lambda: tmp_path)
    assert finding.status is Status.FAIL
    assert finding.found.startswith("mine: ")
    assert fault in finding.found


def test_models_that_ship_are_ok(make_machine) -> None:
    (finding,) = software.models(make_machine())
    assert (finding.status, finding.found) == (Status.OK, "4 with fitting manifests")


def test_gl_that_fails_shows_both_reasons_and_the_packages(make_machine) -> None:
    (finding,) = graphics.headless_gl(make_machine(), lambda: {"egl": "no libEGL", "osmesa": "no libOSMesa"})
    assert finding.status is Status.FAIL
    assert finding.found == "egl: no libEGL; osmesa: no libOSMesa"
    assert "libegl1" in finding.fix


def test_mujoco_gl_that_names_the_broken_way_fails_although_the_other_works(make_machine) -> None:
    machine = make_machine(environ={"MUJOCO_GL": "egl"})
    (finding,) = graphics.headless_gl(machine, lambda: {"egl": "no device", "osmesa": None})
    assert finding.status is Status.FAIL
    assert "osmesa" in finding.fix
