"""The graph of semantic memory in this process (Oxigraph), asked in SPARQL 1.1."""

from __future__ import annotations

from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.memory.graph_store import Changes, Individual, Rows, Statement

NAMESPACE = "urn:tether:"
_PREFIXES = {"t": NAMESPACE, "xsd": "http://www.w3.org/2001/XMLSchema#"}
_INTEGER, _DOUBLE, _BOOLEAN = (_PREFIXES["xsd"] + name for name in ("integer", "double", "boolean"))
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


class OxigraphStore:
    """See `tether.memory.graph_store.GraphStore`. Names without a prefix of their own are `t:`."""

    def __init__(self) -> None:
        """Raises ModuleNotFoundError without the extra `agent`."""
        import pyoxigraph

        self._ox = pyoxigraph
        self._store = pyoxigraph.Store()

    def apply(self, changes: Changes) -> None:
        """See `GraphStore`."""
        for thing in changes.things:
            self._thing(thing)
        for statement in changes.statements:
            self._statement(statement)
        for old, new in changes.superseded:
            self._add(_statement_name(old), "superseded_by", self._name(_statement_name(new)))
        for (subject, relation, target), holds in changes.holding.items():
            what = self._name(target) if target else self._literal("true", _BOOLEAN)
            quad = self._ox.Quad(self._name(subject), self._name(relation), what)
            if holds:
                self._store.add(quad)
            else:
                self._store.remove(quad)

    def query(self, text: str) -> Rows:
        """Answer of SELECT (variables → texts), ASK (`{"": "true"}`) or CONSTRUCT. InvalidInputError for bad SPARQL."""
        try:
            answer = self._store.query(text, prefixes=_PREFIXES)
        except SyntaxError as error:
            fault = Fault("SPARQL", str(error), "SPARQL 1.1: SELECT, ASK or CONSTRUCT")
            raise InvalidInputError("query", [fault]) from None
        if isinstance(answer, self._ox.QueryBoolean):
            return [{"": str(bool(answer)).lower()}]
        if isinstance(answer, self._ox.QueryTriples):
            return [{"s": _text(s), "p": _text(p), "o": _text(o)} for s, p, o in answer]
        names = [variable.value for variable in answer.variables]
        return [{n: _text(row[n]) for n in names if row[n] is not None} for row in answer]

    def close(self) -> None:
        """See `GraphStore`; it is in memory only."""

    def _thing(self, thing: Individual) -> None:
        self._add(thing.name, "type", self._name(thing.kind))
        if thing.of:
            self._add(thing.name, "part_of", self._name(thing.of))
        for name, value in thing.values.items():
            self._add(thing.name, name, self._literal(repr(value), _DOUBLE))

    def _statement(self, said: Statement) -> None:
        values = {
            "type": self._name("Statement"),
            "subject": self._name(said.subject), "relation": self._name(said.relation),
            "fact": self._literal(said.fact), "holds": self._literal(str(said.holds).lower(), _BOOLEAN),
            "source": self._literal(said.source), "stamp_ns": self._literal(str(said.stamp_ns), _INTEGER),
            "confidence": self._literal(repr(said.confidence), _DOUBLE), "run": self._literal(said.run),
            "entry": self._literal(str(said.entry), _INTEGER), "commit": self._literal(said.commit),
        }  # fmt: skip
        if said.object:
            values["object"] = self._name(said.object)
        for name, value in values.items():
            self._add(_statement_name(said.name), name, value)

    def _add(self, subject: str, predicate: str, value: Any) -> None:
        verb = self._ox.NamedNode(_TYPE) if predicate == "type" else self._name(predicate)
        self._store.add(self._ox.Quad(self._name(subject), verb, value))

    def _name(self, name: str) -> Any:
        return self._ox.NamedNode(NAMESPACE + name)

    def _literal(self, text: str, kind: str | None = None) -> Any:
        return self._ox.Literal(text, datatype=None if kind is None else self._ox.NamedNode(kind))


def _statement_name(name: str) -> str:
    return f"statement:{name}"


def _text(term: Any) -> str:
    return str(term.value).removeprefix(NAMESPACE)
