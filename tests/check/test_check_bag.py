"""The check of a recording: identical as it is; changed, it names the first step that used what was changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tether import topics
from tether.bags.reader import open_bag
from tether.bags.writer import BagWriter
from tether.check import Difference, check_bag
from tether.cli import main
from tether.codec import convert, decode, encode, sensors
from tether.contracts import SampleRef, Stream
from tether.errors import InvalidInputError
from tether.event_kinds import RUN_CONFIG
from tether.topics import Topic

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(400)]

STAGES = {"fusion", "policy", "opd_bridge", "primitive_executor", "safety_supervisor"}
Change = Callable[[Topic, Any], Any]
"""Topic and message → the message to record instead, None to leave it out."""


class Rewriter:
    """Copies of the recorded run with one thing changed."""

    def __init__(self, bag: Path, folder: Path) -> None:
        self.bag = bag
        self._folder = folder
        self._topics = {topic.name: topic for topic in topics.RECORDED}
        with open_bag(bag) as reader:
            self._rows = [(self._topics[m.topic], m.raw, m.log_time_ns) for m in reader.messages()]

    def messages(self, topic: Topic) -> list[Any]:
        return [decode(raw, topic.type) for kind, raw, _ in self._rows if kind is topic]

    def written(self, change: Change | None = None, order: random.Random | None = None) -> Path:
        rows = []
        for topic, raw, time_ns in self._rows:
            if change is None:
                rows.append((topic, raw, time_ns))
                continue
            msg = change(topic, decode(bytearray(raw), topic.type))
            if msg is not None:
                rows.append((topic, encode(msg), time_ns))
        if order is not None:
            times_ns = [time_ns for _, _, time_ns in rows]
            order.shuffle(rows)
            rows = [(topic, raw, time_ns) for (topic, raw, _), time_ns in zip(rows, times_ns, strict=True)]
        path = self._folder / "changed"
        with BagWriter(path) as writer:
            for topic in topics.RECORDED:
                writer.add_topic(topic.name, topic.type, ())
            for topic, raw, time_ns in rows:
                writer.write(topic.name, bytes(raw), time_ns)
        return path

    def users_of(self, ref: SampleRef) -> list[tuple[str, int]]:
        """Steps that say they used a sample, at the earliest time at which any did."""
        steps: list[tuple[int, tuple[str, int]]] = []
        for stage, topic, number in (
            ("fusion", topics.FUSED_STATE, "decision_id"),
            ("primitive_executor", topics.PROPOSED, "tick"),
            ("safety_supervisor", topics.VERDICT, "tick"),
        ):
            for msg in self.messages(topic):
                if ref in convert.refs_from(msg.used):
                    steps.append((convert.to_ns(msg.stamp), (stage, int(getattr(msg, number)))))
        return [step for stamp_ns, step in steps if stamp_ns == min(steps)[0]]

    def decision_that_used(self, ref: SampleRef) -> int:
        (number,) = (int(m.decision_id) for m in self.messages(topics.FUSED_STATE) if ref in convert.refs_from(m.used))
        return number

    def middle(self, stream: Stream) -> SampleRef:
        """A sample in the middle of the run that a decision used."""
        states = self.messages(topics.FUSED_STATE)
        for state in states[len(states) // 2 :]:
            for ref in convert.refs_from(state.used):
                if ref.stream is stream:
                    return ref
        raise AssertionError(f"no {stream.value} sample in the second half of the run")


@pytest.fixture
def run(recorded_run: Any, tmp_path: Path) -> Rewriter:
    return Rewriter(recorded_run.bag, tmp_path)


def difference(path: Path) -> Difference:
    report = check_bag(path)
    assert report.difference is not None
    assert not report.identical
    return report.difference


def changing(topic: Topic, stamp_ns: int, change: Callable[[Any], Any]) -> Change:
    """Change the message of `topic` with that stamp."""

    def changed(kind: Topic, msg: Any) -> Any:
        return change(msg) if kind is topic and convert.to_ns(msg.header.stamp) == stamp_ns else msg

    return changed


def test_recording_is_what_the_same_code_makes_of_the_same_samples(run: Rewriter, capsys: Any) -> None:
    report = check_bag(run.bag)
    assert report.identical, report.as_table()
    assert report.policy == "classic"
    assert set(report.steps) == STAGES
    assert report.steps["fusion"] == len(run.messages(topics.FUSED_STATE))
    assert report.steps["safety_supervisor"] == len(run.messages(topics.VERDICT))
    json.dumps(report.as_json(), allow_nan=False)
    assert main(["replay", str(run.bag), "--check"]) == 0
    assert "identical" in capsys.readouterr().out


def test_order_in_the_bag_plays_no_part(run: Rewriter) -> None:
    report = check_bag(run.written(order=random.Random(5)))
    assert report.identical, report.as_table()
    assert report.steps["fusion"] == len(run.messages(topics.FUSED_STATE))


def test_changed_imu_sample_is_found_at_the_decision_that_used_it(run: Rewriter) -> None:
    ref = run.middle(Stream.IMU)

    def turn(msg: Any) -> Any:
        msg.angular_velocity.z += 0.05
        return msg

    found = difference(run.written(changing(topics.IMU, ref.stamp_ns, turn)))
    assert (found.stage, found.number) == ("fusion", run.decision_that_used(ref))
    assert found.modality == "imu"
    assert "imu_window" in found.fields
    assert str(ref.stamp_ns) in found.detail


def test_changed_joint_sample_is_found_where_it_first_matters(run: Rewriter) -> None:
    states = run.messages(topics.FUSED_STATE)
    ref = convert.ref_from(states[len(states) // 2].joint_sample)

    def bend(msg: Any) -> Any:
        msg.position = msg.position + 0.01
        return msg

    found = difference(run.written(changing(topics.JOINT_STATES, ref.stamp_ns, bend)))
    assert found.modality == "joints"
    assert (found.stage, found.number) in {("fusion", run.decision_that_used(ref)), *run.users_of(ref)}


def test_changed_picture_is_found_at_the_decision_that_used_it(run: Rewriter) -> None:
    seen = {convert.to_ns(m.sample.stamp) for m in run.messages(topics.IMAGE_FEATURE) if len(m.detections)}
    used = [
        ref
        for state in run.messages(topics.FUSED_STATE)
        for ref in convert.refs_from(state.used)
        if ref.stream is Stream.CAMERA and ref.stamp_ns in seen
    ]
    ref = used[len(used) // 2]

    def shift(msg: Any) -> Any:
        picture = msg.data.reshape(msg.height, msg.width, 3)
        msg.data = np.roll(picture, 6, axis=1).reshape(-1)
        return msg

    found = difference(run.written(changing(topics.IMAGE, ref.stamp_ns, shift)))
    assert (found.stage, found.number) == ("fusion", run.decision_that_used(ref))
    assert found.modality == "camera"
    assert str(ref.stamp_ns) in found.detail


@pytest.mark.parametrize(
    ("topic", "stream"),
    [
        (topics.IMU, Stream.IMU),
        (topics.JOINT_STATES, Stream.JOINTS),
        (topics.IMAGE, Stream.CAMERA),
        (topics.EXECUTED, Stream.EXECUTED),
    ],
    ids=lambda value: value.name if isinstance(value, Stream) else "",
)
def test_missing_sample_is_named_at_the_first_step_that_used_it(run: Rewriter, topic: Topic, stream: Stream) -> None:
    ref = run.middle(stream)

    def without(kind: Topic, msg: Any) -> Any:
        stamp = msg.sample.stamp if kind is topics.EXECUTED else getattr(getattr(msg, "header", None), "stamp", None)
        return None if kind is topic and convert.to_ns(stamp) == ref.stamp_ns else msg

    found = difference(run.written(without))
    assert found.fields == (f"missing {stream.value} sample",)
    assert found.modality == stream.value
    assert (found.stage, found.number) in {("fusion", run.decision_that_used(ref)), *run.users_of(ref)}
    assert str(ref.stamp_ns) in found.detail


@pytest.mark.parametrize("key", ["profile", "skills", "motion", "safety", "classic", "robot"])
def test_recording_made_with_another_configuration_is_refused_by_name(run: Rewriter, key: str, capsys: Any) -> None:
    def other(kind: Topic, msg: Any) -> Any:
        if kind is topics.EVENTS and msg.kind == RUN_CONFIG:
            data = sensors.event_data(msg)
            data["settings"][key] = "0" * 64
            msg.data_json = json.dumps(data)
        return msg

    path = run.written(other)
    with pytest.raises(InvalidInputError, match=f"settings: {key}"):
        check_bag(path)
    assert main(["replay", str(path), "--check"]) == 2
    assert key in capsys.readouterr().err


def test_recording_of_something_else_is_refused(run: Rewriter) -> None:
    path = run.written(lambda kind, msg: msg if kind is topics.IMU else None)
    with pytest.raises(InvalidInputError, match="record with"):
        check_bag(path)


def test_check_that_finds_a_difference_exits_with_1_and_names_step_and_modality(run: Rewriter, capsys: Any) -> None:
    ref = run.middle(Stream.IMU)
    path = run.written(changing(topics.IMU, ref.stamp_ns, lambda msg: None))
    assert main(["replay", str(path), "--check"]) == 1
    out = capsys.readouterr().out
    assert "first difference" in out
    assert "modality: imu" in out
