"""Images, compose files and units: what they name exists, and what they must not grant is not granted."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
IMAGES = sorted(DOCKER.glob("*.Dockerfile"))
UNITS = sorted(DOCKER.glob("*.service"))


def compose(name: str) -> dict[str, Any]:
    data = yaml.safe_load((DOCKER / f"{name}.compose.yaml").read_text())
    assert isinstance(data, dict)
    return data


def instructions(path: Path) -> list[tuple[str, str]]:
    """(instruction, its arguments), continued lines joined."""
    text = re.sub(r"\\\n", " ", "\n".join(x for x in path.read_text().splitlines() if not x.lstrip().startswith("#")))
    return [(x.split(None, 1)[0], x.split(None, 1)[1]) for x in text.splitlines() if x.strip()]


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_image_is_built_from_the_locks_by_the_repositorys_own_set_up(path: Path) -> None:
    text = path.read_text()
    assert "sh scripts/setup" in text
    installed = re.findall(r"pip install ([^\n\\&]+)", text)
    assert all(re.search(r"-r (requirements|docker)/\w+\.txt", words) for words in installed)
    assert all((ROOT / name).is_file() for name in re.findall(r"-r ((?:requirements|docker)/\S+)", text))


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_image_runs_as_a_user_without_rights(path: Path) -> None:
    last = [arguments for name, arguments in instructions(path) if name == "USER"][-1]
    assert last == "10001:10001"


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_no_private_key_stays_in_an_image(path: Path) -> None:
    build = next(x for name, x in instructions(path) if name == "RUN" and "scripts/setup" in x)
    assert "TETHER_STATE=/tmp/state" in build
    assert re.search(r"rm -rf /tmp/state \S*machine_keys\.json", build)
    ignored = (path.parent / f"{path.name}.dockerignore").read_text()
    assert "machine_keys.json" in ignored
    assert "docker/keys/*.key" in ignored


@pytest.mark.parametrize("path", [*DOCKER.glob("drivers.txt"), *DOCKER.glob("tensorrt.txt")], ids=lambda p: p.name)
def test_every_package_is_pinned(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)


@pytest.mark.parametrize("name", ["sim", "robot"])
def test_service_can_write_nothing_of_its_image_and_gains_no_rights(name: str) -> None:
    for service in compose(name)["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert "cap_add" not in service


@pytest.mark.parametrize("name", ["sim", "robot"])
def test_service_names_an_image_and_a_target_that_exist(name: str) -> None:
    for service in compose(name)["services"].values():
        path = ROOT / service["build"]["dockerfile"]
        assert (DOCKER / service["build"]["context"]).resolve() == ROOT
        stages = re.findall(r"^FROM \S+ AS (\w+)$", path.read_text(), re.MULTILINE)
        assert service["build"].get("target", stages[-1]) in stages


def test_robot_may_open_its_buses_and_no_other_device() -> None:
    robot = compose("robot")["services"]["robot"]
    majors = {rule.split()[1].split(":")[0] for rule in robot["device_cgroup_rules"]}
    assert majors == {"188", "166", "204", "89", "81"}
    assert all(rule.startswith("c ") for rule in robot["device_cgroup_rules"])
    assert robot["user"] == "10001:10001"
    assert robot["ulimits"]["rtprio"] > 0


def test_robots_graph_gets_the_time_that_its_launch_file_takes_to_stop() -> None:
    assert int(compose("robot")["services"]["robot"]["stop_grace_period"].removesuffix("s")) > 50
    for unit in UNITS:
        stop = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
        assert stop is not None
        assert int(stop[1]) > 50


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_unit_is_one_that_systemd_understands(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    text = path.read_text().replace("/opt/tether/", f"{ROOT}/").replace("/usr/bin/docker", str(docker))
    unit = tmp_path / "tether.service"
    unit.write_text(re.sub(r"^(?:Requires=docker|EnvironmentFile).*\n", "", text, flags=re.MULTILINE))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert [line for line in done.stderr.splitlines() if "tether" in line] == []


def test_paths_that_the_units_and_images_name_are_in_the_repository() -> None:
    texts = [path.read_text() for path in (*UNITS, *IMAGES, *DOCKER.glob("*.yaml"))]
    named = {name for text in texts for name in re.findall(r"/opt/tether/((?:docker|docs|launch)/[\w./-]+)", text)}
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
