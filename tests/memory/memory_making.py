"""A long-term memory of a test's own, and what it is told."""

from __future__ import annotations

from pathlib import Path

from tether.agent.domain import load_domain
from tether.memory.graph_store import Changes, Individual, Statement
from tether.memory.ledger import Ledger
from tether.memory.long_term import LongTermMemory
from tether.signing.ecdsa import PrivateKey
from tether.signing.trust import Purpose, TrustedKey

KEY = PrivateKey.generate()
KEYS = {KEY.public.id: TrustedKey(KEY.public, Purpose.DEVELOPMENT)}
PROVENANCE = {"run": "test", "commit": "c0ffee", "stamp_ns": 1}


def opened(folder: Path, url: str | None) -> LongTermMemory:
    """The memory in a folder, with its graph on a server or, without a URL, embedded."""
    ledger = Ledger(folder / "memory", KEY, KEYS, folder / "state")
    return LongTermMemory(folder, load_domain(), commit="c0ffee", ledger=ledger, store_url=url)


def state(stamp_ns: int, x: float = 0.2, **facts: bool) -> dict[str, object]:
    """A verified state as the ledger keeps it. facts: by name, of the joints."""
    rows = [
        {"name": name, "value": value, "stamp_ns": stamp_ns, "source": "joints", "confidence": 0.9}
        for name, value in facts.items()
    ]
    return {"run": "r", "stamp_ns": stamp_ns, "parameters": {"x": x, "y": -0.1}, "facts": rows}


def thing(name: str, kind: str, of: str = "", **values: float) -> Individual:
    return Individual(name, kind, of, values)


def said(name: str, subject: str, relation: str, target: str, holds: bool, stamp_ns: int) -> Statement:
    return Statement(name, subject, relation, target, "f", holds, stamp_ns, "joints", 0.5, "r'\"}) x", 1, "c0ffee")


THINGS = Changes(
    things=[thing("robot", "Robot"), thing("arm", "Part", "robot"), thing("spot", "Place", x=0.25, y=-0.5)]
)
HOLDS = Changes(
    statements=[said("1-f", "arm", "reaches", "spot", True, 2**62)], holding={("arm", "reaches", "spot"): True}
)
ENDS = Changes(
    statements=[said("2-f", "arm", "reaches", "spot", False, 2**62 + 1)], superseded=[("1-f", "2-f")],
    holding={("arm", "reaches", "spot"): False},
)  # fmt: skip
OPEN, SHUT = (Changes(holding={("arm", "is_open", ""): value}) for value in (True, False))
