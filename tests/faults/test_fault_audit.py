"""The judge of a recording takes nobody's word: limits, what was applied, and gaps."""

from __future__ import annotations

import numpy as np
import pytest
from fault_tape import REST, Tape

from tether.assembly import robot
from tether.faults.audit import RecordingAudit
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.settings import load_safety


@pytest.fixture
def audit() -> RecordingAudit:
    return RecordingAudit(robot(), load_safety(resource_path("config", "safety.yaml")), COMMAND_JOINTS)


def judged(audit: RecordingAudit, tape: Tape) -> list[str]:
    audit.add(tape.records)
    audit.finish()
    return [finding.text for finding in audit.findings]


def test_commands_that_keep_every_limit_and_are_applied_are_in_order(audit: RecordingAudit, tape: Tape) -> None:
    for ms in range(0, 1000, 10):
        tape.gate(ms, 1.0)
        tape.applied(ms + 6)
    assert judged(audit, tape) == []
    assert audit.lost == []
    assert audit.commands == 100


def test_a_jump_of_set_points_is_unsafe(audit: RecordingAudit, tape: Tape) -> None:
    tape.gate(0, 1.0)
    tape.gate(10, 1.0, position=REST + 0.2)
    assert any("velocity" in text for text in judged(audit, tape))


def test_what_no_gate_sent_is_unsafe(audit: RecordingAudit, tape: Tape) -> None:
    for ms in range(0, 600, 10):
        tape.gate(ms, 1.0)
        tape.applied(ms + 6, REST + 0.1 if ms == 300 else REST)
    assert judged(audit, tape) == ["applied, tick 31: set-points that no gate sent"]
    assert audit.lost == []


def test_a_command_that_was_applied_and_not_heard_is_a_lost_record(audit: RecordingAudit, tape: Tape) -> None:
    for ms in range(0, 600, 10):
        tape.gate(ms, 1.0)
        tape.applied(ms + 6, REST + 1e-4 if ms == 590 else REST)
    assert judged(audit, tape) == []
    assert [lost.text for lost in audit.lost] == ["applied, tick 60: what the gate sent was not heard"]


def test_a_gate_that_is_frozen_while_it_sends_is_heard_when_it_goes_on(audit: RecordingAudit, tape: Tape) -> None:
    tape.gate(0, 1.0)
    tape.applied(6)
    tape.applied(16, REST + 1e-4)
    for ms in range(1000, 3000, 10):
        tape.applied(ms, REST + 1e-4, by_watchdog=True)
    tape.gate(3000, 1.0, position=REST + 1e-4)
    assert judged(audit, tape) == []
    assert audit.lost == []


def test_a_watchdogs_stop_needs_no_gate(audit: RecordingAudit, tape: Tape) -> None:
    for ms in range(0, 600, 10):
        tape.gate(ms, 1.0)
        tape.applied(ms + 6, REST + 1e-3 * max(ms - 100, 0), by_watchdog=ms > 100)
    assert judged(audit, tape) == []


def test_numbers_that_are_none_are_unsafe_wherever_they_were_applied(audit: RecordingAudit, tape: Tape) -> None:
    for ms in range(0, 600, 10):
        tape.gate(ms, 1.0)
    tape.applied(300, np.full(6, np.nan))
    assert any("not finite" in text for text in judged(audit, tape))


def test_a_gap_in_the_ticks_is_a_lost_record_and_no_unsafe_command(audit: RecordingAudit, tape: Tape) -> None:
    tape.gate(0, 1.0, tick=4)
    tape.gate(30, 1.0, tick=7, position=REST + 0.2)
    assert judged(audit, tape) == []
    assert [lost.text for lost in audit.lost] == ["ticks 5 to 6 of episode 0"]


def test_a_tick_without_its_verdict_is_a_lost_record(audit: RecordingAudit, tape: Tape) -> None:
    for ms in range(0, 600, 10):
        tape.gate(ms, 1.0)
    del tape.records[5]
    assert judged(audit, tape) == []
    assert [(lost.text, lost.count) for lost in audit.lost] == [("ticks 1 to 1 of episode 0", 1)]


def test_an_intruder_who_repeats_a_command_changes_nothing(audit: RecordingAudit, tape: Tape) -> None:
    tape.gate(0, 1.0)
    tape.records.append(tape.records[0])
    tape.gate(10, 1.0)
    assert judged(audit, tape) == []
