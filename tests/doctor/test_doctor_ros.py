"""ROS environment findings."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tether.doctor import ros
from tether.doctor.finding import Status


def test_another_distribution_sourced_in_the_shell_fails(make_machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros, "find_spec", lambda name: object())
    (finding,) = ros.distribution(make_machine(environ={"ROS_DISTRO": "humble"}))
    assert finding.status is Status.FAIL
    assert "humble" in finding.found


def test_no_ros_is_a_finding_not_a_crash(make_machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ros, "find_spec", lambda name: None)
    (finding,) = ros.distribution(make_machine())
    assert finding.status is Status.FAIL
    assert "make setup" in finding.fix


def test_two_copies_of_rclpy_are_both_named(make_machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "rclpy").mkdir(parents=True)
        (tmp_path / name / "rclpy/__init__.py").touch()
    monkeypatch.setattr(ros, "find_spec", lambda name: object())
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "one")])
    (finding,) = ros.distribution(make_machine())
    assert finding.status is Status.FAIL
    assert finding.found == f"rclpy in {tmp_path / 'one'} and in {tmp_path / 'two'}"


def test_unbuilt_workspace_is_named_by_package(make_machine, tmp_path: Path) -> None:
    marker = tmp_path / "p/share/ament_index/resource_index/packages"
    marker.mkdir(parents=True)
    (marker / "tether_bringup").touch()
    (finding,) = ros.index(make_machine(environ={"AMENT_PREFIX_PATH": str(tmp_path / "p")}))
    assert finding.status is Status.FAIL
    assert "no tether_msgs" in finding.found
    assert "tether_bringup" not in finding.found


def test_removed_workspace_in_the_path_warns(make_machine, tmp_path: Path) -> None:
    marker = tmp_path / "p/share/ament_index/resource_index/packages"
    marker.mkdir(parents=True)
    for name in ("tether_bringup", "tether_msgs"):
        (marker / name).touch()
    path = f"{tmp_path / 'gone'}:{tmp_path / 'p'}"
    (finding,) = ros.index(make_machine(environ={"AMENT_PREFIX_PATH": path}))
    assert finding.status is Status.WARN
    assert "gone" in finding.found


@pytest.mark.parametrize("value", ["-1", "102", "abc", "7 ", " 7", "7\n", "²", "５", "5" * 5000])
def test_impossible_domain_fails(make_machine, value: str) -> None:
    assert ros.domain(make_machine(environ={"ROS_DOMAIN_ID": value}))[0].status is Status.FAIL


@pytest.mark.parametrize("value", ["", "0", "101"])
def test_possible_domain_is_ok(make_machine, value: str) -> None:
    assert ros.domain(make_machine(environ={"ROS_DOMAIN_ID": value}))[0].status is Status.OK


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({}, Status.OK),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}, Status.OK),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}, Status.FAIL),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "localhost"}, Status.FAIL),
        ({"ROS_LOCALHOST_ONLY": "1"}, Status.WARN),
    ],
)
def test_discovery_settings_that_hide_nodes_are_found(make_machine, environ, status) -> None:
    assert ros.discovery(make_machine(environ=environ))[0].status is status


def test_middleware_that_is_not_installed_fails(make_machine) -> None:
    (finding,) = ros.middleware(make_machine(environ={"RMW_IMPLEMENTATION": "rmw_zenoh_cpp"}))
    assert finding.status is Status.FAIL
    assert finding.fix == "unset RMW_IMPLEMENTATION"


def test_other_middleware_that_is_installed_warns(make_machine, tmp_path: Path) -> None:
    (tmp_path / "p/lib").mkdir(parents=True)
    (tmp_path / "p/lib/librmw_cyclonedds_cpp.so").touch()
    environ = {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp", "AMENT_PREFIX_PATH": str(tmp_path / "p")}
    assert ros.middleware(make_machine(environ=environ))[0].status is Status.WARN


def test_missing_dds_profile_fails_since_it_would_be_ignored_in_silence(make_machine, tmp_path: Path) -> None:
    machine = make_machine(environ={"FASTDDS_DEFAULT_PROFILES_FILE": str(tmp_path / "none.xml")})
    (finding,) = ros.transports(machine)
    assert finding.status is Status.FAIL
    assert "none.xml does not exist" in finding.found


def test_small_socket_buffer_warns(make_machine) -> None:
    (finding,) = ros.transports(make_machine({"proc/sys/net/core/rmem_max": "212992"}))
    assert finding.status is Status.WARN
    assert "0.2 MiB" in finding.found
    assert shlex.split(finding.fix, comments=True) == ["sudo", "sysctl", "-w", "net.core.rmem_max=4194304"]


PLENTY = (2**30, 0, 2**30)


def test_files_of_dead_processes_in_shared_memory_are_counted(make_machine) -> None:
    machine = make_machine({"dev/shm/fastrtps_0123456789abcdef": "x"})
    (finding,) = ros.shared_memory(machine, usage=lambda path: PLENTY)
    assert finding.status is Status.WARN
    assert "1 files" in finding.found
    assert finding.fix == "rm /dev/shm/fastrtps_0123456789abcdef"


def test_all_files_of_dead_processes_are_in_the_command_that_removes_them(make_machine) -> None:
    names = [f"dev/shm/fastrtps_{number:016x}" for number in range(7)]
    (finding,) = ros.shared_memory(make_machine(dict.fromkeys(names, "x")), usage=lambda path: PLENTY)
    assert finding.fix == " ".join(["rm", *(f"/{name}" for name in names)])


def test_tiny_shared_memory_of_a_container_fails(make_machine) -> None:
    machine = make_machine({"dev/shm/other": ""})
    (finding,) = ros.shared_memory(machine, usage=lambda path: (2**26, 0, 2**20))
    assert finding.status is Status.FAIL
    assert "1 of 64 MiB free" in finding.found


@pytest.mark.parametrize(
    ("files", "size_mib", "typed"),
    [
        (["dev/shm/other"], 64, "sudo mount -o remount,size=256m /dev/shm"),
        (["dev/shm/other"], 4096, "ls -lS /dev/shm"),
        ([], 0, "sudo mount --mkdir -t tmpfs -o mode=1777,size=256m tmpfs /dev/shm"),
        (["dev/shm/other", ".dockerenv"], 64, "docker compose -f docker/sim.compose.yaml run --rm sim sim"),
        (["run/.containerenv"], 0, "docker compose -f docker/sim.compose.yaml run --rm sim sim"),
    ],
)
def test_what_makes_room_in_shared_memory_can_be_typed_as_it_stands(
    make_machine, files: list[str], size_mib: int, typed: str
) -> None:
    machine = make_machine(dict.fromkeys(files, ""))
    (finding,) = ros.shared_memory(machine, usage=lambda path: (size_mib * 2**20, 0, 2**20))
    assert finding.fix == typed


def test_files_of_dead_processes_are_named_where_they_are_what_fills_shared_memory(make_machine) -> None:
    machine = make_machine({"dev/shm/fastrtps_0123456789abcdef": "x" * 2**20})
    nearly = (2**26 - 2**19, 0, 2**26 - 2**19)
    (finding,) = ros.shared_memory(machine, usage=lambda path: nearly)
    assert (finding.status, finding.fix) == (Status.FAIL, "rm /dev/shm/fastrtps_0123456789abcdef")
