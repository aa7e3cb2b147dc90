"""Processes of our own: none outlives the one that started it, however that one ended."""

from __future__ import annotations

import concurrent.futures
import ctypes
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from tether.interrupts import KeptInterrupt, held_interrupts
from tether.threads import one_thread_for_children

Item = TypeVar("Item")
Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1
_SPAWN = multiprocessing.get_context("spawn")
_AHEAD = 2
"""So many items a process are in the pool's hands: one in work and one to go on with."""
_LOOK_S = 0.2


def die_with_parent() -> None:
    """Have this process killed once the thread that started it has ended, however it ended (Linux: prctl(2))."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:  # it ended before it could be said
        os._exit(1)


def spread(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    start: Callable[..., None] | None = None,
    start_arguments: tuple[Any, ...] = (),
) -> Generator[tuple[Item, Result], None, None]:
    """Each item with what `task` makes of it, as they get done, over spawned processes of one numerical thread each.

    start: called in each process before its first item. Whoever closes the generator early, or asks to stop (Ctrl-C,
    SIGTERM, SIGHUP: KeptInterrupt), does not wait for the items in hand, and no process stays. Until the generator ends
    such a request is raised between two results only: anywhere within the pool it might get lost, or leave a lock held.
    """
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=_SPAWN, initializer=_begin, initargs=(start, start_arguments)
    )
    left = iter(items)
    asked: dict[concurrent.futures.Future[Result], Item] = {}
    with held_interrupts() as stops, pool:
        try:
            while True:
                with one_thread_for_children():  # the pool starts its processes as work is submitted
                    for item in itertools.islice(left, _AHEAD * workers - len(asked)):
                        asked[pool.submit(task, item)] = item
                if not asked:
                    return
                done, _ = concurrent.futures.wait(asked, _LOOK_S, concurrent.futures.FIRST_COMPLETED)
                if stops:
                    raise KeptInterrupt("", stops[0])
                for future in done:
                    yield asked.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _begin(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and ends this process
    if start is not None:
        start(*arguments)
