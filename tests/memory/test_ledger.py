"""A ledger that was meddled with is refused by name: forged, changed, replayed, moved, cut short, put back."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tether.errors import InvalidInputError
from tether.memory.ledger import Ledger, MemoryRefusedError, Reason
from tether.signing.ecdsa import PrivateKey
from tether.signing.trust import Purpose, TrustedKey

KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
KEYS = {KEY.public.id: TrustedKey(KEY.public, Purpose.DEVELOPMENT)}
Open = Callable[..., Ledger]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def open_it(key: PrivateKey = KEY, name: str = "memory") -> Ledger:
        return Ledger(tmp_path / name, key, KEYS, tmp_path / "state")

    return open_it


@pytest.fixture
def path(opened: Open, tmp_path: Path) -> Path:
    """The file of a ledger with three confirmed entries."""
    with opened() as ledger:
        for n in range(3):
            ledger.append([("note", {"n": n})], {"run": f"r{n}", "commit": "abc"})
        ledger.confirm()
    return tmp_path / "memory" / "ledger.jsonl"


def refused(opened: Open) -> Reason:
    with pytest.raises(MemoryRefusedError) as caught, opened():
        pass
    assert caught.value.reason.value in str(caught.value)
    return caught.value.reason


def test_entries_come_back_in_order_with_their_provenance(opened: Open, path: Path) -> None:
    with opened() as ledger:
        assert [(e.sequence, e.kind, e.body["n"]) for e in ledger.entries] == [(n + 1, "note", n) for n in range(3)]
        assert ledger.entries[2].provenance == {"run": "r2", "commit": "abc"}
        ledger.append([("note", {"n": 3}), ("note", {"n": 4})], {})
    with opened() as ledger:
        assert len(ledger.entries) == 5


def test_a_write_that_a_full_disk_cuts_short_leaves_nothing_behind(
    opened: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 100:
            return write(fd, data[:100])
        raise OSError(errno.ENOSPC, "no space")

    with opened() as ledger:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="no space"):
            ledger.append([("note", {"n": 3})], {})
        monkeypatch.undo()
        ledger.append([("note", {"n": 4})], {})
    with opened() as ledger:
        assert [e.body["n"] for e in ledger.entries] == [0, 1, 2, 4]


def test_a_ledger_does_not_outgrow_what_can_be_opened(
    opened: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened() as ledger:
        monkeypatch.setattr("tether.memory.ledger.SIZE_MAX", path.stat().st_size + 100)
        with pytest.raises(InvalidInputError, match="begin a new folder"):
            ledger.append([("note", {"n": 3})], {})
    assert len(path.read_text().splitlines()) == 3


def test_nothing_is_signed_that_the_next_opening_would_refuse(opened: Open) -> None:
    with opened(key=PrivateKey.generate()) as ledger, pytest.raises(InvalidInputError, match="unknown key"):
        ledger.append([("note", {})], {})


def test_a_changed_entry_is_refused_as_forged(opened: Open, path: Path) -> None:
    path.write_text(path.read_text().replace('"n":1', '"n":7'))
    assert refused(opened) is Reason.FORGED


def test_an_entry_of_a_stranger_is_refused_by_its_key(opened: Open, path: Path, tmp_path: Path) -> None:
    both = {**KEYS, OTHER.public.id: TrustedKey(OTHER.public, Purpose.DEVELOPMENT)}
    with Ledger(tmp_path / "memory", OTHER, both, tmp_path / "state") as ledger:
        ledger.append([("note", {"n": 3})], {})
    assert refused(opened) is Reason.UNKNOWN_KEY


def test_an_entry_put_in_twice_is_refused_as_replayed(opened: Open, path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]))
    assert refused(opened) is Reason.REPLAYED


@pytest.mark.parametrize(
    ("kept", "reason"), [([0, 2], Reason.GAP), ([1, 0, 2], Reason.GAP), ([0, 1], Reason.ROLLED_BACK)]
)
def test_entries_taken_out_moved_or_cut_off_are_refused(
    opened: Open, path: Path, kept: list[int], reason: Reason
) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[n] for n in kept))
    assert refused(opened) is reason


def test_an_older_copy_of_the_whole_folder_is_refused_as_rolled_back(opened: Open, path: Path, tmp_path: Path) -> None:
    shutil.copytree(path.parent, tmp_path / "old")
    with opened() as ledger:
        ledger.append([("note", {"n": 3})], {})
        ledger.confirm()
    shutil.rmtree(path.parent)
    shutil.copytree(tmp_path / "old", path.parent)
    assert refused(opened) is Reason.ROLLED_BACK


def test_a_good_entry_of_another_ledger_is_refused(opened: Open, path: Path, tmp_path: Path) -> None:
    with opened(name="second") as ledger:
        ledger.append([("note", {"n": n}) for n in range(4)], {})
    foreign = (tmp_path / "second" / "ledger.jsonl").read_text().splitlines(keepends=True)[3]
    path.write_text(path.read_text() + foreign)
    assert refused(opened) is Reason.OTHER


@pytest.mark.parametrize("text", ["{}", "nonsense", "[]", '{"sequence": 4}', "[" * 100_000])
def test_a_line_that_is_no_entry_is_refused_as_malformed(opened: Open, path: Path, text: str) -> None:
    path.write_text(path.read_text() + text + "\n")
    assert refused(opened) is Reason.MALFORMED


def test_a_line_that_a_killed_writer_left_half_is_dropped(opened: Open, path: Path) -> None:
    path.write_text(path.read_text() + '{"body":{"n":3}')
    with opened() as ledger:
        assert len(ledger.entries) == 3
        ledger.append([("note", {"n": 3})], {})
    with opened() as ledger:
        assert len(ledger.entries) == 4


def test_a_development_keys_entries_are_refused_on_a_physical_robot(opened: Open, path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TETHER_TRUST", "physical")
    assert refused(opened) is Reason.DEVELOPMENT_KEY


def test_what_is_not_finite_is_refused_and_nothing_is_added(opened: Open, path: Path) -> None:
    with opened() as ledger, pytest.raises(InvalidInputError, match="finite"):
        ledger.append([("note", {"n": 3}), ("note", {"n": float("nan")})], {})
    with opened() as ledger:
        assert len(ledger.entries) == 3


def test_two_at_a_time_are_refused(opened: Open, path: Path) -> None:
    with opened(), pytest.raises(InvalidInputError, match="in use"):
        opened()


def test_what_is_put_aside_is_kept_with_its_reason_and_never_read_back(opened: Open, path: Path) -> None:
    with opened() as ledger:
        ledger.quarantine("note", {"n": 9}, ["it cannot be"])
    aside = json.loads((path.parent / "quarantine.jsonl").read_text())
    assert aside == {"kind": "note", "why": ["it cannot be"], "body": {"n": 9}}
    with opened() as ledger:
        assert len(ledger.entries) == 3
