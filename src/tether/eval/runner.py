"""Runs an evaluation's episodes: over worker processes, resumable, the same results for any number of workers."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.synchronize import Semaphore

from tether.assembly import policy_kit
from tether.contracts import EpisodeResult
from tether.eval.journal import Journal
from tether.eval.result import Setting
from tether.processes import spread
from tether.quiet import at_least
from tether.rollout import Rollout

OnResult = Callable[[EpisodeResult], None]


def evaluate(
    setting: Setting,
    episodes: int,
    *,
    workers: int = 1,
    journal: Journal | None = None,
    on_result: OnResult | None = None,
) -> list[EpisodeResult]:
    """The results of seeds seed … seed + episodes - 1 through the core loop, in order of seeds.

    workers: processes; an episode depends on its seed alone, so their number changes nothing but the time.
    journal: keeps finished episodes, so that an interrupted evaluation goes on where it stopped.
    """
    done = journal.read() if journal is not None else {}
    wanted = range(setting.seed, setting.seed + episodes)
    open_seeds = [seed for seed in wanted if seed not in done]
    for result in _run(setting, open_seeds, workers):
        done[result.spec.seed] = result
        if journal is not None:
            journal.append(result)
        if on_result is not None:
            on_result(result)
    return [done[seed] for seed in wanted]


def _run(setting: Setting, seeds: Sequence[int], workers: int) -> Iterator[EpisodeResult]:
    if not seeds:
        return
    if workers <= 1 or len(seeds) <= 1:
        with _rollout(setting) as rollout:
            for seed in seeds:
                yield rollout.episode(seed)
        return
    policy_kit(setting.policy), setting.key()  # what is wrong with the setting is said here, not by each worker
    first = multiprocessing.get_context("spawn").Semaphore(1)
    with contextlib.closing(spread(_worker_episode, seeds, workers, _start_worker, (setting, first))) as done:
        for _, result in done:
            yield result


_worker: list[Rollout] = []
"""The rollout of this worker process, made once by its initializer."""


def _start_worker(setting: Setting, first: Semaphore) -> None:
    """first: the worker that gets it says what the gate does not watch; the gates of the others are the same."""
    says = first.acquire(block=False)
    with contextlib.nullcontext() if says else at_least(logging.ERROR, "tether.safety"):
        _worker.append(_rollout(setting))


def _worker_episode(seed: int) -> EpisodeResult:
    return _worker[0].episode(seed)


def _rollout(setting: Setting) -> Rollout:
    return Rollout(
        setting.policy,
        setting.task,
        setting.profile,
        truth_age_ms=setting.truth_age_ms,
        arbitration=setting.arbitration,
    )
