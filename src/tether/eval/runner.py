"""Runs an evaluation's episodes: over worker processes, resumable, the same results for any number of workers."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tether.assembly import profile, skills, task
from tether.contracts import EpisodeResult, EpisodeSpec
from tether.eval.result import Setting
from tether.rollout import Rollout

OnResult = Callable[[EpisodeResult], None]


def evaluate(
    setting: Setting, episodes: int, *, workers: int = 1, journal: Path | None = None, on_result: OnResult | None = None
) -> list[EpisodeResult]:
    """The results of seeds seed … seed + episodes - 1 through the core loop, in order of seeds.

    workers: processes; an episode depends on its seed alone, so their number changes nothing but the time.
    journal: file in which finished episodes are kept, so that an interrupted evaluation goes on where it stopped.
    """
    kept = Journal(journal, setting) if journal is not None else None
    done = kept.read() if kept is not None else {}
    wanted = range(setting.seed, setting.seed + episodes)
    open_seeds = [seed for seed in wanted if seed not in done]
    for result in _run(setting, open_seeds, workers):
        done[result.spec.seed] = result
        if kept is not None:
            kept.append(result)
        if on_result is not None:
            on_result(result)
    return [done[seed] for seed in wanted]


class Journal:
    """Finished episodes of one setting, a JSON line each, after a line that says which setting it is."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self._path = path
        self._key = {
            **dataclasses.asdict(setting),
            "task_sha256": task(setting.task).sha256,
            "profile_sha256": profile(setting.profile).sha256,
            "skills_sha256": skills().sha256,
        }

    def read(self) -> dict[int, EpisodeResult]:
        """Episodes kept for this very setting; a journal of another one is set aside as *.old. A torn line is cut."""
        if not self._path.exists():
            return {}
        lines = self._path.read_text(encoding="utf-8").splitlines()
        records = [record for line in lines if (record := _parsed(line)) is not None]
        if not records or records[0] != self._key:
            os.replace(self._path, self._path.with_name(self._path.name + ".old"))
            return {}
        results = [_from_record(record) for record in records[1:]]
        return {result.spec.seed: result for result in results}

    def append(self, result: EpisodeResult) -> None:
        """Keep one more."""
        fresh = not self._path.exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            if fresh:
                file.write(json.dumps(self._key) + "\n")
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")

    def remove(self) -> None:
        """The evaluation is complete and its result written."""
        self._path.unlink(missing_ok=True)


def _run(setting: Setting, seeds: Sequence[int], workers: int) -> Iterator[EpisodeResult]:
    if workers <= 1 or len(seeds) <= 1:
        with _rollout(setting) as rollout:
            for seed in seeds:
                yield rollout.episode(seed)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(setting,)
    ) as pool:
        futures = [pool.submit(_worker_episode, seed) for seed in seeds]
        try:
            for future in concurrent.futures.as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_worker: list[Rollout] = []
"""The rollout of this worker process, made once by its initializer."""


def _start_worker(setting: Setting) -> None:
    _worker.append(_rollout(setting))


def _worker_episode(seed: int) -> EpisodeResult:
    return _worker[0].episode(seed)


def _rollout(setting: Setting) -> Rollout:
    return Rollout(setting.policy, setting.task, setting.profile, truth_age_ms=setting.truth_age_ms)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _from_record(record: dict[str, Any]) -> EpisodeResult:
    return EpisodeResult(**{**record, "spec": EpisodeSpec(**record["spec"])})
