"""Interrupted evaluations go on where they stopped."""

from __future__ import annotations

from pathlib import Path

from tether.contracts import EpisodeResult, EpisodeSpec
from tether.eval.journal import Journal, append_result, read_results

KEY = {"policy": "classic", "task_sha256": "a"}


def result(seed: int) -> EpisodeResult:
    return EpisodeResult(EpisodeSpec("pick", "real", seed), True, True, 1, 2.5, None)


def test_journal_gives_back_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.json.journal"
    for seed in (3, 4):
        Journal(path, KEY).append(result(seed))
    assert Journal(path, KEY).read() == {3: result(3), 4: result(4)}


def test_journal_of_another_setting_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "out.json.journal"
    Journal(path, KEY).append(result(3))
    assert Journal(path, {**KEY, "task_sha256": "b"}).read() == {}
    assert (tmp_path / "out.json.journal.old").exists()


def test_torn_last_line_costs_only_that_episode(tmp_path: Path) -> None:
    path = tmp_path / "out.json.journal"
    journal = Journal(path, KEY)
    journal.append(result(3))
    journal.append(result(4))
    path.write_text(path.read_text()[:-20])
    assert Journal(path, KEY).read() == {3: result(3)}


def test_episode_after_a_torn_line_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.json.journal"
    journal = Journal(path, KEY)
    journal.append(result(3))
    journal.append(result(4))
    path.write_text(path.read_text()[:-20])
    journal.append(result(5))
    assert Journal(path, KEY).read() == {3: result(3), 5: result(5)}


def test_results_file_is_readable_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read_results(path) == []
    append_result(path, result(1))
    with path.open("a") as file:
        file.write('{"spec": {"task"')
    assert read_results(path) == [result(1)]
