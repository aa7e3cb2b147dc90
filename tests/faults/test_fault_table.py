"""The table of faults, the journal, the order of work, and the figures."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import pytest

from tether.cli import main
from tether.errors import InvalidInputError
from tether.faults import cli as faults_cli
from tether.faults.campaign import Campaign, schedule
from tether.faults.journal import FaultJournal, GraphLife, Injection
from tether.faults.result import as_json, as_table
from tether.faults.table import End, Group, Recovery, load_faults

BAR_MS = {Group.COMMAND_LOSS: 100.0, Group.SENSOR_LOSS: 300.0}


def made(fault: str = "policy_frozen", stop_ms: float | None = 80.0, **other: object) -> Injection:
    values: dict[str, object] = {
        "fault": fault,
        "end": End.HOLD,
        "stop_ms": stop_ms,
        "standstill_ms": 500.0,
        "still_ms": 420.0,
        "gate_ms": None,
        "gap_ms": None,
        "why": "",
        "recovery_s": 0.1,
        "said": True,
        "blind": False,
        "safe": True,
        "unsafe": (),
        "lost": 0,
    }
    return Injection(**{**values, **other})  # type: ignore[arg-type]


def test_shipped_table_holds_the_bars_and_enough_of_each_class_in_few_rounds() -> None:
    faults = load_faults().faults
    for group, bar_ms in BAR_MS.items():
        of_group = [spec for spec in faults.values() if spec.group is group]
        assert {spec.stop_max_ms for spec in of_group} == {bar_ms}
        assert all(spec.must_stop for spec in of_group)
        assert sum(spec.repeat for spec in of_group) * 15 >= 300


def test_all_that_is_wrong_with_a_table_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(
        "faults:\n"
        "  a: {group: command_loss, action: kill, target: nobody, ends: [], recovery: restart}\n"
        "  b: {group: timing, action: wire, target: /joint_states, ends: [undriven], recovery: automatic}\n"
        "not_run: {}\n"
    )
    with pytest.raises(InvalidInputError) as caught:
        load_faults(path)
    text = str(caught.value)
    for word in ("nobody", "stop_max_ms", "effect", "one or more, none of them undriven"):
        assert word in text


def test_what_stands_beside_a_fault_must_exist_and_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    one = "{group: control, action: nothing, ends: [moves], recovery: automatic"
    path.write_text(f"faults:\n  a: {one}, beside: b}}\n  b: {one}, beside: c}}\nnot_run: {{}}\n")
    with pytest.raises(InvalidInputError, match="beside"):
        load_faults(path)


def test_faults_that_end_a_graph_come_last_and_what_is_done_is_not_done_again() -> None:
    faults = load_faults().faults
    order = list(schedule(faults, 1, Counter()))
    ends = [faults[name].recovery is Recovery.RESTART for name in order]
    assert ends == sorted(ends)
    assert Counter(order) == {name: spec.repeat for name, spec in faults.items()}
    left = list(schedule(faults, 2, Counter({"policy_frozen": 4, "nothing": 1}), ["policy_frozen", "nothing"]))
    assert Counter(left) == {"policy_frozen": 2 * faults["policy_frozen"].repeat - 4, "nothing": 1}


def test_journal_goes_on_after_a_torn_line_and_leaves_another_campaigns_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = FaultJournal(path, {"seed": 1})
    assert journal.read() == ([], [])
    injections = [made(), made("camera_absent", None, end=End.UNDRIVEN, unsafe=("a", "b"), safe=False)]
    for one in injections:
        journal.append(one)
    with path.open("a") as file:
        file.write('{"fault": "pol')
    assert journal.read() == (injections, [])
    journal.append(made("imu_absent"))
    journal.append(GraphLife(commands=7, unsafe=1))
    assert journal.read() == ([*injections, made("imu_absent")], [GraphLife(commands=7, unsafe=1)])
    assert FaultJournal(path, {"seed": 2}).read() == ([], [])
    assert (tmp_path / "journal.old").exists()


def test_figures_count_what_is_late_what_came_back_and_what_is_unsafe() -> None:
    table = load_faults()
    campaign = Campaign(table, "classic", "pick", 3, on_result=lambda one: None, on_life=lambda life: None)
    ones = [
        made(stop_ms=90.0),
        made(stop_ms=101.0, recovery_s=3.5),
        made(stop_ms=None, standstill_ms=None, still_ms=None, recovery_s=None, end=End.MOVES, safe=False),
        made("executor_killed", 70.0, recovery_s=None, unsafe=("a joint too fast",), safe=False, lost=2),
    ]
    lives = [GraphLife(commands=1000, lost=1), GraphLife(commands=500, unsafe=2, discarded=3)]
    result = as_json(campaign, ones, lives, rounds=1)
    json.dumps(result, allow_nan=False)
    assert (result["injections"], result["safe"], result["unsafe_commands"], result["lost_records"]) == (4, 2, 3, 3)
    assert (result["judged_commands"], result["graphs"], result["discarded"]) == (1500, 2, 3)
    row = result["per_fault"]["policy_frozen"]
    assert row["class"] == "command_loss"
    assert (row["n"], row["late"], row["recovered"], row["to_recover"]) == (3, 2, 1, 3)
    assert row["stop_ms_max"] == 101.0
    assert result["per_fault"]["executor_killed"]["to_recover"] == 0
    assert result["per_class"]["command_loss"]["n"] == 4
    assert set(result["not_run"]) == set(table.not_run)
    assert "policy_frozen" in as_table(result)


def test_unknown_faults_are_refused_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["faults", "--json", str(tmp_path / "out.json"), "--only", "policy_frozen", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_injections_under_other_limits_of_the_gate_are_none_of_this_campaign(tmp_path: Path) -> None:
    arguments = argparse.Namespace(only=[], policy="classic", task="pick_moving", seed=0)
    keys = [faults_cli._key(arguments, "table", f"command_max_ms: {limit}".encode()) for limit in (80, 60)]
    FaultJournal(tmp_path / "j", keys[0]).append(made())
    assert len(FaultJournal(tmp_path / "j", keys[0]).read()[0]) == 1
    assert FaultJournal(tmp_path / "j", keys[1]).read()[0] == []
