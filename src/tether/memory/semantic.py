"""Semantic memory: objects, places, parts and their relations as a graph that is asked in SPARQL (Neo4j: Cypher).

Filled from verified states of runs, each fact with its stamp, source and confidence. What is newer supersedes what was
held, and nothing is thrown away. The graph is an index (`tether.memory.graph_store`), rebuilt from the ledger when it
is opened: only what was verified there gets in.

`t:gripper t:holds t:red_cube` says what holds now. Beside it stands every statement that was ever made:
`?s a t:Statement; t:subject ?x; t:relation ?r; t:object ?y; t:holds ?truth; t:stamp_ns ?ns; t:source ?from;
t:confidence ?c; t:run ?run; t:entry ?n`, with `t:superseded_by` once a newer one took its place.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.agent.domain import Domain
from tether.agent.facts import Literal
from tether.agent.graph import Node
from tether.agent.observing import SURE_M
from tether.config import bounded, load
from tether.errors import Fault, InvalidInputError
from tether.memory.graph_store import Changes, GraphStore, Individual, Rows, Statement
from tether.memory.ledger import Entry
from tether.resources import resource_path

_STAMP_MAX_NS = 2**63
"""Of ROS 2's stamps, and of what the graph can hold."""
_TAKEN = {"kind", "memory", "name", "part_of", "states", "type"}
"""What the graph says of things itself, and no parameter can be called."""
KIND = "state"
"""Of the ledger's entries that this memory is made from."""


@dataclass(frozen=True)
class Thing:
    """Something with a name, or with parameters one thing for each set of their values."""

    kind: str
    of: str = bounded(default="", doc="the thing that it is a part of")
    parameters: tuple[str, ...] = bounded(default=(), doc="of the task; for each set of their values it is one thing")
    doc: str = bounded(default="")


@dataclass(frozen=True)
class Relation:
    """What a fact says. object: left out where it is a state of the subject alone."""

    subject: str
    relation: str
    object: str = bounded(default="")
    single: bool = bounded(default=False, doc="the subject has it to one object at a time")
    ends: tuple[str, ...] = bounded(default=(), doc="`subject relation` that cannot hold beside it")


@dataclass(frozen=True)
class SourceSpec:
    """How far a source of facts is believed."""

    confidence: float = bounded(0.0, 1.0, unit="1")
    sight: bool = bounded(default=False, doc="less, the larger the estimate's sigma is")


@dataclass(frozen=True)
class SemanticTable:
    """config/agent/semantics.yaml."""

    things: dict[str, Thing]
    relations: dict[str, Relation]
    sources: dict[str, SourceSpec]

    def __post_init__(self) -> None:
        faults = []
        for name, thing in self.things.items():
            if thing.of and thing.of not in self.things:
                faults.append(Fault(f"things: {name}: of", repr(thing.of), "a thing"))
            for taken in _TAKEN.intersection(thing.parameters):
                faults.append(Fault(f"things: {name}: parameters", taken, f"none of {', '.join(sorted(_TAKEN))}"))
        for name, relation in self.relations.items():
            ends = [text.split(" ")[0] for text in relation.ends]
            for what in (relation.subject, *([relation.object] if relation.object else []), *ends):
                if what not in self.things:
                    faults.append(Fault(f"relations: {name}", repr(what), f"one of {', '.join(self.things)}"))
        if faults:
            raise InvalidInputError("semantics", faults)


def load_semantics(domain: Domain, path: Path | None = None) -> SemanticTable:
    """The table of a domain; InvalidInputError where it names facts that are none of its."""
    where = resource_path("config", "agent") / "semantics.yaml" if path is None else path
    table = load(where, SemanticTable)
    unknown = [name for name in table.relations if name not in domain.spec.facts]
    if unknown:
        known = ", ".join(domain.spec.facts)
        raise InvalidInputError(str(where), [Fault("relations", name, f"a fact of {known}") for name in unknown])
    return table


def confidence(table: SemanticTable, source: str, evidence: Mapping[str, float]) -> float:
    """How far a fact is to be believed, 0 to 1: the source's own, for sight times the chance that an error drawn from
    a plane normal distribution of the estimate's sigma (evidence `sigma_m`) stays within what counts as sure, 30 mm."""
    spec = table.sources[source]
    sigma_m = evidence.get("sigma_m", 0.0)
    if not spec.sight or sigma_m <= 0.0:
        return spec.confidence
    return spec.confidence * (1.0 - math.exp(-0.5 * (SURE_M / sigma_m) ** 2))


def state_body(
    table: SemanticTable, domain: Domain, node: Node, run: str, parameters: Mapping[str, float]
) -> dict[str, Any]:
    """What is kept of a verified state: facts that were fresh then and stand for a relation."""
    facts = [
        {"name": fact.name, "value": fact.value, "stamp_ns": fact.stamp_ns, "source": fact.source,
         "confidence": round(confidence(table, fact.source, node.evidence), 4)}
        for fact in node.facts
        if fact.name in table.relations and fact.source in table.sources
        and node.stamp_ns - fact.stamp_ns <= domain.max_age_ns[fact.name]
    ]  # fmt: skip
    return {"run": run, "stamp_ns": node.stamp_ns, "parameters": dict(parameters), "facts": facts}


class SemanticMemory:
    """The graph, and what is believed of it. `faults` first, then `add`; `query` and `believed` ask.

    What is believed is kept here and never read back from the store, which is an index for `query` alone.
    """

    def __init__(self, table: SemanticTable, domain: Domain, store: GraphStore) -> None:
        """store: an empty one, see `tether.memory.graph_store.open_store`."""
        self._table, self._domain, self._store = table, domain, store
        self._changes = Changes()
        self._things: set[str] = set()
        self._newest: dict[tuple[str, str, str], tuple[str, bool]] = {}
        self._last: tuple[str, int] = ("", 0)
        self.statements = 0
        for name, thing in table.things.items():
            if not thing.parameters:
                self._meet(name, thing, {})

    def faults(self, body: Mapping[str, Any]) -> list[str]:
        """Why a state may not be believed; empty where it may: names, types, bounds, times, and what excludes what."""
        found = _shape(body)
        if found:
            return found
        run, newest_ns = self._last
        if body["run"] == run and body["stamp_ns"] < newest_ns:
            found.append(f"stamp {body['stamp_ns']} ns: older than the newest of {run}, {newest_ns} ns")
        for fact in body["facts"]:
            name = fact["name"]
            if name not in self._table.relations:
                found.append(f"{name}: no fact of the domain")
            elif fact["source"] not in self._table.sources:
                found.append(f"{name}: source {fact['source']!r} is none of {', '.join(self._table.sources)}")
            elif not 0 <= body["stamp_ns"] - fact["stamp_ns"] <= self._domain.max_age_ns[name]:
                found.append(f"{name}: stamp {fact['stamp_ns']} ns, too old or later than its state")
        if not found:
            try:
                self._domain.closure(Literal(fact["name"], fact["value"]) for fact in body["facts"])
            except ValueError as error:
                found.append(f"contradicts itself: {error}")
        return found

    def add(self, entry: Entry) -> None:
        """Take a verified entry in that has no `faults`. `flush` hands it on to the store."""
        body = entry.body
        self._last = (body["run"], body["stamp_ns"])
        for fact in body["facts"]:
            self._state(entry, fact, body["parameters"])

    def flush(self) -> None:
        """Hand on what the store does not have yet; it is kept for the next time where GraphStoreError is raised."""
        if self._changes:
            self._store.apply(self._changes)
            self._changes = Changes()

    def query(self, text: str) -> Rows:
        """See `GraphStore.query`; by default the language is SPARQL."""
        self.flush()
        return self._store.query(text)

    def believed(self, name: str, parameters: Mapping[str, float]) -> bool | None:
        """What is held of a fact, whatever its age; None where nothing ever was."""
        known = self._newest.get(self._key(self._table.relations[name], parameters))
        return None if known is None else known[1]

    def contradictions(self, state: Mapping[str, bool], parameters: Mapping[str, float]) -> tuple[str, ...]:
        """Facts of the present that memory holds otherwise. The present is right: what was held of them is not used."""
        return tuple(
            name
            for name in self._table.relations
            if name in state and self.believed(name, parameters) not in (None, state[name])
        )

    # The graph

    def _state(self, entry: Entry, fact: Mapping[str, Any], parameters: Mapping[str, float]) -> None:
        relation = self._table.relations[fact["name"]]
        for of in (relation.subject, relation.object):
            if of:
                self._meet(of, self._table.things[of], parameters)
        key = self._key(relation, parameters)
        subject, predicate, target = key
        name, holds = f"{entry.sequence}-{fact['name']}", bool(fact["value"])
        self._changes.statements.append(
            Statement(
                name, subject, predicate, target, fact["name"], holds, fact["stamp_ns"], fact["source"],
                float(fact["confidence"]), entry.body["run"], entry.sequence,
                _whole(str(entry.provenance.get("commit", ""))),
            )
        )  # fmt: skip
        self.statements += 1
        if holds:
            for text in relation.ends:
                whose, which = text.split(" ")
                self._end(whose, which, name)
            if relation.single:
                self._end(subject, predicate, name)
        self._supersede(key, name)
        self._newest[key] = (name, holds)
        if holds:
            self._changes.holding[key] = True

    def _end(self, subject: str, predicate: str, by: str) -> None:
        """What the new statement makes untrue of others."""
        for key, (name, holds) in list(self._newest.items()):
            if key[:2] == (subject, predicate) and holds:
                self._supersede(key, by)
                self._newest[key] = (name, False)

    def _supersede(self, key: tuple[str, str, str], by: str) -> None:
        known = self._newest.get(key)
        if known is None:
            return
        self._changes.superseded.append((known[0], by))
        if known[1]:
            self._changes.holding[key] = False

    def _key(self, relation: Relation, parameters: Mapping[str, float]) -> tuple[str, str, str]:
        return (
            self._individual(relation.subject, parameters),
            relation.relation,
            self._individual(relation.object, parameters) if relation.object else "",
        )

    def _individual(self, name: str, parameters: Mapping[str, float]) -> str:
        return "_".join([name, *(f"{value:+.4f}" for value in _values(self._table.things[name], parameters).values())])

    def _meet(self, name: str, thing: Thing, parameters: Mapping[str, float]) -> None:
        own = self._individual(name, parameters)
        if own not in self._things:
            self._things.add(own)
            self._changes.things.append(Individual(own, thing.kind.capitalize(), thing.of, _values(thing, parameters)))


def _values(thing: Thing, parameters: Mapping[str, float]) -> dict[str, float]:
    return {p: round(float(parameters.get(p, 0.0)), 4) for p in thing.parameters}


def _shape(body: Mapping[str, Any]) -> list[str]:
    if set(body) != {"run", "stamp_ns", "parameters", "facts"}:
        return [f"fields {', '.join(sorted(body))}: expected run, stamp_ns, parameters, facts"]
    found = []
    if (
        not isinstance(body["run"], str)
        or _whole(body["run"]) != body["run"]
        or type(body["stamp_ns"]) is not int
        or not isinstance(body["facts"], list)
    ):
        found.append("run, stamp_ns or facts of another type")
    elif not 0 <= body["stamp_ns"] < _STAMP_MAX_NS:
        found.append(f"stamp {body['stamp_ns']} ns: expected 0 to 2^63 - 1")
    elif not isinstance(body["parameters"], dict) or not all(_finite(v) for v in body["parameters"].values()):
        found.append("parameters: finite numbers by name are expected")
    else:
        found += [text for fact in body["facts"] for text in _fact_shape(fact)]
    return found


def _fact_shape(fact: Any) -> Iterable[str]:
    if not isinstance(fact, dict) or set(fact) != {"name", "value", "stamp_ns", "source", "confidence"}:
        yield f"{fact!r:.80}: expected name, value, stamp_ns, source, confidence"
    elif not isinstance(fact["name"], str) or not isinstance(fact["source"], str):
        yield f"{fact!r:.80}: expected texts for name and source"
    elif not isinstance(fact["value"], bool) or type(fact["stamp_ns"]) is not int or fact["stamp_ns"] < 0:
        yield f"{fact['name']}: expected true or false, and a stamp in ns"
    elif not _finite(fact["confidence"]) or not 0.0 <= fact["confidence"] <= 1.0:
        yield f"{fact['name']}: confidence {fact['confidence']!r}, expected 0 to 1"


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and -sys.float_info.max <= value <= sys.float_info.max


def _whole(text: str) -> str:
    """JSON can say halves of a character, which no graph can hold: `?` for each."""
    return text.encode(errors="replace").decode()
