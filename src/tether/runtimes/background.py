"""Trials that take minutes, in a process beside the one that needs their outcome at its next start."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tether.models.store import Model
from tether.runtimes.interface import RuntimeName
from tether.runtimes.memory import Trial, key, locked, remember
from tether.runtimes.trial import BUILD_TIMEOUT_S, try_runtime

_LOG = logging.getLogger(__name__)
_RUNNING: dict[str, threading.Thread] = {}
Trier = Callable[[RuntimeName, Model, int, float], Trial]


def try_in_background(name: RuntimeName, model: Model, threads: int, trier: Trier = try_runtime) -> threading.Thread:
    """Try a runtime once, whoever else asks; what comes of it is remembered. The thread ends with the trial."""
    entry = key(model.manifest.sha256, name, threads)
    running = _RUNNING.get(entry)
    if running is not None and running.is_alive():
        return running

    def work() -> None:
        trial = trier(name, model, threads, BUILD_TIMEOUT_S)
        _LOG.warning("%s for model %s: %s", name.value, model.manifest.kind, trial.fault or "ready at the next start")
        try:
            with locked():
                remember(entry, trial)
        except OSError as error:
            _LOG.warning("the outcome could not be kept: %s", error)

    thread = threading.Thread(target=work, name=f"trial-{name.value}", daemon=True)
    _RUNNING[entry] = thread
    thread.start()
    return thread
