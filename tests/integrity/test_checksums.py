"""Non-critical state: damage is told from content."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.integrity.crc import DamagedError, read_sealed, sealed, unsealed, write_sealed


@given(st.binary(max_size=200))
def test_what_was_sealed_reads_back(payload: bytes) -> None:
    assert unsealed(sealed(payload)) == payload


def test_every_single_bit_flip_and_every_cut_is_found() -> None:
    data = sealed(b"the last view of the camera window")
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(DamagedError):
                unsealed(bytes([*data[:at], data[at] ^ (1 << bit), *data[at + 1 :]]))
        with pytest.raises(DamagedError):
            unsealed(data[:at])
    with pytest.raises(DamagedError):
        unsealed(data + b"\0")


def test_a_file_is_whole_or_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "view"
    write_sealed(path, b"first")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="No space"):
        write_sealed(path, b"second")
    monkeypatch.undo()
    assert read_sealed(path) == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["view"]
