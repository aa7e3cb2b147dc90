"""Authenticated calls: good once, for this call only, with the robot's key only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.errors import InvalidInputError
from tether.safety.token import (
    RunSigner,
    TokenSigner,
    TokenVerifier,
    key_file,
    main,
    make_key,
    make_run_key,
    read_key,
    run_key_file,
)

S = 1_000_000_000
FIELDS = {"reason": "the cause is gone"}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "tether" / "key"
    make_key(path)
    return path


def test_token_is_accepted_once(key: Path) -> None:
    token, verifier = TokenSigner(key).token("reset_stop", FIELDS), TokenVerifier(key, "gate")
    verifier.check("reset_stop", FIELDS, token, 0)
    with pytest.raises(InvalidInputError, match="last one accepted"):
        verifier.check("reset_stop", FIELDS, token, 0)


def test_token_that_was_overheard_is_worth_nothing_after_a_restart_either(key: Path) -> None:
    token = TokenSigner(key).token("reset_stop", FIELDS)
    TokenVerifier(key, "gate").check("reset_stop", FIELDS, token, 0)
    with pytest.raises(InvalidInputError, match="last one accepted"):
        TokenVerifier(key, "gate").check("reset_stop", FIELDS, token, 0)


@pytest.mark.parametrize(
    ("interface", "fields"),
    [
        ("swap_model", FIELDS),
        ("reset_stop", {"reason": "another"}),
        ("reset_stop", {}),
        ("reset_stop", {"reason": FIELDS["reason"], "more": "1"}),
        ("reset_stop", {"reason, more": FIELDS["reason"]}),
    ],
)
def test_token_is_for_one_call_with_these_fields(key: Path, interface: str, fields: dict[str, str]) -> None:
    token = TokenSigner(key).token("reset_stop", FIELDS)
    with pytest.raises(InvalidInputError, match="not made for this call"):
        TokenVerifier(key, "gate").check(interface, fields, token, 0)


def test_token_of_another_key_is_refused(key: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_key(other)
    with pytest.raises(InvalidInputError, match="not made for this call"):
        TokenVerifier(key, "gate").check("reset_stop", FIELDS, TokenSigner(other).token("reset_stop", FIELDS), 0)


@given(st.one_of(st.text(max_size=200), st.from_regex(r"1:[0-9]{1,20}:[0-9a-f]{0,64}", fullmatch=True)))
def test_no_text_that_was_not_signed_is_accepted(tmp_path_factory: pytest.TempPathFactory, token: str) -> None:
    path = tmp_path_factory.mktemp("keys") / "key"
    make_key(path)
    with pytest.raises(InvalidInputError, match="token"):
        TokenVerifier(path, "gate").check("reset_stop", FIELDS, token, 0)


def test_guessing_is_slowed_down_and_then_a_good_token_works_again(key: Path) -> None:
    verifier, signer = TokenVerifier(key, "gate"), TokenSigner(key)
    for _ in range(10):
        with pytest.raises(InvalidInputError, match="token"):
            verifier.check("reset_stop", FIELDS, "1:1:00", 0)
    with pytest.raises(InvalidInputError, match="refused within"):
        verifier.check("reset_stop", FIELDS, signer.token("reset_stop", FIELDS), 1 * S)
    verifier.check("reset_stop", FIELDS, signer.token("reset_stop", FIELDS), 11 * S)


def test_counter_grows_though_the_wall_clock_goes_back(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, signer = TokenVerifier(key, "gate"), TokenSigner(key)
    verifier.check("reset_stop", FIELDS, signer.token("reset_stop", FIELDS), 0)
    monkeypatch.setattr("tether.safety.token.time.time_ns", lambda: 1)
    verifier.check("reset_stop", FIELDS, signer.token("reset_stop", FIELDS), 0)


def test_processes_that_share_a_key_never_make_the_same_token(key: Path) -> None:
    code = (
        "import sys, pathlib; from tether.safety.token import TokenSigner; "
        "s = TokenSigner(pathlib.Path(sys.argv[1])); "
        "print(*(s.token('reset_stop', {}).split(':')[1] for _ in range(500)))"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(key)], stdout=subprocess.PIPE) for _ in range(3)]
    counters = [int(word) for run in runs for word in run.communicate(timeout=60)[0].split()]
    assert len(counters) == len(set(counters)) == 1500


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_key_that_others_may_read_or_write_is_refused_with_the_fix(key: Path, mode: int) -> None:
    key.chmod(mode)
    with pytest.raises(InvalidInputError, match="chmod 600"):
        read_key(key)


def test_key_is_made_for_its_owner_alone_and_never_over_another(key: Path) -> None:
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    before = read_key(key)
    make_key(key)
    assert read_key(key) == before


@pytest.mark.parametrize("content", ["", "00", "zz" * 32, "00" * 33])
def test_key_file_that_holds_no_key_is_refused(key: Path, content: str) -> None:
    key.write_text(content)
    with pytest.raises(InvalidInputError, match="32 bytes in hex"):
        read_key(key)


def test_links_folders_and_pipes_are_no_keys(key: Path, tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(key)
    os.mkfifo(pipe, 0o600)
    for path in (link, pipe, tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidInputError):
            read_key(path)


def test_full_disk_refuses_the_call_and_the_token_stays_good(key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, token = TokenVerifier(key, "gate"), TokenSigner(key).token("reset_stop", FIELDS)
    with monkeypatch.context() as patch:
        patch.setattr("tether.safety.token.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "no space left")))
        with pytest.raises(InvalidInputError, match="no space left"):
            verifier.check("reset_stop", FIELDS, token, 0)
    verifier.check("reset_stop", FIELDS, token, 0)


def test_key_file_can_be_named_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TETHER_KEY_FILE", str(tmp_path / "mine"))
    assert key_file() == tmp_path / "mine"
    monkeypatch.delenv("TETHER_KEY_FILE")
    assert key_file().name == "key"


def test_token_can_be_made_on_the_command_line(
    key: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TETHER_KEY_FILE", str(key))
    assert main(["reset_stop", "reason=the cause is gone"]) == 0
    TokenVerifier(key, "gate").check("reset_stop", FIELDS, capsys.readouterr().out.strip(), 0)
    key.chmod(0o644)
    assert main(["reset_stop"]) == 1 and "chmod 600" in capsys.readouterr().err


def test_key_of_a_run_is_made_anew_and_what_was_said_under_an_earlier_one_is_worth_nothing(tmp_path: Path) -> None:
    path = tmp_path / "key.run7"
    make_run_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    signer, verifier = RunSigner(path), TokenVerifier(path, None)
    token = signer.token("reward", FIELDS)
    verifier.check("reward", FIELDS, token, 0)
    with pytest.raises(InvalidInputError, match="counter"):
        verifier.check("reward", FIELDS, token, 0)
    verifier.check("reward", FIELDS, RunSigner(path).token("reward", FIELDS), 0)  # a server that was started anew
    make_run_key(path)
    renewed = TokenVerifier(path, None)
    with pytest.raises(InvalidInputError, match="this robot's key"):
        renewed.check("reward", FIELDS, token, 0)
    renewed.check("reward", FIELDS, signer.token("reward", FIELDS), 0)
    assert {entry.name for entry in tmp_path.iterdir()} == {"key.run7"}, "nothing is kept beside it"


def test_runs_of_different_domains_have_keys_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TETHER_KEY_FILE", str(tmp_path / "key"))
    found = set()
    for domain in ("", "7", "8"):
        monkeypatch.setenv("ROS_DOMAIN_ID", domain)
        found.add(run_key_file())
    assert {path.name for path in found} == {"key.run0", "key.run7", "key.run8"}
