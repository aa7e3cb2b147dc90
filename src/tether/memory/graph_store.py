"""Where the graph of semantic memory lies: what a store is given, and what it is asked.

A store is an index and decides nothing. What may get in is checked, and what is believed is kept, before it
(`tether.memory.semantic`); it is made anew from the verified ledger at every opening.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tether.errors import InvalidInputError

Rows = list[dict[str, str]]


class GraphStoreError(InvalidInputError):
    """The store cannot be had: its URL, credentials, driver, or the server behind it."""


@dataclass(frozen=True)
class Individual:
    """A thing of the graph. of: what it is part of, or empty; values: of its parameters, in their own units."""

    name: str
    kind: str
    of: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Statement:
    """What one entry of the ledger says of one fact. object: empty where it is a state of the subject alone."""

    name: str
    subject: str
    relation: str
    object: str
    fact: str
    holds: bool
    stamp_ns: int
    source: str
    confidence: float
    run: str
    entry: int
    commit: str


@dataclass
class Changes:
    """What the store does not have yet. To apply the same twice is the same as once.

    superseded: (statement, the newer one); holding: (subject, relation, object) → whether it holds now.
    """

    things: list[Individual] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    superseded: list[tuple[str, str]] = field(default_factory=list)
    holding: dict[tuple[str, str, str], bool] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.things or self.statements or self.superseded or self.holding)


class GraphStore(Protocol):
    """Starts as empty for each opening of the memory."""

    def apply(self, changes: Changes) -> None:
        """Take all of it in or none. Raises GraphStoreError where the store cannot be had."""

    def query(self, text: str) -> Rows:
        """Answer of a question in the store's own language, by variable, as texts; nothing can be changed by it.

        Raises InvalidInputError for a question that is none, GraphStoreError where the store cannot be had."""

    def close(self) -> None:
        """Free what it holds."""


def open_store(url: str | None, memory: str) -> GraphStore:
    """The embedded store (Oxigraph, SPARQL) where url is None, else the Neo4j server that it names (Cypher).

    memory: name of this memory, under which a shared server keeps it apart. Raises GraphStoreError (URL, credentials,
    driver) and, without the extra `agent`, ModuleNotFoundError. A server is not asked for before there is something to
    say.
    """
    if url is None:
        from tether.memory.oxigraph_store import OxigraphStore

        return OxigraphStore()
    from tether.memory.neo4j_store import Neo4jStore

    return Neo4jStore(url, memory)
