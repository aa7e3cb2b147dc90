"""Visual memory: what places looked like to the robot's own eyes, found again by likeness.

A sighting is what the eyes' ResNet34 made of a picture: a map of 6 x 8 tokens of 64 numbers (`tether.vision.network`).
Two ways of keeping it are measured (`tether bench memory`): the map as it is, so that likeness says what stands *where*
(3,072 numbers), and the mean over the map, which says only what there is (64). Distance is Euclidean: whatever all
pictures of a robot have in common, its own arm among it, then cancels out.

Sightings are entries of the signed ledger like all else that is kept. The FAISS index over them is exact and made anew
from the ledger whenever it is opened (a memory copy a sighting), so there is no second store to tamper with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from tether.agent.domain import Domain
from tether.contracts import F32
from tether.errors import Fault, InvalidInputError
from tether.memory.ledger import Entry
from tether.vision.geometry import TOKEN_DIM, TOKENS

KIND = "sight"
"""Of the ledger's entries that this memory is made from."""
SIGHTINGS_MAX = 20_000
_LARGEST = 1e3
"""Tokens are of the order of one; what is far beyond it would draw or repel every search."""


class Aggregation(str, Enum):
    """How a map of tokens is kept."""

    MAP = "map"
    MEAN = "mean"

    @property
    def size(self) -> int:
        """Numbers of a descriptor."""
        return TOKENS * TOKEN_DIM if self is Aggregation.MAP else TOKEN_DIM

    def of(self, tokens: F32) -> F32:
        """(size,) float32 of tokens (48, 64). Raises InvalidInputError for another shape or what is not finite."""
        if tokens.shape != (TOKENS, TOKEN_DIM) or not np.isfinite(tokens).all():
            found = f"{list(tokens.shape)}, finite: {bool(np.isfinite(tokens).all())}"
            raise InvalidInputError("sighting", [Fault("tokens", found, f"({TOKENS}, {TOKEN_DIM}) finite numbers")])
        kept = tokens.ravel() if self is Aggregation.MAP else tokens.mean(axis=0)
        return np.ascontiguousarray(kept, np.float32)


@dataclass(frozen=True)
class Sighting:
    """A remembered look. facts: what the sensors held true or false then; distance: of what was asked for, in the
    tokens' unit; entry: of the ledger, which the semantic memory's statements name, too."""

    entry: int
    run: str
    stamp_ns: int
    facts: Mapping[str, bool]
    distance: float


def sighting_body(
    tokens: F32, aggregation: Aggregation, eyes_sha256: str, run: str, stamp_ns: int, facts: Mapping[str, bool]
) -> dict[str, Any]:
    """A sighting for the ledger, its numbers in half precision."""
    packed = aggregation.of(tokens).astype("<f2").tobytes()
    return {
        "run": run,
        "stamp_ns": stamp_ns,
        "eyes": eyes_sha256,
        "aggregation": aggregation.value,
        "facts": dict(facts),
        "descriptor": base64.b64encode(packed).decode(),
    }


class VisualMemory:
    """The index. `faults` first, then `add`; `alike` asks. One kind of descriptor, from one model of eyes."""

    def __init__(self, domain: Domain, eyes_sha256: str, aggregation: Aggregation = Aggregation.MAP) -> None:
        """eyes_sha256: of the model whose tokens are kept; those of others mean something else. Raises
        ModuleNotFoundError without the extra `agent`."""
        import faiss

        self._index = faiss.IndexFlatL2(aggregation.size)
        self._domain, self.eyes_sha256, self.aggregation = domain, eyes_sha256, aggregation
        self._sightings: list[tuple[int, str, int, Mapping[str, bool]]] = []
        self._known: set[str] = set()

    def __len__(self) -> int:
        return len(self._sightings)

    def faults(self, body: Mapping[str, Any]) -> list[str]:
        """Why a sighting may not be believed; empty where it may: fields, eyes, numbers, names, and whether it was
        given before."""
        found = _shape(body)
        if found:
            return found
        if body["eyes"] != self.eyes_sha256:
            found.append(
                f"eyes {body['eyes'][:12]}: these are {self.eyes_sha256[:12]}, whose tokens mean something else"
            )
        if body["aggregation"] != self.aggregation.value:
            found.append(f"aggregation {body['aggregation']!r:.40}: expected {self.aggregation.value}")
        found += [
            f"{name!r:.60}: no fact of the domain" for name in body["facts"] if name not in self._domain.spec.facts
        ]
        found += self._descriptor_faults(body["descriptor"])
        if _identity(body) in self._known:
            found.append("replayed: this very look is held already")
        if len(self) >= SIGHTINGS_MAX:
            found.append(f"more than {SIGHTINGS_MAX} sightings")
        return found

    def add(self, entry: Entry) -> None:
        """Take a verified entry in that has no `faults`."""
        body = entry.body
        self._index.add(_unpacked(body["descriptor"])[None])
        self._sightings.append((entry.sequence, body["run"], body["stamp_ns"], dict(body["facts"])))
        self._known.add(_identity(body))

    def alike(self, tokens: F32, k: int, state: Mapping[str, bool] | None = None) -> list[Sighting]:
        """The k sightings most alike, nearest first; fewer where no more are held.

        state: what is known now; sightings whose facts it contradicts are passed over, since the present is right.
        Raises InvalidInputError for tokens that are none.
        """
        wanted = self.aggregation.of(tokens)
        asked = min(len(self), k if not state else len(self))
        if asked < 1 or k < 1:
            return []
        squares, rows = self._index.search(wanted[None], asked)
        found: list[Sighting] = []
        for square, row in zip(squares[0].tolist(), rows[0].tolist(), strict=True):
            sequence, run, stamp_ns, facts = self._sightings[row]
            if all((state or {}).get(name, value) == value for name, value in facts.items()):
                found.append(Sighting(sequence, run, stamp_ns, facts, max(square, 0.0) ** 0.5))
            if len(found) == k:
                break
        return found

    def _descriptor_faults(self, text: str) -> Sequence[str]:
        try:
            values = _unpacked(text)
        except (ValueError, binascii.Error):
            return ["descriptor: expected base64 of numbers in half precision"]
        if values.shape != (self.aggregation.size,):
            return [f"descriptor: {values.size} numbers, expected {self.aggregation.size}"]
        if not np.isfinite(values).all() or float(np.abs(values).max()) > _LARGEST or not values.any():
            return [f"descriptor: expected finite numbers up to {_LARGEST:g}, not all zero"]
        return []


def _shape(body: Mapping[str, Any]) -> list[str]:
    wanted = {"run": str, "stamp_ns": int, "eyes": str, "aggregation": str, "facts": dict, "descriptor": str}
    if set(body) != set(wanted):
        return [f"fields {', '.join(sorted(body))}: expected {', '.join(wanted)}"]
    found = [f"{name}: expected {kind.__name__}" for name, kind in wanted.items() if type(body[name]) is not kind]
    if not found and body["stamp_ns"] < 0:
        found.append(f"stamp_ns {body['stamp_ns']}: expected 0 or more")
    if not found and not all(type(value) is bool for value in body["facts"].values()):
        found.append("facts: expected true or false each")
    return found


def _unpacked(text: str) -> F32:
    values: F32 = np.frombuffer(base64.b64decode(text, validate=True), "<f2").astype(np.float32)
    return values


def _identity(body: Mapping[str, Any]) -> str:
    """Of a look: what was seen, when, in which run."""
    text = f"{body['run']}\n{body['stamp_ns']}\n{body['descriptor']}"
    return hashlib.sha256(text.encode()).hexdigest()
