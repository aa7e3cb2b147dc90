"""`tether fuzz gate`: nothing escapes; and it sees what it is to see."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tether import topics
from tether.cli import main
from tether.errors import InvalidInputError
from tether.fuzz import cli, messages
from tether.fuzz.damage import damaged
from tether.fuzz.files import GateFiles
from tether.fuzz.messages import TAKES, play, tape
from tether.safety.token import TokenSigner, TokenVerifier, make_key


def test_the_tape_holds_every_message_that_the_gate_hears_and_the_gate_moves_on_it() -> None:
    assert {heard.topic for tick in tape() for heard in tick} == set(TAKES)
    rng = random.Random(0)
    rng.random = lambda: 0.0  # type: ignore[method-assign]  # a stretch that is left alone
    whole = sum(len(tick) for tick in tape())
    out = play(rng, whole)
    assert not out.findings
    assert not out.refused
    assert out.moving > len(tape()) // 2


def test_nothing_escapes_from_damaged_messages_and_no_limit_is_passed() -> None:
    out = play(random.Random(1), 3000)
    assert not out.findings
    assert 3000 <= sum(out.cases.values()) < 3100
    assert sum(out.refused.values()) > 100
    assert set(out.cases) == {topic.name for topic in TAKES}


def test_an_exception_that_would_end_the_node_is_found_with_the_bytes_that_make_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumble(stage: Any, msg: Any, now_ns: int, stamp_ns: int) -> None:
        raise KeyError("what was not thought of")

    monkeypatch.setitem(messages.TAKES, topics.HEARTBEAT, stumble)
    findings = play(random.Random(1), 50).findings
    assert findings
    assert findings[0].startswith("/heartbeat: KeyError")
    assert any(heard.raw.hex() in findings[0] for tick in tape() for heard in tick)


def test_damage_is_a_function_of_its_randomness_and_leaves_little_as_it_was() -> None:
    raw = bytes(range(200))
    once = [damaged(raw, random.Random(seed), [b"other" * 9]) for seed in range(200)]
    assert once == [damaged(raw, random.Random(seed), [b"other" * 9]) for seed in range(200)]
    assert sum(one == raw for one in once) < 20
    assert damaged(b"", random.Random(3)) is not None


def test_damaged_files_are_refused_and_nothing_escapes(tmp_path: Path) -> None:
    counts, refused, findings = GateFiles(tmp_path).damage(random.Random(2), 60)
    assert not findings
    assert sum(counts.values()) == 60
    assert len(refused) >= 4


@pytest.mark.parametrize("token", ["1:5:é", "1:٣:00", "1:5:\udcff", "é", "1:²:0"])
def test_a_token_of_letters_that_are_not_ascii_is_refused_and_ends_nothing(tmp_path: Path, token: str) -> None:
    make_key(tmp_path / "key")
    verifier = TokenVerifier(tmp_path / "key", "gate")
    with pytest.raises(InvalidInputError, match="token"):
        verifier.check("reset_stop", {"reason": "x"}, token, 0)
    good = TokenSigner(tmp_path / "key").token("reset_stop", {"reason": "x"})
    verifier.check("reset_stop", {"reason": "x"}, good, 0)


def of_messages(result: dict[str, Any]) -> dict[str, Any]:
    """What came of damaged messages; whether a damaged file is refused depends on its key, too, which is a new one."""
    return {name: row for name, row in result["per_input"].items() if name.startswith("/")}


def test_an_interrupted_run_goes_on_and_makes_the_same_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_CHUNK", 300)
    monkeypatch.setattr(cli, "_FILES", 4)
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    assert main(["fuzz", "gate", "--cases", "900", "--json", str(whole)]) == 0

    made = cli._chunk

    def interrupted(seed: int, number: int, folder: Path) -> dict[str, Any]:
        if number == 2:
            raise KeyboardInterrupt
        return made(seed, number, folder)

    monkeypatch.setattr(cli, "_chunk", interrupted)
    assert main(["fuzz", "gate", "--cases", "900", "--json", str(parts)]) == 130
    assert not parts.exists()
    monkeypatch.setattr(cli, "_chunk", made)
    assert main(["fuzz", "gate", "--cases", "900", "--json", str(parts)]) == 0
    one, other = (json.loads(path.read_text()) for path in (whole, parts))
    cases = [{name: row["cases"] for name, row in result["per_input"].items()} for result in (one, other)]
    assert cases[0] == cases[1]
    assert of_messages(one) == of_messages(other)
    assert one["cases"] == other["cases"] >= 900
    assert one["findings"] == []
    assert not parts.with_name("parts.json.journal").exists()
    assert "findings" in capsys.readouterr().out


def test_a_finding_makes_the_command_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = {"chunk": 0, "cases": {"key": 1}, "refused": {}, "ticks": 0, "moving": 0, "findings": ["key: KeyError"]}
    monkeypatch.setattr(cli, "_chunk", lambda seed, number, folder: chunk)
    assert main(["fuzz", "gate", "--cases", "1", "--json", str(tmp_path / "out.json")]) == 1
