"""Nothing means "off" or "unlimited"; faults are reported together; documentation is made from what runs."""

from __future__ import annotations

import copy
import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from tether.config import parse
from tether.contracts import Mode, Primitive
from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.robot.model import RobotModel
from tether.safety import diagram, machine, supervisor
from tether.safety.bench import gate_cost
from tether.safety.gate_model import GateModel
from tether.safety.machine import TRANSITIONS, Event
from tether.safety.settings import CAN_BE_DISABLED, Check, Hardware, SafetySettings

DOCS = Path(__file__).resolve().parents[2] / "docs" / "safety.md"


@pytest.fixture
def plain() -> dict[str, Any]:
    """config/safety.yaml as plain data."""
    text = resource_path("config", "safety.yaml").read_text(encoding="utf-8")
    return copy.deepcopy(yaml.safe_load(text))


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict):
        return [leaf for key, value in data.items() for leaf in leaves(value, (*path, key))]
    return [path]


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def faults(data: Any) -> list[str]:
    try:
        parse(data, SafetySettings, "safety.yaml")
    except InvalidInputError as error:
        return [str(fault) for fault in error.faults]
    return []


def test_a_mode_that_lists_a_primitive_twice_is_refused(plain: dict[str, Any]) -> None:
    plain["modes"]["safe"]["primitives"] = ["HOLD"] * len(Primitive)
    plain["modes"]["slow"]["sources"] = ["student", "student"]
    found = faults(plain)
    assert len(found) == 2 and "modes: safe" in found[0] and "HOLD more than once" in found[0]
    assert "modes: slow" in found[1] and "STUDENT more than once" in found[1]


def test_shipped_settings_are_valid(plain: dict[str, Any]) -> None:
    assert faults(plain) == []


def test_every_value_must_be_there(plain: dict[str, Any]) -> None:
    free = {"keep_out_boxes", "keep_out_cylinders"}
    for path in leaves(plain):
        if set(path) & free and len(path) > 2:
            continue
        data = copy.deepcopy(plain)
        del at(data, path[:-1])[path[-1]]
        assert any(path[-1] in fault for fault in faults(data)), path


@pytest.mark.parametrize("value", [0, -1, None, "", [], ".inf", float("inf"), float("nan"), "off", False, 1e30])
def test_no_limit_takes_a_value_that_would_mean_off_or_unlimited(plain: dict[str, Any], value: Any) -> None:
    for path in leaves(plain):
        if path[0] in ("not_fitted", "disabled_checks") or "keep_out_boxes" in path:
            continue
        if not isinstance(at(plain, path), int | float) or path[-1] in ("future_max_ms",):
            continue
        if value in (0, -1) and path[-1] in ("x_m", "y_m", "low_m", "high_m"):
            continue
        data = copy.deepcopy(plain)
        at(data, path[:-1])[path[-1]] = value
        assert faults(data), (path, value)


def test_all_faults_are_reported_together(plain: dict[str, Any]) -> None:
    plain["base"]["linear_max_m_s"] = 0
    plain["ages"]["joints"]["silence_max_ms"] = "never"
    plain["surprise"] = 1
    del plain["gripper"]
    found = "\n".join(faults(plain))
    for word in ("linear_max_m_s", "silence_max_ms", "surprise", "gripper"):
        assert word in found


def test_jerk_too_small_to_brake_within_a_tick_is_refused(plain: dict[str, Any]) -> None:
    plain["joints"]["gripper"] = {"acceleration_max": 10, "jerk_max": 900}
    assert any("jerk_max" in fault for fault in faults(plain))


@pytest.mark.parametrize("check", sorted(set(Check) - CAN_BE_DISABLED))
def test_checks_that_always_hold_cannot_be_disabled(plain: dict[str, Any], check: Check) -> None:
    plain["disabled_checks"] = [check.value]
    assert any(check.value in fault for fault in faults(plain))


def test_disabled_checks_are_refused_on_a_physical_robot(robot: RobotModel, safety_settings: SafetySettings) -> None:
    off = dataclasses.replace(safety_settings, disabled_checks=(Check.WORKSPACE, Check.TILT))
    GateModel.build(robot, off, physical=False)
    with pytest.raises(InvalidInputError, match=r"workspace, tilt"):
        GateModel.build(robot, off, physical=True)
    with pytest.raises(InvalidInputError, match="imu"):
        GateModel.build(robot, safety_settings.lacking(Hardware.IMU), physical=True)


def test_what_is_not_watched_is_loud_in_the_log(make_rig: Any, caplog: Any) -> None:
    supervisor._say_once.cache_clear()  # it is said once in a process
    caplog.set_level(logging.WARNING)
    make_rig(Hardware.CAMERA, disabled_checks=(Check.WORKSPACE,))
    assert "camera" in caplog.text
    assert "DISABLED" in caplog.text and "workspace" in caplog.text


@pytest.mark.parametrize("check", sorted(CAN_BE_DISABLED))
def test_gate_runs_with_any_one_check_disabled(make_rig: Any, check: Check) -> None:
    rig = make_rig(disabled_checks=(check,))
    rig.auditor.feed = lambda *_: []
    rig.active()
    assert rig.run(5, [1.0, *rig.home[1:]]).mode is Mode.ACTIVE


def test_unknown_joints_and_links_are_named_together(robot: RobotModel, safety_settings: SafetySettings) -> None:
    joints = dict(safety_settings.joints)
    joints["tail"] = joints.pop("wrist_roll")
    workspace = dataclasses.replace(safety_settings.workspace, links=("tcp", "nose"))
    wrong = dataclasses.replace(safety_settings, joints=joints, workspace=workspace)
    with pytest.raises(InvalidInputError) as caught:
        GateModel.build(robot, wrong, physical=False)
    for word in ("tail", "wrist_roll", "nose"):
        assert word in str(caught.value)


def test_latched_stop_has_exactly_one_way_out() -> None:
    assert [(row.event, row.target) for row in TRANSITIONS if row.source is Mode.STOP] == [(Event.RESET, Mode.INIT)]


def test_every_mode_can_stop_and_no_automatic_event_leads_out_of_a_restricted_one() -> None:
    for mode in Mode:
        assert mode is Mode.STOP or machine.target(mode, Event.STOP) is Mode.STOP
    automatic = {(r.source, r.target) for r in TRANSITIONS if r.event in machine.AUTOMATIC}
    assert automatic == {(Mode.ARMED, Mode.ACTIVE), (Mode.ACTIVE, Mode.ARMED)}


def test_every_mode_can_be_reached_from_init_and_back() -> None:
    def reach(start: Mode) -> set[Mode]:
        seen, todo = {start}, [start]
        while todo:
            here = todo.pop()
            for row in TRANSITIONS:
                if row.source is here and row.target not in seen:
                    seen.add(row.target)
                    todo.append(row.target)
        return seen

    for mode in Mode:
        assert reach(mode) == set(Mode)


def test_documented_state_machine_is_the_one_that_runs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert diagram.updated(text) == text, "run: python -m tether.safety.diagram docs/safety.md"


def test_every_check_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    missing = [check.value for check in Check if f"`{check.value}`" not in text]
    assert not missing


def test_dot_names_every_mode_and_event() -> None:
    text = diagram.dot()
    assert all(mode.name in text for mode in Mode)
    assert all(event.value in text for event in Event)


def test_diagram_refuses_a_file_without_its_markers() -> None:
    with pytest.raises(InvalidInputError, match="markers"):
        diagram.updated("# nothing here")


def test_gate_cost_measures_every_load(rig: Any) -> None:
    metrics = gate_cost(rig.model, ticks=200)
    assert {"tracking_tick", "jumping_tick", "stopped_tick"} <= set(metrics)
    for metric in metrics.values():
        assert 0 < metric.min <= metric.p50 <= metric.p99 <= metric.max
        assert metric.unit == "us"
