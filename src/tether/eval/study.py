"""A study: policies side by side under several conditions, on the same seeds. Resumable, and of use at any moment.

All cells grow together, a few episodes at a time: however early a study is ended, its cells have equally many.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether.assembly import profile, settings_hashes
from tether.contracts import EpisodeResult
from tether.errors import Fault, InvalidInputError
from tether.eval.journal import Journal
from tether.eval.result import Setting
from tether.eval.runner import evaluate
from tether.eval.statistics import summarise
from tether.results import header, write_json


@dataclass(frozen=True)
class Cell:
    """A policy under a condition. row, column: its place in the table.

    profiles: names or files; so many episodes in a row, `per_profile`, are under the same one, and after the last the
    first comes again.
    """

    row: str
    column: str
    policy: str
    profiles: tuple[str, ...]
    per_profile: int = 1_000_000

    def profile_of(self, number: int) -> str:
        """Profile of the episode with that number, from 0."""
        return self.profiles[number // self.per_profile % len(self.profiles)]


@dataclass(frozen=True)
class Study:
    """What is compared. seed: of each cell's episode 0. chunk: so many episodes of a cell at a time.

    commit: of the code, as a result's header says it; episodes of other code are other episodes.
    """

    name: str
    task: str
    cells: tuple[Cell, ...]
    episodes: int
    seed: int = 0
    chunk: int = 10
    workers: int = 1
    commit: str = field(default_factory=lambda: str(header("study", 0)["commit"]))


Results = Mapping[Cell, Sequence[EpisodeResult]]
"""Of each cell those of its first episodes, in the order of seeds."""


def run_study(
    study: Study,
    folder: Path,
    on_result: Callable[[EpisodeResult], None] | None = None,
    on_chunk: Callable[[Results], None] | None = None,
) -> Results:
    """Run what is not in the journals of `folder` yet. on_chunk: sees all results whenever a cell has grown."""
    journals = {cell: Journal(_journal(folder, cell), key_of(study, cell)) for cell in study.cells}
    done = {cell: _first(study, journal.read()) for cell, journal in journals.items()}
    for until in [*range(study.chunk, study.episodes, study.chunk), study.episodes]:
        for cell in study.cells:
            if len(done[cell]) >= until:
                continue
            for first, last, name in _blocks(cell, len(done[cell]), until):
                setting = Setting(cell.policy, study.task, name, graph=False, seed=study.seed + first)
                evaluate(setting, last - first, workers=study.workers, journal=journals[cell], on_result=on_result)
            done[cell] = _first(study, journals[cell].read())
            if on_chunk is not None:
                on_chunk(done)
    return done


def episodes_left(study: Study, folder: Path) -> int:
    """How many episodes `run_study` would run."""
    kept = (Journal(_journal(folder, cell), key_of(study, cell)).read() for cell in study.cells)
    return sum(study.episodes - len(_first(study, done)) for done in kept)


def key_of(study: Study, cell: Cell) -> dict[str, Any]:
    """All that the results of a cell depend on besides the seed."""
    return {
        "policy": cell.policy,
        "per_profile": cell.per_profile,
        "profiles_sha256": [profile(name).sha256 for name in cell.profiles],
        **{name: sha for name, sha in settings_hashes(study.task, "real", cell.policy).items() if name != "profile"},
        "commit": study.commit,
    }


def study_json(study: Study, results: Results, beside: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """For each cell what `tether eval` says of it; of its episodes the seeds of those that failed.

    beside: cells that were measured apart (`cells_of`), which stand behind the study's own.
    """
    cells = []
    for cell, episodes in results.items():
        record = {
            "row": cell.row,
            "column": cell.column,
            "policy": cell.policy,
            "commit": study.commit,
            "profiles_sha256": [profile(name).sha256 for name in cell.profiles],
            **dataclasses.asdict(summarise(episodes)),
            "failed": {str(r.spec.seed): r.failure for r in episodes if not r.success},
        }
        cells.append(record)
    return {**header(f"study {study.name}", study.seed), **_shared(study), "cells": [*cells, *beside]}


def cells_of(study: Study, path: Path) -> list[dict[str, Any]]:
    """The cells in a result of the same study: other policies, or other code, on the same seeds and task.

    Raises InvalidInputError where the file is no such result, or holds a row and column that `study` holds.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        commit, cells = record["commit"], record["cells"]
        same = {"tool": record["tool"], "seed": record["seed"]}
        same |= {name: record[name] for name in ("task", "task_sha256", "skills_sha256")}
        taken = {(cell.row, cell.column) for cell in study.cells}
        twice = [f"{c['row']} at {c['column']}" for c in cells if (c["row"], c["column"]) in taken]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        fault = Fault(str(path), repr(error), "a result of `tether study`")
        raise InvalidInputError("study", [fault]) from error
    own = {**header(f"study {study.name}", study.seed), **_shared(study)}
    faults = [
        Fault(f"{path}: {name}", repr(value), repr(own[name])) for name, value in same.items() if value != own[name]
    ]
    faults += [Fault(f"{path}: cell", text, "a row that this study does not run") for text in twice]
    if faults:
        raise InvalidInputError("study", faults, "only cells of the same seeds, task and skills stand side by side")
    return [{"commit": commit, **cell} for cell in cells]


def _shared(study: Study) -> dict[str, str]:
    hashes = settings_hashes(study.task, "real")
    return {"task": study.task, "task_sha256": hashes["task"], "skills_sha256": hashes["skills"]}


def study_table(results: Results) -> str:
    """Rows are policies, columns conditions; in a cell successes of episodes and the 95 % interval."""
    columns = list(dict.fromkeys(cell.column for cell in results))
    rows = list(dict.fromkeys(cell.row for cell in results))
    texts = {(cell.row, cell.column): _cell_text(episodes) for cell, episodes in results.items()}
    width = max(len(row) for row in rows)
    widths = [max(len(column), *(len(texts.get((row, column), "")) for row in rows)) for column in columns]
    lines = ["  ".join([" " * width, *(f"{column:>{w}}" for column, w in zip(columns, widths, strict=True))])]
    for row in rows:
        cells = (f"{texts.get((row, column), ''):>{w}}" for column, w in zip(columns, widths, strict=True))
        lines.append("  ".join([f"{row:<{width}}", *cells]))
    return "\n".join(lines) + "\n"


def write_study(
    path: Path, study: Study, results: Results, beside: Sequence[Mapping[str, Any]] = (), *, last: bool = True
) -> None:
    """The study as JSON, whole or not at all. last: see `write_json`."""
    write_json(path, study_json(study, results, beside), last=last)


def _cell_text(episodes: Sequence[EpisodeResult]) -> str:
    s = summarise(episodes)
    if not episodes:
        return "-"
    return f"{s.successes}/{s.episodes} {s.success_rate:.1%} ({s.wilson_low:.1%}-{s.wilson_high:.1%})"


def _blocks(cell: Cell, first: int, until: int) -> Iterator[tuple[int, int, str]]:
    """Ranges of episodes in a row under one profile."""
    while first < until:
        last = min(until, (first // cell.per_profile + 1) * cell.per_profile)
        yield first, last, cell.profile_of(first)
        first = last


def _first(study: Study, done: Mapping[int, EpisodeResult]) -> list[EpisodeResult]:
    """Those of the first episodes, up to the first one that is missing."""
    out: list[EpisodeResult] = []
    while len(out) < study.episodes and study.seed + len(out) in done:
        out.append(done[study.seed + len(out)])
    return out


def _journal(folder: Path, cell: Cell) -> Path:
    name = "".join(c if c.isalnum() or c in "-_+." else "_" for c in f"{cell.row}.{cell.column}")
    return folder / f"{name}.journal"
