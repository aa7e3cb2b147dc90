"""Profiles and tasks that ship, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.world.profile import load_profile
from tether.world.task import load_task

PROFILES = sorted(p.stem for p in resource_path("config", "profiles").glob("*.yaml"))
TASKS = sorted(p.stem for p in resource_path("config", "tasks").glob("*.yaml"))


def _data(kind: str, name: str) -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load(resource_path("config", f"{kind}/{name}.yaml").read_text())
    return loaded


def _write(path: Path, data: object) -> Path:
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize("name", PROFILES)
def test_shipped_profile_loads_and_is_named_after_its_file(name: str) -> None:
    assert load_profile(resource_path("config", f"profiles/{name}.yaml")).name == name


@pytest.mark.parametrize("name", TASKS)
def test_shipped_task_loads_and_is_named_after_its_file(name: str) -> None:
    assert load_task(resource_path("config", f"tasks/{name}.yaml")).name == name


def test_real_is_the_profile_of_the_design() -> None:
    real = load_profile(resource_path("config", "profiles/real.yaml"))
    assert (real.camera.delay.latency_s, real.camera.delay.jitter_s) == (0.120, 0.020)
    assert real.imu.delay.latency_s + real.imu.delay.jitter_s <= 0.005
    assert real.actuation.dead_time_s + real.actuation.time_constant_s == pytest.approx(0.130)
    assert real.reward.delay.latency_s == 0.300


def test_hash_covers_every_number_but_not_the_words(tmp_path: Path) -> None:
    data = _data("profiles", "real")
    plain = load_profile(_write(tmp_path / "a.yaml", data))
    renamed = load_profile(_write(tmp_path / "b.yaml", {**data, "doc": "other words", "name": "mine"}))
    data["actuation"] = {**data["actuation"], "dead_time_s": 0.031}  # type: ignore[dict-item]
    slower = load_profile(_write(tmp_path / "c.yaml", data))
    assert plain.sha256 == renamed.sha256 != slower.sha256


def test_every_fault_of_a_profile_is_named_at_once(tmp_path: Path) -> None:
    data = _data("profiles", "real")
    data["camera"] = {**data["camera"], "width": 0, "shutter": 3}  # type: ignore[dict-item]
    data["imu"] = {**data["imu"], "gyro_noise_rad_s": "much"}  # type: ignore[dict-item]
    data["variation"] = {**data["variation"], "mass_scale": [1.5, 0.7]}  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError) as caught:
        load_profile(_write(tmp_path / "bad.yaml", data))
    text = str(caught.value)
    assert all(key in text for key in ("width", "shutter", "gyro_noise_rad_s", "mass_scale"))


def test_watchdog_cannot_be_switched_off_in_a_profile(tmp_path: Path) -> None:
    data = _data("profiles", "real")
    data["actuation"] = {**data["actuation"], "watchdog_s": 0.0}  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match="watchdog_s"):
        load_profile(_write(tmp_path / "bad.yaml", data))


def test_the_teachers_world_has_the_servos_of_real_and_the_sensors_of_ideal() -> None:
    ideal, lagged, real = (
        load_profile(resource_path("config", f"profiles/{name}.yaml")) for name in ("ideal", "ideal_lagged", "real")
    )
    assert lagged.actuation == real.actuation
    assert (lagged.camera, lagged.imu, lagged.joints) == (ideal.camera, ideal.imu, ideal.joints)


@pytest.mark.parametrize(
    ("part", "change", "named"),
    [
        ("success", {"hold_s": 5.0, "time_limit_s": 1.0}, "hold_s"),
        ("cube", {"x_m": [0.4, 0.1]}, "x_m"),
        ("cube", {"x_m": [0.4, 0.1], "side_m": -1.0}, "x_m"),
    ],
)
def test_task_that_cannot_be_is_refused(tmp_path: Path, part: str, change: dict[str, object], named: str) -> None:
    data = _data("tasks", "pick")
    data[part] = {**data[part], **change}  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match=named):
        load_task(_write(tmp_path / "bad.yaml", data))


def test_a_pair_upside_down_is_named_beside_a_neighbour_that_cannot_be_read(tmp_path: Path) -> None:
    data = _data("profiles", "real")
    data["variation"] = {**data["variation"], "mass_scale": [2, 1], "light_scale": [1]}  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError) as caught:
        load_profile(_write(tmp_path / "bad.yaml", data))
    assert {fault.where.rpartition(": ")[2] for fault in caught.value.faults} == {"mass_scale", "light_scale"}
