"""Threads of the numerical libraries. These read the environment once, when NumPy is first imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""What limits the OpenBLAS of NumPy's wheels, in the order in which it looks."""


def numerical_threads() -> int:
    """How many threads a numerical library of this process may use: the environment's number, else every CPU's."""
    for name in VARIABLES:
        text = os.environ.get(name, "").strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_one_thread() -> None:
    """One thread for this process and its children, unless the caller's environment says otherwise.

    To be called before NumPy is imported.
    """
    for name in VARIABLES:
        os.environ.setdefault(name, "1")


@contextmanager
def one_thread_for_children() -> Iterator[None]:
    """Processes begun inside have one thread each, unless the environment says otherwise; it is put back after."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    use_one_thread()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
