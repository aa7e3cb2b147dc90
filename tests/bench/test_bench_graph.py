"""The pure parts of `tether bench graph`: times along a decision's way, the search for the peak, its arguments."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import numpy as np
import pytest

from tether import topics
from tether.bags.player import MAX_RATE
from tether.bags.writer import BagWriter
from tether.bench import graph
from tether.bench.figures import Metric
from tether.bench.graph import _ratio, picture_size
from tether.bench.peak import DROP_MAX, PLAYS_MAX, REPEATS, Peak, Play, find_peak, search
from tether.bench.processes import Usage
from tether.bench.way import Split, Way, joined, read_way
from tether.codec import convert, encode, sensors
from tether.codec.convert.decision import LOCKSTEP_TIMES, SteadyTimes
from tether.contracts import (
    Command,
    Estimate,
    FusedState,
    GateOutput,
    HybridAction,
    ImageFeature,
    ImuBatch,
    ImuSample,
    Mode,
    PolicyOutput,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
    Verdict,
)
from tether.eval.report import write_report
from tether.eval.result import Setting
from tether.ingest.health import Health
from tether.topics import Topic

MS = 1_000_000
SKILL = SkillContext(0, "pick", np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))
ESTIMATE = Estimate(0, np.zeros(3), np.zeros(3), np.zeros(3), 0.01, True)


class Recording:
    """A bag of made-up decisions."""

    def __init__(self, path: Path) -> None:
        self._writer = BagWriter(path)
        self._at_ns = 0

    def put(self, topic: Topic, msg: object) -> None:
        self._writer.add_topic(topic.name, topic.type)
        self._at_ns += MS
        assert self._writer.write(topic.name, encode(msg), self._at_ns)

    def decision(self, number: int, times: SteadyTimes, proposal_ns: int, gate_ns: int) -> None:
        """State, policy output, then two proposals and two verdicts, of which the first count."""
        state = FusedState(
            number, 0, (), {Stream.CAMERA: 120 * MS}, ESTIMATE, None, np.zeros((6, 100)), np.zeros((0, 6), np.float32),
            np.zeros(0, np.float32), SKILL,
        )  # fmt: skip
        action = HybridAction(number, 0, Primitive.HOLD, np.zeros(0), ESTIMATE, Source.CLASSIC)
        output = PolicyOutput(action, (), {}, "", "", "numpy", 1, {"decide": 2 * MS})
        self.put(topics.FUSED_STATE, convert.fused_state_message(state, 1, times))
        self.put(topics.POLICY_OUTPUT, convert.policy_output_message(output, 1))
        for tick in range(2):
            joints = ("a",), np.zeros(1), np.zeros(1), np.zeros(3)
            command = Command(tick, 0, number, Source.CLASSIC, *joints)
            later = tick * 10 * MS if proposal_ns else 0
            proposed = convert.proposed_message(command, 1, tick, 0, (), proposal_ns + later)
            gate = GateOutput(command, Mode.ACTIVE, 1.0, (), None)
            self.put(topics.PROPOSED, proposed)
            self.put(topics.VERDICT, convert.verdict_message(gate, 1, (), gate_ns + later))

    def read(self) -> Way:
        self._writer.close()
        return read_way(self._writer.path)


def test_times_run_from_the_newest_sample_to_the_first_gated_command_of_its_decision(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "bag")
    for number, begin_ms in enumerate((1000, 1050, 1200)):  # between the last two, two decisions are missing
        times = SteadyTimes(begin_ms * MS, (begin_ms + 3) * MS, (begin_ms + 4) * MS)
        recording.decision(number, times, (begin_ms + 10) * MS, (begin_ms + 11) * MS)
    way = recording.read()
    assert way.decisions == 3 and way.missed == 2
    assert way.wait_ms == pytest.approx([3.0] * 3)
    assert way.fusion_ms == pytest.approx([1.0] * 3)
    assert way.policy_ms == pytest.approx([2.0] * 3)
    assert way.decision_to_proposal_ms == pytest.approx([6.0] * 3)
    assert way.proposal_to_gate_ms == pytest.approx([1.0] * 3)
    assert way.sensor_to_command_ms == pytest.approx([11.0] * 3)
    assert way.splits == [pytest.approx(Split(wait=3.0, fusion=1.0, policy=2.0, handover=4.0, gate=1.0))] * 3
    assert way.decision_to_command_ms == pytest.approx([8.0] * 3)
    assert way.camera_age_ms == pytest.approx([120.0] * 3)
    assert way.interval_ms == pytest.approx([50.0, 150.0])


def test_decisions_after_the_last_sample_are_left_out(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "bag")
    for number, begin_ms in enumerate((1003, 1053, 1103, 1153, 8003)):  # the last sample arrives at 1060
        arrival_ms = min(begin_ms - 3, 1060)
        times = SteadyTimes(arrival_ms * MS, begin_ms * MS, (begin_ms + 1) * MS)
        recording.decision(number, times, (begin_ms + 7) * MS, (begin_ms + 8) * MS)
    way = recording.read()
    assert way.decisions == 3 and way.missed == 0
    assert way.sensor_to_command_ms == pytest.approx([11.0, 11.0, 51.0])
    assert way.interval_ms == pytest.approx([50.0, 50.0])


def test_the_report_of_a_recording_with_times_has_a_waterfall_of_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `sim`")
    recording = Recording(tmp_path / "bag")
    recording.decision(0, SteadyTimes(1000 * MS, 1003 * MS, 1004 * MS), 1010 * MS, 1011 * MS)
    recording.read()
    setting = Setting("classic", "pick", "ideal", True, 0)
    with_times, without = (
        write_report(tmp_path / name, setting, [], bag).read_text(encoding="utf-8")
        for name, bag in (("with", tmp_path / "bag"), ("without", None))
    )
    assert "<h2>Latency</h2>" in with_times
    assert "<td>11.00</td>" in with_times
    assert "Latency" not in without


def test_a_gate_tick_from_before_the_decision_is_not_its_command(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "bag")
    command = Command(0, 0, 7, Source.CLASSIC, ("a",), np.zeros(1), np.zeros(1), np.zeros(3))
    left_over = GateOutput(command, Mode.ACTIVE, 1.0, (), None)
    recording.put(topics.VERDICT, convert.verdict_message(left_over, 1, (), 960 * MS))
    recording.decision(7, SteadyTimes(1000 * MS, 1003 * MS, 1004 * MS), 1010 * MS, 1011 * MS)
    way = recording.read()
    assert way.sensor_to_command_ms == pytest.approx([11.0])
    assert way.proposal_to_gate_ms == pytest.approx([1.0])


def test_a_hold_is_counted_by_its_first_check_where_the_gate_had_let_the_robot_move(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "bag")
    late = Verdict("slow_mode", 0.5, "a share of full speed"), Verdict("command_age", 0.0, "late")
    stop = Verdict("watchdog", 0.0, "stopped"), Verdict("command_age", 0.0, "late")
    anchor = (Verdict("anchor", 0.0, "set-points start where the joints are"),)
    told = [(1, anchor), (1, ()), (1, late), (1, late), (1, ()), (1, stop), (1, ()), (2, anchor), (2, ()), (2, late)]
    for tick, (episode, verdicts) in enumerate(told):
        command = Command(tick, 0, 0, Source.CLASSIC, ("a",), np.zeros(1), np.zeros(1), np.zeros(3))
        scale = min([verdict.scale for verdict in verdicts], default=1.0)
        output = GateOutput(command, Mode.ACTIVE, scale, verdicts, None)
        recording.put(topics.VERDICT, convert.verdict_message(output, episode, (), (1 + tick) * 10 * MS))
    assert recording.read().holds == {"command_age": 2, "watchdog": 1}


def test_ways_of_several_runs_are_joined_without_changing_them() -> None:
    first, second = Way(wait_ms=[1.0], decisions=2, missed=1), Way(wait_ms=[2.0, 3.0], decisions=3)
    first.holds["watchdog"], second.holds["watchdog"] = 2, 3
    whole = joined([first, second])
    assert whole.wait_ms == [1.0, 2.0, 3.0]
    assert (whole.decisions, whole.missed) == (5, 1)
    assert (first.wait_ms, first.holds, whole.holds) == ([1.0], {"watchdog": 2}, {"watchdog": 5})


def test_composed_is_compared_round_by_round() -> None:
    separate = [Way(sensor_to_command_ms=[20.0, 30.0]), Way(sensor_to_command_ms=[50.0])]
    composed = [Way(sensor_to_command_ms=[12.5]), Way(sensor_to_command_ms=[25.0])]
    ratio = _ratio({False: separate, True: composed}, lambda way: way.sensor_to_command_ms)
    assert ratio.value == pytest.approx(2.0)


def test_recording_in_lockstep_has_no_times(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "bag")
    for number in range(2):
        recording.decision(number, LOCKSTEP_TIMES, 0, 0)
    way = recording.read()
    assert way.decisions == way.missed == 0
    assert not (way.wait_ms or way.sensor_to_command_ms or way.interval_ms)


SOURCE = Way(pictures=900, imu_samples=6000, decisions=600)


def keeping_up_to(pictures: float, imu: float, tried: list[float], player: float = MAX_RATE):
    """A graph that keeps up with so many times the pictures, and so many times the IMU, and loses a tenth beyond."""

    def play(speed: float) -> Play:
        tried.append(speed)
        looked_at = 890 if speed <= pictures else 810
        taken = 6000 if speed <= imu else 5400
        decisions = round(594 / speed)  # made by the steady clock
        way = Way(features=looked_at, imu_taken=taken, decisions=decisions, sensor_to_command_ms=[speed], missed=1)
        return Play(SOURCE, way, {"fusion": Usage(1.0, 2.0, 64.0)}, speed, min(speed, player))

    return play


def test_peak_is_found_between_what_was_kept_and_what_was_lost() -> None:
    tried: list[float] = []
    once = functools.cache(keeping_up_to(3.3, 10.0, tried))
    peak = find_peak(once, lambda play: play.picture_drops)
    assert peak.lost is not None and peak.kept <= 3.3 < peak.lost
    assert peak.lost - peak.kept <= MAX_RATE / 2**5
    assert len(tried) == 6 and max(tried) == MAX_RATE


def test_graph_that_keeps_up_with_the_fastest_player_is_said_to_do_at_least_that() -> None:
    peak = find_peak(keeping_up_to(10.0, 10.0, []), lambda play: play.picture_drops)
    assert peak == Peak(MAX_RATE, None)
    assert "at least" in peak.note("pictures", 30.0) and "300 Hz" in peak.note("pictures", 30.0)


def test_graph_that_never_keeps_up_has_peak_0() -> None:
    peak = find_peak(keeping_up_to(0.0, 0.0, []), lambda play: play.picture_drops)
    assert peak.kept == 0.0 and peak.lost is not None and not peak.by_player
    assert "not" in peak.note("pictures", 30.0)


def test_speed_that_the_player_does_not_reach_is_no_rate_of_the_graph() -> None:
    """Nothing is lost of a play at ten times the speed that went on at 1.4 times."""
    peak = find_peak(keeping_up_to(10.0, 10.0, [], player=1.4), lambda play: play.picture_drops)
    assert peak.lost is not None and peak.kept <= 1.4 / (1 - DROP_MAX) < peak.lost
    assert "the player did not reach" in peak.note("pictures", 30.0)


def test_play_at_a_speed_not_reached_is_due_the_decisions_of_the_time_it_took() -> None:
    way = Way(decisions=300)
    assert Play(SOURCE, way, {}, speed=10.0, reached=2.0).decision_drops == 0.0
    assert Play(SOURCE, way, {}, speed=10.0, reached=1.0).decision_drops == pytest.approx(0.5)


def figures(way: Way, usage) -> dict[str, Metric]:
    return {
        "sensor_to_command_ms": Metric.of(way.sensor_to_command_ms, "ms"),
        "missed_decisions": Metric.of([way.missed], "share"),
        "cpu_fusion": Metric.of([usage["fusion"].cores], "cores"),
    }


def test_peaks_of_pictures_and_imu_are_found_apart_and_the_first_is_measured_again() -> None:
    tried: list[float] = []
    metrics, notes = search(keeping_up_to(3.3, 10.0, tried), 30.0, 200.0, figures)
    assert 90.0 <= metrics["peak_picture_rate"].median <= 99.0
    assert metrics["peak_imu_rate"].median == 2000.0
    peak = metrics["peak_picture_rate"].median / 30.0
    assert tried.count(peak) == REPEATS == metrics["peak_sensor_to_command_ms"].n
    assert metrics["peak_sensor_to_command_ms"].median == pytest.approx(peak)
    assert metrics["peak_picture_drops"].max == pytest.approx(1 - 890 / 900)
    assert metrics["peak_imu_drops"].max == 0.0
    assert metrics["peak_decision_drops"].max == pytest.approx(0.01, abs=0.003)
    assert metrics["peak_cpu_fusion"].median == pytest.approx(0.5)
    assert metrics["at_30hz_sensor_to_command_ms"].median == pytest.approx(1.0)
    assert metrics["at_60hz_picture_drops"].n == 1
    assert not any(name.endswith("missed_decisions") for name in metrics)
    assert len(tried) <= PLAYS_MAX
    assert any("IMU samples: 2000 Hz" in note for note in notes)
    assert sum("x played" in note for note in notes) == len(tried)
    assert metrics["at_60hz_played_speed"].median == pytest.approx(2.0)


def test_a_graph_that_never_keeps_up_has_no_figures_at_its_peak_but_at_fixed_rates() -> None:
    metrics, _ = search(keeping_up_to(0.0, 0.0, []), 30.0, 200.0, figures)
    assert metrics["peak_picture_rate"].median == metrics["peak_imu_rate"].median == 0.0
    assert "peak_sensor_to_command_ms" not in metrics
    assert metrics["at_30hz_picture_drops"].median == pytest.approx(0.1)


def test_a_play_into_which_nothing_came_has_lost_all() -> None:
    play = Play(Way(), Way(), {}, 1.0, 1.0)
    assert play.picture_drops == play.imu_drops == play.decision_drops == 1.0


def test_pictures_that_were_refused_and_samples_without_a_batch_are_lost(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "bag")
    for number, reason in enumerate((None, "too_late")):
        feature = ImageFeature(
            SampleRef(Stream.CAMERA, number, number), None, np.zeros((0, 6), np.float32), None, reason
        )
        recording.put(topics.IMAGE_FEATURE, convert.image_feature_message(feature, 0, {}))
    samples = tuple(ImuSample(SampleRef(Stream.IMU, n, n), np.zeros(3), np.zeros(3)) for n in range(2))
    recording.put(topics.IMU_BATCH, convert.imu_batch_message(ImuBatch(0, 0, 1, samples)))
    for missed in (3, 7):
        health = Health("camera", 30.0, 1.0, 1.0, 1.0, 0.0, 10, 10, {"late_stamp": 1, "missed": missed})
        recording.put(topics.MODALITY_STATUS, sensors.modality_status_message(health, 0))
    way = recording.read()
    assert (way.features, way.imu_taken, way.pictures_missed) == (1, 2, 7)


def test_size_that_is_none_is_refused_as_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert picture_size("640x480") == (640, 480)
    parser = argparse.ArgumentParser()
    graph.add_arguments(parser)
    for text in ("abc", "640", "640x", "0x480", "640x480x3"):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(["--size", text])
        assert ended.value.code == 2
    assert "expected WIDTHxHEIGHT" in capsys.readouterr().err
    assert parser.parse_args([]).size == (640, 480)
