"""Which pictures the eyes look at in real time: told of decisions and the computer's state, it says what it chose."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic_ns
from typing import Any

from tether_ros.node import StageNode

from tether.assembly import skills
from tether.bridge.stage import SINCE_BEFORE
from tether.codec import sensors
from tether.contracts import HybridAction
from tether.event_kinds import LOOKING
from tether.ingest.looking import Choice, Looking, Where, load_looking_config, wish_of
from tether.ingest.machine import MachineWatch
from tether.ingest.rejection import Reason
from tether.resources import resource_path

_READ_S = 1.0


class EyesGovernor:
    """See `tether.ingest.looking`. An event of kind `LOOKING` for every change of the rate or of its reasons."""

    def __init__(self, node: StageNode) -> None:
        self._node = node
        self._looking = Looking(load_looking_config(resource_path("config", "looking.yaml")))
        self._watch = MachineWatch()
        self._said: tuple[Any, ...] = (0, (), False)
        node.every(_READ_S, lambda: self._looking.hear(self._watch.read()))

    def begin_episode(self) -> None:
        """See `Looking.begin_episode`."""
        self._looking.begin_episode()

    @property
    def image_size_max(self) -> int | None:
        """See `Looking.image_size_max`."""
        return self._looking.image_size_max

    def decided(self, action: HybridAction, latency_ns: Mapping[str, int]) -> None:
        """A decision came, with its latencies."""
        wish = wish_of(skills(), action.primitive, action.params)
        self._looking.decided(latency_ns.get(SINCE_BEFORE), wish)

    def looked(self, took_ns: int) -> None:
        """See `Looking.looked`."""
        self._looking.looked(took_ns)

    def left_out(self, stamp_ns: int) -> Reason | None:
        """Why the picture of `stamp_ns` is not looked at; None where it is."""
        choice = self._looking.choose(stamp_ns, monotonic_ns())
        if choice.state != self._said:
            self._said = choice.state
            self._say(choice, stamp_ns)
        return choice.reasons[0] if choice.where is Where.COAST else None

    def _say(self, choice: Choice, stamp_ns: int) -> None:
        looking = self._looking
        least_ms = looking.config.least_ms[choice.step]
        reasons = [reason.value for reason in choice.reasons]
        how_often = f"at most one picture in {least_ms:g} ms" if least_ms else "every picture"
        text = f"the eyes look at {how_often}" + (f": {', '.join(reasons)}" if reasons else "")
        if choice.degraded:
            text += "; a workstation was asked for and there is none, so they look here"
        data = {
            "since_ns": stamp_ns,
            "step": choice.step,
            "least_ms": least_ms,
            "reasons": reasons,
            "workstation_asked": choice.degraded,
            "late_decisions": choice.late,
            "look_ms": looking.look_ms,
            "cpu_c": looking.machine.cpu_c,
            "throttled": looking.machine.throttled,
            "available_mb": looking.machine.available_mb,
            "coasted": {reason.value: count for reason, count in looking.coasted.items()},
        }
        severity = sensors.Severity.WARN if Reason.THROTTLED in choice.reasons else sensors.Severity.INFO
        self._node.event(severity, LOOKING, text, data)
