"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.files import replaced


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_takes_the_place_of_the_older_one_once_it_is_whole(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with replaced(path, durable=durable) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("state", b"new")]


def test_an_older_file_stays_where_writing_fails_and_the_next_writer_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="full"), replaced(path) as file:
        file.write(b"half of what was")
        raise OSError("disk is full")
    assert path.read_bytes() == b"old"
    with replaced(path) as file:
        file.write(b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("state", b"new")]
