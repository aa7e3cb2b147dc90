"""Procedural memory: chains of skills that reached a task's goal, to begin the next such task with.

A chain is kept only where a run ended with its goal seen and each step's effect seen after it. It is versioned by the
hash of its content, in which its skills' declarations are, and by the git commit that ran. It is used only where the
proof lets it through from the facts of the moment; a trial that fails takes weight from it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tether.agent.calls import Status
from tether.agent.declaration import AgentTask
from tether.agent.domain import Domain, State, lacking
from tether.agent.facts import Literal
from tether.agent.graph import Edge, Node, RunGraph
from tether.agent.search import broken_at
from tether.memory.ledger import Entry

CHAIN, TRIAL = "chain", "trial"
"""Kinds of the ledger's entries that this memory is made from."""
STEPS_MAX = 32
CHAINS_MAX = 64
"""Of one task."""
WEIGHT_MIN = 0.5
"""A chain below it is not begun with: it failed more often than it worked."""
SECONDS_MAX = 36_000.0
_HASH = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Chain:
    """steps: (skill, way) in order; skills: the hash of the declarations that they were made by."""

    task: str
    steps: tuple[tuple[str, str], ...]
    skills: str

    @property
    def sha256(self) -> str:
        """The version: hash of the content."""
        return _digest(asdict(self))

    @property
    def names(self) -> tuple[str, ...]:
        """Its skills in order."""
        return tuple(skill for skill, _ in self.steps)


@dataclass
class Record:
    """What became of a chain. commits: those that ran it, in the order they first did."""

    chain: Chain
    worked: int = 0
    failed: int = 0
    spent_s: float = 0.0
    commits: tuple[str, ...] = ()

    @property
    def weight(self) -> float:
        """The chance that it works, by Laplace's rule of succession."""
        return (self.worked + 1) / (self.worked + self.failed + 2)

    @property
    def mean_s(self) -> float:
        """Mean time of the trials that worked."""
        return self.spent_s / max(self.worked, 1)


def chain_of(domain: Domain, graph: RunGraph) -> Chain | None:
    """What is to be learnt from a run: what was done after its last failure, with what of before the goal needs.

    Only steps whose effect was seen count, and of these only such as changed something. None where the run did not end
    with its goal seen, or where its steps do not go through by the declarations alone.
    """
    task = domain.tasks[graph.task]
    if graph.outcome != Status.DONE.value or not graph.nodes or lacking(task.wants, _known(graph.nodes[-1])):
        return None
    last = max((n for n, edge in enumerate(graph.edges) if edge.status != Status.DONE.value), default=-1)
    before = _effective(domain, graph, graph.edges[: last + 1])
    after = _effective(domain, graph, graph.edges[last + 1 :])
    start, at = _known(graph.nodes[0]), 0
    if not goes_through(domain, task, start, [*before, *after]):
        return None
    while at < len(before):
        fewer = [*before[:at], *before[at + 1 :]]
        if goes_through(domain, task, start, [*fewer, *after]):
            before, at = fewer, 0
        else:
            at += 1
    steps = (*before, *after)
    if not steps:  # the goal held already
        return None
    return Chain(task.name, steps, skills_digest(domain, [skill for skill, _ in steps]))


def _effective(domain: Domain, graph: RunGraph, edges: Sequence[Edge]) -> list[tuple[str, str]]:
    """(skill, way) of those that were done, whose effect was seen after them and not all of it before."""
    return [
        (edge.skill, edge.way)
        for edge in edges
        if edge.status == Status.DONE.value
        and not lacking(domain.skills[edge.skill].achieves, _known(graph.nodes[edge.target]))
        and lacking(domain.skills[edge.skill].achieves, _known(graph.nodes[edge.source]))
    ]


def goes_through(domain: Domain, task: AgentTask, state: State, steps: Sequence[tuple[str, str]]) -> bool:
    """Whether every step's precondition is known to hold in its turn, and the goal at the end."""
    number, _, _, after = broken_at(domain, state, [skill for skill, _ in steps])
    return number == 0 and not lacking(task.wants, after)


def skills_digest(domain: Domain, names: Sequence[str]) -> str:
    """Hash of the declarations of these skills: what was learnt with others does not count."""
    return _digest([asdict(domain.skills[name]) for name in sorted(set(names))])


class ProceduralMemory:
    """The chains. `faults` first, then `add`; `best` is what a task begins with."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._records: dict[str, Record] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    @property
    def records(self) -> Mapping[str, Record]:
        """By the chain's hash."""
        return self._records

    def faults(self, kind: str, body: Mapping[str, Any]) -> list[str]:
        """Why a chain or a trial may not be believed; empty where it may: schema, bounds, hash, names, proof.

        One that was made with other declarations of its skills is no fault; it is never begun with.
        """
        if kind == TRIAL:
            return self._trial_faults(body)
        if set(body) != {"task", "steps", "skills", "sha256"}:
            return [f"fields {', '.join(sorted(body))}: expected task, steps, skills, sha256"]
        steps = body["steps"]
        if not isinstance(steps, list) or not 1 <= len(steps) <= STEPS_MAX:
            return [f"steps: expected 1 to {STEPS_MAX}"]
        if not all(isinstance(s, list) and len(s) == 2 and all(isinstance(t, str) for t in s) for s in steps):
            return ["steps: expected (skill, way) each"]
        chain = Chain(str(body["task"]), tuple((skill, way) for skill, way in steps), str(body["skills"]))
        if chain.sha256 != body["sha256"]:
            return [f"sha256 {body['sha256']!s:.20}: its content has {chain.sha256[:20]}"]
        known = [record for record in self._records.values() if record.chain.task == chain.task]
        if len(known) >= CHAINS_MAX and chain.sha256 not in self._records:
            return [f"task {chain.task}: more than {CHAINS_MAX} chains"]
        return self._chain_faults(chain)

    def add(self, entry: Entry) -> None:
        """Take a verified entry in that has no `faults`."""
        body = entry.body
        if entry.kind == CHAIN:
            chain = Chain(body["task"], tuple((skill, way) for skill, way in body["steps"]), body["skills"])
            self._records.setdefault(chain.sha256, Record(chain))
            return
        record = self._records[body["sha256"]]
        if body["worked"]:
            record.worked += 1
            record.spent_s += body["spent_s"]
        else:
            record.failed += 1
        commit = str(entry.provenance.get("commit", ""))
        if commit not in record.commits:
            record.commits += (commit,)

    def best(self, task: AgentTask, state: State, ways: Mapping[str, str]) -> Record | None:
        """The chain to begin with from what is known now: of those that go through, with the ways of this machine and
        the declarations of now, that with the least expected time, its mean over its weight. None where none is."""
        fit = [
            record
            for record in self._records.values()
            if record.chain.task == task.name
            and record.weight >= WEIGHT_MIN
            and record.worked > 0
            and all(ways.get(skill) == way for skill, way in record.chain.steps)
            and record.chain.skills == self._digest(record.chain.names)
            and goes_through(self._domain, task, state, record.chain.steps)
        ]
        return min(fit, key=lambda record: (record.mean_s / record.weight, record.chain.sha256), default=None)

    def _digest(self, names: tuple[str, ...]) -> str:
        if names not in self._digests:
            self._digests[names] = skills_digest(self._domain, names)
        return self._digests[names]

    def _chain_faults(self, chain: Chain) -> list[str]:
        domain = self._domain
        if chain.task not in domain.tasks:
            return [f"task {chain.task!r}: none of {', '.join(domain.tasks)}"]
        unknown = [skill for skill in chain.names if skill not in domain.skills]
        if unknown:
            return [f"skill {name!r}: none of {', '.join(domain.skills)}" for name in unknown]
        if chain.skills != self._digest(chain.names):
            return []
        faults = [f"{s}: no way {w!r}" for s, w in chain.steps if w not in domain.skills[s].ways]
        fault = self._never_goes_through(domain.tasks[chain.task], chain.names)
        return faults if fault is None else [*faults, fault]

    def _never_goes_through(self, task: AgentTask, names: Sequence[str]) -> str | None:
        """Why there is no state from which a chain goes through and reaches the goal; None where there is one.

        Begins with the declared start, and lets more and more of what steps lack hold there, until that contradicts.
        """
        domain = self._domain
        needed: tuple[Literal, ...] = ()
        while True:
            try:
                begins = domain.after(domain.closure(task.begins), needed)
            except ValueError as error:
                return f"goes through from nowhere: {error}"
            number, name, missing, state = broken_at(domain, begins, names)
            if not number:
                lacks = lacking(task.wants, state)
                return f"ends without [{', '.join(map(str, lacks))}]" if lacks else None
            if set(missing) <= set(needed):
                return f"step {number} ({name}) needs [{', '.join(map(str, missing))}], which earlier steps undo"
            needed += tuple(literal for literal in missing if literal not in needed)

    def _trial_faults(self, body: Mapping[str, Any]) -> list[str]:
        if set(body) != {"sha256", "worked", "spent_s", "failure"}:
            return [f"fields {', '.join(sorted(body))}: expected sha256, worked, spent_s, failure"]
        if not isinstance(body["sha256"], str) or not _HASH.match(body["sha256"]):
            return ["sha256: expected 64 hexadecimal digits"]
        if body["sha256"] not in self._records:
            return [f"sha256 {body['sha256'][:20]}: no chain that is known"]
        spent_s = body["spent_s"]
        if type(spent_s) not in (int, float) or not math.isfinite(spent_s) or not 0.0 <= spent_s <= SECONDS_MAX:
            return [f"spent_s {spent_s!r}: expected 0 to {SECONDS_MAX:g} s"]
        if not isinstance(body["worked"], bool) or not isinstance(body["failure"], str):
            return ["worked, failure: expected true or false, and a text"]
        return []


def chain_body(chain: Chain) -> dict[str, Any]:
    """A chain for the ledger."""
    return {"task": chain.task, "steps": [list(s) for s in chain.steps], "skills": chain.skills, "sha256": chain.sha256}


def _known(node: Node) -> dict[str, bool]:
    return {fact.name: fact.value for fact in node.facts if isinstance(fact.value, bool)}


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
