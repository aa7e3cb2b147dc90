"""Task and call ids in every log record, and log records in the task's trace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Scope:
    """What this thread or coroutine works on."""

    task_id: str
    call_id: str


_SCOPE: ContextVar[Scope | None] = ContextVar("tether_task", default=None)


@contextmanager
def working_on(task_id: str, call_id: str) -> Iterator[None]:
    """Everything that is logged inside carries these ids."""
    token = _SCOPE.set(Scope(task_id, call_id))
    try:
        yield
    finally:
        _SCOPE.reset(token)


def current_scope() -> Scope | None:
    """What is worked on here; None outside a task."""
    return _SCOPE.get()


class TaskFilter(logging.Filter):
    """Gives every record `task_id` and `call_id`, `-` outside a task; for formatters. Lets all pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        scope = _SCOPE.get()
        record.task_id = scope.task_id if scope else "-"
        record.call_id = scope.call_id if scope else "-"
        return True


class TraceHandler(logging.Handler):
    """Hands records made inside a task to `note(task_id, call_id, event, detail)`, which must not block or log."""

    def __init__(self, note: Callable[[str, str, str, str], None], level: int = logging.INFO) -> None:
        super().__init__(level)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        scope = _SCOPE.get()
        if scope is not None:
            text = f"{record.levelname} {record.name}: {record.getMessage()}"
            self._note(scope.task_id, scope.call_id, "log", text[:2000])


def log_with_tasks(level: int) -> None:
    """Log to the standard error with the ids in each line."""
    handler = logging.StreamHandler()
    handler.addFilter(TaskFilter())
    form = "%(levelname)s %(name)s task=%(task_id)s call=%(call_id)s: %(message)s"
    logging.basicConfig(level=level, format=form, handlers=[handler], force=True)
