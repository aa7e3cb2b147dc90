"""`tether launch`: telling files from packages, showing arguments and commands, exit status."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest

from tether.bags.writer import BagWriter
from tether.brief import brief
from tether.errors import InvalidInputError, TetherError
from tether.launch import cli
from tether.resources import resource_path


@pytest.fixture
def tether_launch(prefix, monkeypatch):
    """Run the command with the prefix as the only one; returns the exit status."""
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix.root))
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())

    def run(*words: str) -> int:
        arguments = parser.parse_args(["launch", *words])
        return int(arguments.run(arguments))

    return run


def test_show_args_needs_no_arguments_and_no_packages(prefix, tether_launch, capsys):
    body = """
    <arg name="bag" description="what to replay"/>
    <arg name="mode" default="realtime"><choice value="realtime"/><choice value="lockstep"/></arg>
    <node pkg="absent" exec="none" name="x"/>
    """
    assert tether_launch(str(prefix.launch_file(body)), "-s") == 0
    assert capsys.readouterr().out.splitlines() == [
        "bag: what to replay (must be given)",
        "mode: no description (default: 'realtime'; one of realtime, lockstep)",
    ]


def test_dry_run_shows_the_command_lines_and_starts_nothing(prefix, tether_launch, capsys):
    prefix.add("pkg", "node", "raise SystemExit(1)")
    body = """
    <set_env name="E" value="1"/>
    <node pkg="pkg" exec="node" name="n"><param name="rate" value="2.0"/></node>
    """
    assert tether_launch(str(prefix.launch_file(body)), "--dry-run") == 0
    line = f"[n] E=1 {prefix.root}/lib/pkg/node --ros-args -r __node:=n --params-file <rate: 2.0>"
    assert capsys.readouterr().out.strip() == line


def test_package_and_file_are_found_through_the_index(prefix, tether_launch, capsys):
    prefix.add("pkg", "node")
    folder = prefix.root / "share/pkg/launch"
    folder.mkdir()
    (folder / "a.launch.xml").write_text(
        '<launch><arg name="x"/><node pkg="pkg" exec="node" args="$(var x)"/></launch>'
    )
    assert tether_launch("pkg", "a.launch.xml", "x:=7", "--dry-run") == 0
    assert "lib/pkg/node 7 --ros-args" in capsys.readouterr().out
    with pytest.raises(TetherError, match=r"package 'pkg' has no file 'b\.launch\.xml'"):
        tether_launch("pkg", "b.launch.xml")
    with pytest.raises(TetherError, match="package 'absent' not found"):
        tether_launch("absent", "b.launch.xml")
    with pytest.raises(TetherError, match="there is no such file"):
        tether_launch("nowhere.launch.xml", "x:=1")


def test_file_found_twice_in_a_package_is_refused_with_both_places(prefix, tether_launch):
    prefix.add("pkg", "node")
    for folder in ("a", "b"):
        (prefix.root / "share/pkg" / folder).mkdir()
        (prefix.root / "share/pkg" / folder / "x.launch.xml").write_text("<launch/>")
    with pytest.raises(TetherError, match=r"2 times \(.*/a/x\.launch\.xml, .*/b/x\.launch\.xml\)"):
        tether_launch("pkg", "x.launch.xml")


def test_executable_without_permission_is_named(prefix, tether_launch):
    prefix.add("pkg", "node").chmod(0o644)
    file = prefix.launch_file('<node pkg="pkg" exec="node"/>')
    with pytest.raises(TetherError, match="is not executable"):
        tether_launch(str(file))


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (3, 1)])
def test_exit_status_tells_whether_a_process_failed(prefix, tether_launch, capsys, status: int, expected: int):
    prefix.add("pkg", "node", f"raise SystemExit({status})")
    file: Path = prefix.launch_file('<node pkg="pkg" exec="node" name="n"/>')
    assert tether_launch(str(file)) == expected
    assert ("process 'n'" in capsys.readouterr().err) is bool(expected)


def dry_run(file: str, *words: str) -> int:
    """Look at one of the repository's launch files with the nodes that make setup has linked."""
    pytest.importorskip("tether_msgs", reason="node packages are linked by make setup")
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["launch", str(resource_path("launch", f"{file}.launch.xml")), *words, "--dry-run"])
    return int(arguments.run(arguments))


@pytest.mark.parametrize("file", ["sim", "replay", "robot", "agent"])
@pytest.mark.parametrize("composed", ["true", "false"])
def test_all_that_a_launch_is_named_by_and_that_is_not_there_is_refused_before_anything_starts(
    file: str, composed: str
):
    words = ["task:=pik", "profile:=reel", "domain:=999"]
    words += ["bag:=/no/such/bag"] if file == "replay" else []
    words += [f"composed:={composed}"] if file != "agent" else []
    with pytest.raises(InvalidInputError, match=r"'pik'.*fetch, pick, pick_moving(.|\n)*'reel'") as raised:
        dry_run(file, *words)
    found = {fault.where: fault.found for fault in raised.value.faults}
    assert found["argument 'domain'"] == "'999'"
    assert ("/no/such/bag" in found) is (file == "replay")


def test_a_file_of_ones_own_with_our_gate_needs_none_of_our_arguments_and_those_it_has_are_looked_at(
    prefix, tether_launch
):
    prefix.add("tether_safety", "safety_supervisor")
    node = '<node pkg="tether_safety" exec="safety_supervisor"/>'
    assert tether_launch(str(prefix.launch_file(node)), "--dry-run") == 0
    with pytest.raises(InvalidInputError, match="'pik'"):
        tether_launch(str(prefix.launch_file(f'<arg name="task" default="pik"/>{node}')), "--dry-run")


@pytest.mark.parametrize("domain", ["102", "-1", "one", "1.5", " 5", "5 ", " ", "５", "1_0", "5" * 5000])
def test_domain_out_of_range_is_refused(prefix, tether_launch, monkeypatch, domain: str):
    prefix.add("pkg", "node")
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    node = '<node pkg="pkg" exec="node"/>'
    for name, body in (
        ("ROS_DOMAIN_ID", node),
        ("ROS_DOMAIN_ID", f'<set_env name="ROS_DOMAIN_ID" value="{domain}"/>{node}'),
        ("argument 'domain'", f'<arg name="domain" default="{domain}"/>{node}'),
    ):
        found = re.escape(brief(domain))
        with pytest.raises(InvalidInputError, match=f"{name}: found {found}, expected a whole number from 0 to 101"):
            tether_launch(str(prefix.launch_file(body)), "--dry-run")
    settled = f'<set_env name="ROS_DOMAIN_ID" value="101"/>{node}'
    assert tether_launch(str(prefix.launch_file(settled)), "--dry-run") == 0


def test_bag_that_is_none_is_refused_before_anything_starts(tmp_path: Path):
    for bag, why in ((tmp_path, "no file of a bag"), (Path(__file__), "text, beginning")):
        with pytest.raises(InvalidInputError, match=why):
            dry_run("replay", f"bag:={bag}")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInputError, match="no regular file"):
        dry_run("replay", f"bag:={tmp_path / 'pipe'}")


@pytest.mark.parametrize(
    ("file", "words", "expected"),
    [
        ("sim", ["episodes:=0"], {"episodes": "at least 1"}),
        ("sim", ["seed:=-1", "truth_age_ms:=-5"], {"seed": "at least 0", "truth_age_ms": "at least 0"}),
        ("sim", ["threads:=-4"], {"threads": "a whole number from 1"}),
        ("sim", ["threads:=many"], {"threads": "a whole number from 1"}),
        ("sim", ["policy:=classic", "truth_age_ms:=120"], {"truth_age_ms": "an oracle"}),
        ("sim", ["policy:=scripted", "truth_age_ms:=120"], {}),
        ("sim", ["policy:=classic", "truth_age_ms:=120", "arbiter:=oracle_teacher"], {}),
        ("sim", ["policy:=classic", "truth_age_ms:=0"], {}),
        ("robot", ["emulate:=true", "episodes:=0"], {"episodes": "at least 1"}),
        ("agent", ["seed:=-1"], {"seed": "at least 0"}),
        ("replay", ["rate:=0"], {"rate": "at least 0.1, at most 10"}),
        ("replay", ["rate:=nan", "start_s:=-1"], {"rate": "at least 0.1", "start_s": "at least 0"}),
        ("replay", ["rate:=0", "unpaced:=true"], {}),
    ],
)
def test_numbers_that_a_node_of_ours_would_refuse_are_refused_before_anything_starts(
    tmp_path: Path, file: str, words: list[str], expected: dict[str, str]
):
    if file == "replay":
        with BagWriter(tmp_path / "bag"):
            words = [*words, f"bag:={tmp_path / 'bag'}"]
    elif not any(word.startswith("policy:=") for word in words):
        words = [*words, "policy:=classic"]
    found: dict[str, str] = {}
    try:
        assert dry_run(file, *words) == 0
    except InvalidInputError as error:
        found = {fault.where.split("'")[1]: fault.expected for fault in error.faults}
    assert found.keys() == expected.keys()
    assert all(found[name].startswith(text) for name, text in expected.items())
