"""Says on which runtimes a stage's models run: at the start of each episode, and where one falls back to another."""

from __future__ import annotations

from collections.abc import Callable

from tether.codec import sensors
from tether.event_kinds import MODEL_RUNTIMES
from tether_ros.node import StageNode


class RuntimeReporter:
    """Publishes an event of kind `MODEL_RUNTIMES`, by which `tether replay --check` takes the same runtimes."""

    def __init__(self, node: StageNode, runtimes: Callable[[], dict[str, str]]) -> None:
        """runtimes: see `tether.models.running.runtimes_of`."""
        self._node = node
        self._runtimes = runtimes
        self._said: dict[str, str] = {}

    def begin(self, stamp_ns: int) -> None:
        """At the start of an episode, so that a recording of any episode holds it. stamp_ns: of the start."""
        self._said = {}
        self.look(stamp_ns)

    def look(self, stamp_ns: int) -> None:
        """After a step: a model may run on another runtime since that step. stamp_ns: of what the step was about."""
        runtimes = self._runtimes()
        if runtimes == self._said:
            return
        severity = sensors.Severity.WARN if self._said else sensors.Severity.INFO
        self._said = runtimes
        text = ", ".join(f"model {sha256[:12]}… on {runtime}" for sha256, runtime in runtimes.items())
        self._node.event(severity, MODEL_RUNTIMES, text, {"runtimes": runtimes, "since_ns": stamp_ns})
