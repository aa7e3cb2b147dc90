"""Messages at times that /clock cannot carry, and topics whose names ROS does not allow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bag_making import Row, write_mcap
from test_replay_command import replay

from tether.bags import open_bag
from tether.bags.model import BagMessage
from tether.bags.playable import is_topic_name
from tether.bags.player import NullSink, Player, PlayOptions, Unpaced
from tether.errors import InvalidInputError


@pytest.mark.parametrize("name", ["", "/", "imu", "/imu/", "/a//b", "/1st", "/a b", "/a\n", "/a__b", "/imu\x1b[31m"])
def test_ros_does_not_allow_these_topic_names(name: str) -> None:
    assert not is_topic_name(name)
    assert is_topic_name("/imu/data_raw") and is_topic_name("/_a1")


def test_relative_names_are_played_from_the_root_as_ros_does(tmp_path: Path, rows: list[Row]) -> None:
    named = [("joint_states" if topic == "/joint_states" else topic, *row) for topic, *row in rows]
    taken = [("imu/data_raw" if i % 2 else topic, *row) for i, (topic, *row) in enumerate(named)]

    def play(given: list[Row], remap: dict[str, str]) -> tuple[Counter[str], int]:
        class Names(NullSink):
            def message(self, topic: str, message: BagMessage) -> None:
                names[topic] += 1

        names: Counter[str] = Counter()
        with open_bag(write_mcap(tmp_path / "x.mcap", given)) as bag:
            left_out = Player(bag, Names(), PlayOptions(pace=Unpaced(), remap=remap)).play().left_out
        return names, left_out

    assert play(named, {}) == ({"/imu/data_raw": 80, "/joint_states": 40}, 0)
    assert play(named, {"joint_states": "/j"})[0]["/j"] == 40
    # Where the bag has both names, they stay apart.
    assert play([r for r in taken if r[1].endswith("Imu")], {}) == ({"/imu/data_raw": 40}, 40)


def test_messages_that_the_clock_cannot_carry_are_left_out_counted_and_noted(tmp_path: Path, rows: list[Row]) -> None:
    odd = [(topic, type_, 2**64 - 1 - i if i % 2 else time, data) for i, (topic, type_, time, data) in enumerate(rows)]
    with open_bag(write_mcap(tmp_path / "x.mcap", odd)) as bag:
        result = Player(bag, NullSink(), PlayOptions(pace=Unpaced())).play()
    assert (result.messages, result.left_out) == (len(rows) // 2, len(rows) // 2)
    assert any("/clock cannot carry" in note for note in result.report.notes)


@pytest.mark.parametrize("name", ["", "/imu\x1b[31m\nlost nothing\r"])
def test_a_topic_that_is_no_ros_name_is_noted_with_its_control_characters_escaped(
    name: str, tmp_path: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_mcap(
        tmp_path / "x.mcap", [(name if topic == "/joint_states" else topic, *row) for topic, *row in rows]
    )
    assert replay(str(path), "--info") == 0
    said = capsys.readouterr().out
    assert "is no topic name in ROS; its 40 messages are read, but not played" in said
    assert "\x1b" not in said and "\nlost nothing" not in said


def test_a_bag_whose_only_topic_is_no_ros_name_is_refused_by_name(tmp_path: Path, rows: list[Row]) -> None:
    path = write_mcap(tmp_path / "x.mcap", [("", *row) for topic, *row in rows if topic == "/joint_states"])
    with pytest.raises(InvalidInputError, match="--remap"):
        replay(str(path))


@pytest.mark.parametrize("words", [["--rate", "20"], ["--start", "-1"]])
def test_wrong_arguments_are_refused_with_info_too(words: list[str], tmp_path: Path, rows: list[Row]) -> None:
    with pytest.raises(InvalidInputError):
        replay(str(write_mcap(tmp_path / "x.mcap", rows)), "--info", *words)
