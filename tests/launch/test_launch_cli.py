"""`tether launch`: telling files from packages, showing arguments and commands, exit status."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("file", ["sim", "replay", "robot", "agent"])
@pytest.mark.parametrize("composed", ["true", "false"])
def test_a_policy_task_or_profile_that_is_not_there_is_refused_before_anything_starts(file: str, composed: str):
    pytest.importorskip("tether_msgs", reason="node packages are linked by make setup")
    words = ["launch", str(resource_path("launch", f"{file}.launch.xml")), "task:=pik", "profile:=reel"]
    words += ["bag:=x"] if file == "replay" else []
    words += [f"composed:={composed}"] if file != "agent" else []
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    arguments = parser.parse_args([*words, "--dry-run"])
    with pytest.raises(InvalidInputError, match=r"'pik'.*fetch, pick, pick_moving(.|\n)*'reel'"):
        arguments.run(arguments)
