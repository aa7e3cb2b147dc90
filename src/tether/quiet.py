"""Loggers that say less for a while: levels belong to the process, and whoever changes one gives it back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_least(level: int, *names: str) -> Iterator[None]:
    """Within, the loggers of these names ("": the root) pass nothing below `level`; afterwards what they did before."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.level, level))
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.setLevel(was)
