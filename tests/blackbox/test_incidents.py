"""The summary and the picture say at which step which judgement went wrong."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from box_making import START_NS, TILT, decision, fused, kept, story, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from tether import topics
from tether.blackbox.contents import TYPES
from tether.blackbox.incident import STRETCHES_MAX, Incident, read_incident
from tether.blackbox.picture import SHOWN_MAX, dot
from tether.blackbox.ring import Kept
from tether.blackbox.trips import Trip, TripKind
from tether.contracts import TICK_NS, Mode, Primitive, Verdict

TRIP = Trip(TripKind.LATCHED_STOP, 'tick 60: tilt: "tilted"\n\\', START_NS + 60 * TICK_NS, 60 * TICK_NS)


@pytest.fixture(scope="module")
def incident() -> Incident:
    return read_incident(TRIP, kept(story(60)))


def test_the_judgement_that_went_wrong_is_named_where_it_began(incident: Incident) -> None:
    wrong = incident.wrong
    assert wrong is not None
    assert (wrong.check, wrong.tick, wrong.scale, wrong.decision_id) == ("tilt", 56, 0.5, 12)
    assert incident.wrong_in is not None
    stretch = incident.stretches[incident.wrong_in]
    assert (stretch.mode, stretch.skill, stretch.step_k, stretch.step_n, stretch.primitive) == (
        "ACTIVE",
        "pick",
        3,
        7,
        "grasp",
    )


@pytest.mark.parametrize("kind", [TripKind.WATCHDOG, TripKind.GATE_SILENT])
def test_a_gate_that_fell_silent_is_what_went_wrong_and_not_the_last_check_it_made(kind: TripKind) -> None:
    rows = [row for row in story(60) if row[2] <= 57 * TICK_NS]
    found = read_incident(Trip(kind, "x", START_NS, 70 * TICK_NS), kept(rows))
    assert found.wrong is not None
    assert (found.wrong.check, found.wrong.tick, found.wrong.decision_id) == ("silence", 57, 12)
    assert "130 ms" in found.wrong.reason
    assert found.wrong_in is not None and found.stretches[found.wrong_in].primitive == "grasp"


def test_a_watchdog_without_a_pause_of_the_gate_is_laid_to_the_checks() -> None:
    found = read_incident(Trip(TripKind.WATCHDOG, "x", START_NS, 60 * TICK_NS), kept(story(60)))
    assert found.wrong is not None and found.wrong.check == "tilt"


def test_stretches_follow_mode_step_and_primitive(incident: Incident) -> None:
    rows = [(s.mode, s.step_k, s.primitive, s.first_tick, s.last_tick) for s in incident.stretches]
    assert rows == [
        ("ARMED", 2, "reach", 0, 1),
        ("ACTIVE", 2, "reach", 2, 39),
        ("ACTIVE", 3, "grasp", 40, 59),
        ("STOP", 3, "grasp", 60, 69),
    ]


def test_every_check_is_summed_up(incident: Incident) -> None:
    tilt = next(check for check in incident.checks if check.check == "tilt")
    assert (tilt.ticks, tilt.least_scale, tilt.first.tick, tilt.last.tick) == (14, 0.0, 56, 69)


def test_the_summary_is_strict_json(incident: Incident) -> None:
    json.dumps(incident.as_json(), allow_nan=False)
    nan = Verdict("tilt", float("nan"), "not a number")
    rows = [(topics.VERDICT.name, verdict(1, Mode.STOP, nan), 1)]
    json.dumps(read_incident(TRIP, kept(rows)).as_json(), allow_nan=False)


def test_equal_decision_numbers_of_two_episodes_are_kept_apart() -> None:
    rows = [
        (topics.DECISION.name, decision(1, Primitive.REACH, episode=0), 0),
        (topics.FUSED_STATE.name, fused(1, 1, episode=0), 0),
        (topics.VERDICT.name, verdict(0, Mode.ACTIVE, episode=0), 1),
        (topics.DECISION.name, decision(1, Primitive.GRASP, episode=1), 2),
        (topics.FUSED_STATE.name, fused(1, 5, episode=1), 2),
        (topics.VERDICT.name, verdict(0, Mode.STOP, TILT, episode=1), 3),
    ]
    found = read_incident(Trip(TripKind.LATCHED_STOP, "x", START_NS, 3), kept(rows))
    assert [(s.primitive, s.step_k) for s in found.stretches] == [("reach", 1), ("grasp", 5)]
    assert found.wrong_in == 1


def test_nothing_at_all_makes_an_incident_without_a_judgement() -> None:
    found = read_incident(TRIP, [])
    assert (found.wrong, found.wrong_in, found.stretches, found.from_ns) == (None, None, (), None)
    assert "no judgement" in dot(found)


def test_messages_that_cannot_be_read_are_counted_and_left() -> None:
    rows = [*story(60), (topics.VERDICT.name, b"\x00\x01", 1), (topics.DECISION.name, b"", 2)]
    found = read_incident(TRIP, kept(rows))
    assert found.unreadable == 2
    assert found.wrong is not None


def test_a_gate_that_flaps_makes_a_bounded_summary_and_picture() -> None:
    hold = Verdict("command_age", 0.0, "late")
    rows = [
        (topics.VERDICT.name, verdict(i, Mode.ACTIVE) if i % 2 else verdict(i, Mode.ARMED, hold), i)
        for i in range(3 * STRETCHES_MAX)
    ]
    found = read_incident(Trip(TripKind.GATE_SILENT, "x", 0, 10**9), kept(rows))
    assert len(found.stretches) == STRETCHES_MAX and found.left_out == 2 * STRETCHES_MAX
    assert dot(found).count("[label=") <= 2 * SHOWN_MAX + 3


def test_the_picture_marks_the_step_and_the_judgement(incident: Incident) -> None:
    text = dot(incident)
    assert f's{incident.wrong_in} [label="ACTIVE\\npick, step 3 of 7\\ngrasp' in text
    line = next(line for line in text.splitlines() if line.startswith(f"  s{incident.wrong_in} ["))
    assert "color=red" in line
    assert "tilt let 0.50 pass" in text and "tick 56, decision 12, -0.04 s" in text
    assert "s2 -> s3" in text and "ACTIVE to STOP" in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_the_picture(incident: Incident) -> None:
    done = subprocess.run(["dot", "-Tsvg"], input=dot(incident), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "<svg" in done.stdout, done.stderr
    assert "syntax" not in done.stderr


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(TYPES)), st.binary(max_size=80)) | st.sampled_from(
            [(topics.VERDICT.name, verdict(3, Mode.STOP, TILT)), (topics.FUSED_STATE.name, fused(1, 1))]
        ),
        max_size=8,
    )
)  # fmt: skip
def test_no_message_keeps_an_incident_from_being_written(rows: list[tuple[str, bytes]]) -> None:
    messages = [Kept(topic, raw, i, i, i + 1) for i, (topic, raw) in enumerate(rows)]
    found = read_incident(TRIP, messages)
    json.dumps(found.as_json(), allow_nan=False)
    assert dot(found).endswith("}\n")
