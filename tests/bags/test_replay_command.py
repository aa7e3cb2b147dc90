"""`tether replay` as it is typed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from bag_making import BUILDERS, Row, data_file, write_mcap

from tether.bags import cli, open_bag
from tether.bags.player import Rate
from tether.errors import InvalidInputError
from tether.results import header

DATA = Path(__file__).parent.parent / "data" / "bags"


def replay(*words: str) -> int:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["replay", *words])
    return int(arguments.run(arguments))


def test_info_names_every_loss_for_people_and_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    assert replay(str(DATA / "amber_soccer"), "--info", "--json", str(out)) == 0
    text = capsys.readouterr().out
    for number in range(12):
        assert f"soccer_goal_{number}.mcap" in text
    assert "249 messages lost" in text and "2 messages readable" in text
    report = json.loads(out.read_text())
    head = header("replay --info", 0)
    assert {name: report[name] for name in head} == head
    assert report["complete"] and not report["intact"]
    assert (report["delivered"], report["lost_messages"]) == (2, 249)
    assert len(report["losses"]) == 12


def test_dry_run_plays_everything_and_says_how_late_it_was(
    tmp_path: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows)
    assert replay(str(path), "--dry-run", "--rate", "max", "--json", str(tmp_path / "r.json")) == 0
    assert f"played {len(rows)} messages" in capsys.readouterr().out
    report, head = json.loads((tmp_path / "r.json").read_text()), header("replay --dry-run", 0)
    assert {name: report[name] for name in head} == head
    assert report["played"]["messages"] == len(rows)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "20"], "rate"),
        (["--rate", "quick"], "rate"),
        (["--start", "-1"], "start"),
        (["--remap", "nonsense"], "--remap"),
        (["--remap", "/a:=/b", "--remap", "/a:=/c"], "twice"),
        (["--topics", "/nothing"], "no such topic"),
        (["--step"], "--step"),
        (["--loop"], "--loop"),
    ],
)
def test_wrong_arguments_are_refused_with_what_was_expected(
    words: list[str], said: str, tmp_path: Path, rows: list[Row]
) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows)
    with pytest.raises(InvalidInputError, match=said):
        replay(str(path), "--dry-run", *words)


@pytest.mark.parametrize("mode", ["--info", "--check"])
@pytest.mark.parametrize(
    "words",
    [
        ["--rate", "3"],
        ["--start", "1"],
        ["--loop"],
        ["--step"],
        ["--remap", "/joint_states:=/b"],
        ["--topics", "/joint_states"],
        ["--all-topics"],
        ["--clock-hz", "50"],
    ],
)
def test_what_would_change_nothing_is_refused(mode: str, words: list[str], tmp_path: Path, rows: list[Row]) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows)
    with pytest.raises(InvalidInputError, match=f"{words[0]}: found with {mode}, .* expected with {mode} only --json"):
        replay(str(path), mode, *words)


def test_all_that_would_change_nothing_is_named_with_what_applies(tmp_path: Path, rows: list[Row]) -> None:
    path = write_mcap(tmp_path / "x.mcap", rows)
    with pytest.raises(InvalidInputError) as refused:
        replay(str(path), "--dry-run", "--loop", "--step", "--all-topics", "--rate", "max")
    assert [fault.where for fault in refused.value.faults] == ["--loop", "--step", "--all-topics"]
    assert "--rate, --start, --remap, --topics, --clock-hz, --json" in refused.value.faults[0].expected


def test_what_is_no_bag_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "x.mcap").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="0 bytes"):
        replay(str(tmp_path / "x.mcap"), "--info")


@pytest.mark.parametrize("mode", ["--info", "--dry-run"])
@pytest.mark.parametrize("kind", ["rosbag2-mcap", "rosbag2-sqlite", "ros1-plain"])
def test_a_file_of_which_no_record_is_left_is_refused_whatever_its_kind(
    kind: str, mode: str, tmp_path: Path, rows: list[Row]
) -> None:
    file = data_file(BUILDERS[kind](tmp_path, rows))
    magic = {".mcap": 8, ".db3": 16, ".bag": 13}[file.suffix]
    whole = file.read_bytes()
    for size in (magic, magic + 3):
        file.write_bytes(whole[:size])
        with pytest.raises(InvalidInputError, match="nothing in it can be read"):
            replay(str(file), mode)


def test_the_node_is_told_everything_that_was_typed(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    words = ["replay", "b", "--rate", "max", "--start", "2", "--remap", "/a:=/b", "--topics", "/a", "/c", "--loop"]
    arguments = parser.parse_args(words)
    told = cli._parameters(arguments, cli._options(arguments))
    assert told["unpaced"] is True and told["start_s"] == 2.0 and told["loop"] is True and told["autostart"] is True
    assert told["command"] == header("replay", 0)["command"]
    assert told["remap"] == ["/a:=/b"] and told["topics"] == ["/a", "/c"] and told["all_topics"] is False


def test_how_long_playing_takes_at_the_rate_asked_for_is_said(tmp_path: Path, rows: list[Row]) -> None:
    last = rows[-1]
    apart = [*rows[:-1], (last[0], last[1], rows[0][2] + 86_400 * 10**9, last[3])]
    with open_bag(write_mcap(tmp_path / "x.mcap", apart)) as bag:
        assert "spans 86400.0 s, gaps included; at rate 2 that takes 43200.0 s" in cli._span(bag, Rate(2.0))
