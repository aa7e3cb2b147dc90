"""The reasoning of a run as a graph: nodes are verified states of the world, edges the skills between them.

Kept as JSON, drawn as Graphviz dot, and asked at which step the judgement went wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tether.agent.calls import Fact
from tether.agent.deadline import Timeliness
from tether.agent.edges import EdgeEvent
from tether.errors import Fault, InvalidInputError
from tether.files import replaced

FORMAT = 1


@dataclass(frozen=True)
class Node:
    """A state as sensors verified it. evidence: the numbers behind the facts, SI. judged: what a judge outside
    the robot says of some of the facts, in simulation only; the robot never sees it."""

    id: int
    stamp_ns: int
    facts: tuple[Fact, ...]
    evidence: Mapping[str, float]
    judged: Mapping[str, bool] = field(default_factory=dict)

    def value(self, name: str) -> object:
        """What a fact says here; None where it is not known."""
        return next((fact.value for fact in self.facts if fact.name == name), None)


@dataclass(frozen=True)
class Edge:
    """One call of a skill between two states.

    expected: its effect, as `name` or `not name`; status, failure: of its outcome. why: chosen as a step of the task,
    as recovery of a failure, or as a detour to an unmet precondition. agent: who did it, empty where there is one only.
    """

    source: int
    target: int
    call_id: str
    skill: str
    way: str
    parameters: Mapping[str, float]
    attempt: int
    why: str
    expected: tuple[str, ...]
    status: str
    failure: str | None
    detail: str = ""
    agent: str = ""


@dataclass(frozen=True)
class Judgement:
    """Where the judgement went wrong first. kind: `expectation` (a skill did not have the effect that was expected of
    it) or `perception` (sensors held what was not so; known only where a judge saw the truth)."""

    edge: int
    skill: str
    kind: str
    expected: tuple[str, ...]
    found: tuple[str, ...]
    failure: str | None


@dataclass
class RunGraph:
    """Grows during a run; `record` and `read` are its JSON."""

    task: str
    task_id: str
    parameters: Mapping[str, float]
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    outcome: str = "running"
    failure: str | None = None
    timeliness: Timeliness | None = None
    """How its deadline was kept; None while it runs."""
    breakers: list[EdgeEvent] = field(default_factory=list)
    """What became of edges' circuit breakers during the run, in order."""

    def judgements(self) -> list[Judgement]:
        """Every step at which the judgement was wrong, in order; the first is the one that is asked for."""
        found = []
        for number, edge in enumerate(self.edges):
            node = self.nodes[edge.target]
            wrong = tuple(text for text in edge.expected if not _holds(node, text))
            lies = tuple(name for name, truth in node.judged.items() if node.value(name) not in (None, truth))
            if lies:
                said = tuple(f"{name}: sensors {node.value(name)}, judge {node.judged[name]}" for name in lies)
                found.append(Judgement(number, edge.skill, "perception", edge.expected, said, edge.failure))
            elif wrong:
                said = tuple(_said(node, text) for text in wrong)
                found.append(Judgement(number, edge.skill, "expectation", edge.expected, said, edge.failure))
        return found

    def record(self) -> dict[str, Any]:
        """The run as plain data."""
        return {"format": FORMAT, **asdict(self)}

    def save(self, path: Path) -> None:
        """Write the JSON whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as file:
            file.write((json.dumps(self.record(), indent=1) + "\n").encode())

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> RunGraph:
        """The run that `record` gave, also after a turn through JSON. Raises ValueError, KeyError, TypeError."""
        data = dict(record)
        if data.pop("format") != FORMAT:
            raise ValueError("another format")
        nodes = [Node(**{**node, "facts": tuple(Fact(**fact) for fact in node["facts"])}) for node in data["nodes"]]
        edges = [Edge(**{**edge, "expected": tuple(edge["expected"])}) for edge in data["edges"]]
        kept = data.get("timeliness")
        timeliness = None if kept is None else Timeliness(**kept)
        events = [EdgeEvent(**{**event, "state": tuple(event["state"])}) for event in data.get("breakers", [])]
        made = {"nodes": nodes, "edges": edges, "timeliness": timeliness, "breakers": events}
        return RunGraph(**{**data, **made})

    @staticmethod
    def read(path: Path) -> RunGraph:
        """A run that was saved. Raises InvalidInputError where the file is none."""
        try:
            return RunGraph.of_record(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            fault = Fault(str(path), str(error) or type(error).__name__, f"a run of format {FORMAT}")
            raise InvalidInputError("run", [fault], "`tether agent run` writes one an episode") from error

    def dot(self) -> str:
        """The graph for Graphviz: true facts in the nodes, failures in red."""
        lines = [f"digraph {json.dumps(self.task_id)} {{", "  rankdir=TB; node [shape=box, fontname=monospace];"]
        for node in self.nodes:
            true = ", ".join(fact.name for fact in node.facts if fact.value is True)
            label = f"{node.id}: {node.stamp_ns * 1e-9:.2f} s\\n{true}"
            lines.append(f'  n{node.id} [label="{label}"];')
        for edge in self.edges:
            colour = "" if edge.failure is None else ", color=red, fontcolor=red"
            label = f"{edge.skill} ({edge.way}) {edge.attempt}\\n{edge.failure or edge.status}"
            lines.append(f'  n{edge.source} -> n{edge.target} [label="{label}"{colour}];')
        lines.append(f'  end [shape=oval, label="{self.outcome} {self.failure or ""}"];')
        if self.nodes:
            lines.append(f"  n{self.nodes[-1].id} -> end;")
        return "\n".join([*lines, "}", ""])


def _holds(node: Node, text: str) -> bool:
    return node.value(text.removeprefix("not ")) is (not text.startswith("not "))


def _said(node: Node, text: str) -> str:
    name = text.removeprefix("not ")
    for fact in node.facts:
        if fact.name == name:
            return f"{name}: {fact.value} by {fact.source} at {fact.stamp_ns * 1e-9:.2f} s"
    return f"{name}: not known"
