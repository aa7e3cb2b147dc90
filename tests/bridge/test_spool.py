"""The spool: whole shards only, bounded, oldest dropped and counted, and never in the way of who puts pairs in."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tether.bridge.pairs import Pair
from tether.bridge.spool import SpoolConfig, SpoolReader, SpoolWriter, read_shard, shards_in
from tether.errors import InvalidInputError

SMALL = SpoolConfig(pairs_per_shard=5, shards_max=4, waiting_max=2)


def pair(number: int, episode: int = 0, width: int = 3) -> Pair:
    fields = {"input.x": np.full(width, number, np.float32), "label.y": np.float32(number)}
    return Pair(episode, number, number * 50, {k: np.asarray(v) for k, v in fields.items()})


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not what():
        assert time.monotonic() < deadline, "nothing happened within a minute"
        time.sleep(0.005)


def test_what_was_put_in_is_taken_out_whole_and_in_order(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, SpoolConfig(pairs_per_shard=5, waiting_max=100))
    for number in range(12):
        writer.put(pair(number))
    writer.close()
    reader = SpoolReader(tmp_path)
    shards = reader.take()
    assert [len(shard["decision_id"]) for shard in shards] == [5, 5, 2]
    assert np.concatenate([shard["label.y"] for shard in shards]).tolist() == list(range(12))
    assert shards[0]["input.x"].shape == (5, 3)
    assert reader.take() == []
    assert shards_in(tmp_path) == []


def test_shard_holds_one_episode(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, SMALL)
    for number in range(3):
        writer.put(pair(number, episode=0))
    writer.put(pair(0, episode=1))
    writer.close()
    episodes = [set(shard["episode"].tolist()) for shard in SpoolReader(tmp_path).take()]
    assert episodes == [{0}, {1}]


def test_spool_that_nobody_reads_stays_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, SMALL)
    for number in range(100):
        writer.put(pair(number))
        if number % 5 == 4:
            wait_for(lambda n=number: writer.stats().written == (n + 1) // 5)
    writer.close()
    assert len(shards_in(tmp_path)) == SMALL.shards_max
    stats = writer.stats()
    assert (stats.written, stats.pairs, stats.dropped_unread) == (20, 100, 16)
    assert SpoolReader(tmp_path).take()[-1]["decision_id"].tolist() == [95, 96, 97, 98, 99]


def test_slow_disk_drops_the_oldest_that_wait_and_never_holds_up_who_puts_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    go = threading.Event()
    savez = np.savez

    def slow(*args: object, **arrays: object) -> None:
        go.wait(60.0)
        savez(*args, **arrays)  # type: ignore[arg-type]

    monkeypatch.setattr(np, "savez", slow)
    writer = SpoolWriter(tmp_path, SMALL)
    for number in range(100):
        writer.put(pair(number))  # would stand here for ever if it waited
    assert writer.stats().dropped_waiting >= 16
    go.set()
    writer.close()
    kept = np.concatenate([shard["decision_id"] for shard in SpoolReader(tmp_path).take()])
    assert kept.tolist()[-5:] == [95, 96, 97, 98, 99]


def test_full_disk_is_counted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    writer = SpoolWriter(tmp_path, SMALL)
    for number in range(5):
        writer.put(pair(number))
    wait_for(lambda: writer.stats().failed == 1)
    assert "No space left" in writer.stats().failure
    monkeypatch.undo()
    for number in range(5):
        writer.put(pair(number))
    writer.close()
    assert writer.stats().written == 1


def test_pairs_of_changing_shape_are_a_failure_and_not_a_crash(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, SMALL)
    for number in range(5):
        writer.put(pair(number, width=number + 1))
    writer.close()
    assert writer.stats().failed == 1


def test_torn_and_foreign_files_are_refused_counted_and_removed(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, SMALL)
    for number in range(15):
        writer.put(pair(number))
        wait_for(lambda n=number: writer.stats().written == (n + 1) // 5)
    writer.close()
    (_, first), (_, second), _ = shards_in(tmp_path)
    first.write_bytes(first.read_bytes()[:100])
    np.savez(second.with_suffix(".part.npz"), decision_id=np.arange(3), x=np.arange(2))
    os.replace(second.with_suffix(".part.npz"), second)
    reader = SpoolReader(tmp_path)
    assert len(reader.take()) == 1
    assert reader.refused == 2
    assert shards_in(tmp_path) == []


def test_shard_with_numbers_that_are_not_finite_is_refused_with_the_field(tmp_path: Path) -> None:
    path = tmp_path / "shard-000000000000.npz"
    one = np.arange(2)
    np.savez(path, decision_id=one, episode=one, stamp_ns=one, **{"input.x": np.array([1.0, np.nan])})
    with pytest.raises(InvalidInputError, match=r"input\.x"):
        read_shard(path)


def test_pickle_in_a_shard_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shard-000000000000.npz"
    np.savez(path, decision_id=np.array([{"a": 1}], dtype=object))
    reader = SpoolReader(tmp_path)
    assert reader.take() == []
    assert reader.refused == 1


def test_new_writer_goes_on_after_what_lies_there_and_clears_what_was_torn(tmp_path: Path) -> None:
    for start in (0, 5):
        writer = SpoolWriter(tmp_path, SMALL)
        for number in range(start, start + 5):
            writer.put(pair(number))
        writer.close()
        (tmp_path / "shard-000000000009.part").write_bytes(b"torn")
    SpoolWriter(tmp_path, SMALL).close()
    assert [number for number, _ in shards_in(tmp_path)] == [0, 1]
    assert not list(tmp_path.glob("*.part"))


def test_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="spool"):
        SpoolWriter(tmp_path / "file" / "below")
