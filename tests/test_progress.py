"""Progress speaks on terminals, and keeps quiet in logs."""

from __future__ import annotations

import io

import pytest

from tether import progress
from tether.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_shows_each_step_on_one_line_and_ends_it() -> None:
    out = Terminal()
    steps = Progress(3, "episodes", out)
    for note in ("picked", "", "dropped"):
        steps.step(note)
    text = out.getvalue()
    assert text.count("\r") == 3
    assert "3/3 episodes" in text
    assert "dropped" in text
    assert text.count("\n") == 1
    assert text.endswith("\n")


def test_log_gets_a_line_every_half_minute_at_most_and_one_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s[0])
    out = io.StringIO()
    steps = Progress(100, "episodes", out)
    for _ in range(100):
        now_s[0] += 1.0
        steps.step()
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("100/100 episodes")
    assert lines[0].startswith("31/100 episodes, 1.00/s, 69 s left")
