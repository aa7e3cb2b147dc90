"""Which alternative serves a call: by the need that is stated, and by what was measured of each.

Success comes first: an alternative whose share of successes is worse than the best one's beyond doubt (its 95 % Wilson
interval lies below the best one's) is out, whatever it costs. Among the others speed takes the least time of a call,
precision the least error. Figures are those of the manifests, so a choice can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tether.alternatives.models import Kind, model_kind
from tether.contracts import Primitive
from tether.errors import Fault, InvalidInputError
from tether.eval.statistics import wilson
from tether.models.manifest import Manifest

ERROR, LATENCY_P50, LATENCY_P99 = "error", "latency_p50_us", "latency_p99_us"
SUCCESSES, EPISODES = "successes", "episodes"
SCORES = (ERROR, LATENCY_P50, LATENCY_P99, SUCCESSES, EPISODES)
"""Names in a manifest's `scores`."""


class Need(str, Enum):
    """What a call asks for."""

    SPEED = "speed"
    PRECISION = "precision"


@dataclass(frozen=True)
class Measured:
    """What is known of an alternative for one primitive.

    error: root mean square over held-out decisions and all parameters, of the scaled ones. latency_p99_us: of a call.
    successes of episodes: with this alternative for every primitive.
    """

    error: float
    latency_p99_us: float
    successes: int
    episodes: int


@dataclass(frozen=True)
class Choice:
    """The alternative taken, and why."""

    kind: Kind
    reason: str


def measured(manifest: Manifest) -> Measured:
    """The figures in a manifest; raises InvalidInputError naming those that were never measured."""
    missing = [name for name in SCORES if name not in manifest.scores]
    if missing:
        fault = Fault(f"{manifest.kind} scores", f"no {', '.join(missing)}", ", ".join(SCORES))
        raise InvalidInputError("alternatives", [fault], "measure them: `tether train alternatives`")
    scores = manifest.scores
    return Measured(scores[ERROR], scores[LATENCY_P99], int(scores[SUCCESSES]), int(scores[EPISODES]))


def choose(need: Need, primitive: Primitive, offers: Mapping[Kind, Measured]) -> Choice:
    """The alternative for a call of `primitive`; raises InvalidInputError where none was tried in any episode."""
    intervals = {kind: wilson(offer.successes, offer.episodes) for kind, offer in offers.items() if offer.episodes}
    if not intervals:
        names = ", ".join(model_kind(kind, primitive) for kind in offers) or "none"
        fault = Fault("alternatives", f"no episodes of {names}", "one that was tried")
        raise InvalidInputError("choice of a model", [fault], "measure them: `tether train alternatives`")
    floor = max(low for low, _ in intervals.values())
    fit = [kind for kind, (_, high) in intervals.items() if high >= floor]
    if need is Need.SPEED:
        kind = min(fit, key=lambda k: offers[k].latency_p99_us)
        why = f"{offers[kind].latency_p99_us:.0f} us a call (p99)"
    else:
        kind = min(fit, key=lambda k: offers[k].error)
        why = f"error {offers[kind].error:.4f}"
    out = f", {len(offers) - len(fit)} out for success" if len(fit) < len(offers) else ""
    return Choice(kind, f"{need.value}: {why}, {offers[kind].successes} of {offers[kind].episodes} episodes{out}")
