"""What an agent keeps from task to task: the ledger, and semantic, procedural and visual memory that are made from it.

    with LongTermMemory(folder, domain) as memory:
        runner = TaskRunner(domain, robot, ways, memory)

An entry is checked once where it comes in, before it is signed, and once, with its signature, whenever the ledger is
opened. What fails when it comes in is put into quarantine with the reason; a ledger whose signatures fail is refused.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tether.agent.calls import Status
from tether.agent.declaration import AgentTask
from tether.agent.domain import Domain, State
from tether.agent.experience import RECALLED, Recalled
from tether.agent.graph import RunGraph
from tether.contracts import F32
from tether.errors import Fault, InvalidInputError
from tether.memory.graph_store import GraphStoreError, open_store
from tether.memory.ledger import Entry, Ledger
from tether.memory.procedural import CHAIN, TRIAL, ProceduralMemory, Record, chain_body, chain_of
from tether.memory.semantic import KIND as STATE
from tether.memory.semantic import SemanticMemory, load_semantics, state_body
from tether.memory.visual import KIND as SIGHT
from tether.memory.visual import Sighting, VisualMemory, sighting_body

_LOG = logging.getLogger(__name__)


class LongTermMemory:
    """See the module, and `tether.agent.experience.Experience`, which this is. One process and one thread at a time."""

    def __init__(
        self,
        folder: Path,
        domain: Domain,
        *,
        commit: str,
        wall_ns: Callable[[], int] = time.time_ns,
        ledger: Ledger | None = None,
        eyes_sha256: str | None = None,
        store_url: str | None = None,
    ) -> None:
        """commit: of the code that runs, for provenance; ledger: one of a test's own; eyes_sha256: of the model that
        sees, None where nothing does, and then sightings are left where they are; store_url: of a Neo4j server for the
        graph, None for the embedded one.

        Raises MemoryRefusedError where the ledger is not to be believed, GraphStoreError for a URL, credentials or a
        driver that cannot be, ModuleNotFoundError without the extra `agent`. A server that is not there is logged.
        """
        self._domain, self._commit, self._wall_ns = domain, commit, wall_ns
        self._table = load_semantics(domain)
        self.procedural = ProceduralMemory(domain)
        self.visual = None if eyes_sha256 is None else VisualMemory(domain, eyes_sha256)
        self._ledger = ledger or Ledger(folder)
        with contextlib.ExitStack() as undo:
            undo.callback(self._ledger.__exit__, None, None, None)
            self._store = open_store(store_url, self._ledger.id)
            undo.callback(self._store.close)
            self.semantic = SemanticMemory(self._table, domain, self._store)
            self._take_all()
            undo.pop_all()

    def __enter__(self) -> LongTermMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the folder, and the graph's server."""
        try:
            self._store.close()
        except GraphStoreError as error:
            _LOG.warning("%s", error)
        finally:
            self._ledger.__exit__(None, None, None)

    @property
    def ledger(self) -> Ledger:
        """What all of it is made from."""
        return self._ledger

    def recall(
        self, task: AgentTask, state: State, parameters: Mapping[str, float], ways: Mapping[str, str]
    ) -> Recalled | None:
        """The chain to begin with, proved from `state`; None where none fits. Says what of the memory the present
        contradicts; the present is right."""
        wrong = self.semantic.contradictions(state, parameters)
        if wrong:
            _LOG.info("memory held otherwise: %s", ", ".join(wrong))
        record = self.procedural.best(task, state, ways)
        return None if record is None else Recalled(record.chain.names, record.chain.sha256, record.weight)

    def learn(self, graph: RunGraph, recalled: Recalled | None) -> tuple[str, ...]:
        """Keep what a run taught: its verified states, how the chain fared that it began with, and the chain that
        reached the goal. Returns why something was not kept, by what it was. Raises OSError, TetherError (floors)."""
        refused: list[str] = []
        wall_ns = self._wall_ns()
        run = f"{graph.task_id}@{wall_ns}"  # task ids and simulated times come again
        provenance = {"run": run, "commit": self._commit, "stamp_ns": wall_ns}
        for node in graph.nodes:
            body = state_body(self._table, self._domain, node, run, graph.parameters)
            refused += self._keep(STATE, body, provenance)
        spent_s = (graph.nodes[-1].stamp_ns - graph.nodes[0].stamp_ns) * 1e-9 if graph.nodes else 0.0
        chain = chain_of(self._domain, graph)
        if recalled is not None and not _went_by(graph) and graph.outcome != Status.CANCELLED.value:
            trial = _trial(recalled.sha256, False, spent_s, graph.failure or "another way was found")
            refused += self._keep(TRIAL, trial, provenance)
        if chain is not None:
            if chain.sha256 not in self.procedural.records:
                refused += self._keep(CHAIN, chain_body(chain), provenance)
            if chain.sha256 in self.procedural.records:
                trial = _trial(chain.sha256, True, spent_s, "")
                refused += self._keep(TRIAL, trial, provenance)
        self._ledger.confirm()
        self._show()
        return tuple(refused)

    def offer(self, kind: str, body: Mapping[str, Any], provenance: Mapping[str, Any]) -> tuple[str, ...]:
        """Keep an entry that comes from elsewhere, if it passes every check that our own must. Why not, otherwise."""
        refused = tuple(self._keep(kind, body, provenance))
        self._ledger.confirm()
        self._show()
        return refused

    def records(self) -> list[Record]:
        """All chains, the best of each task first."""
        return sorted(self.procedural.records.values(), key=lambda r: (r.chain.task, -r.weight, r.chain.sha256))

    def see(self, tokens: F32, run: str, stamp_ns: int, facts: Mapping[str, bool]) -> tuple[str, ...]:
        """Keep a look: the eyes' tokens (48, 64) of a picture taken at stamp_ns, and what the sensors said then.
        Returns why it was not kept. Raises InvalidInputError where nothing sees, or for tokens that are none."""
        visual = self._seeing()
        body = sighting_body(tokens, visual.aggregation, visual.eyes_sha256, run, stamp_ns, facts)
        provenance = {"run": run, "commit": self._commit, "stamp_ns": self._wall_ns()}
        return self.offer(SIGHT, body, provenance)

    def alike(self, tokens: F32, k: int, state: Mapping[str, bool] | None = None) -> list[Sighting]:
        """See `VisualMemory.alike`. Raises InvalidInputError where nothing sees."""
        return self._seeing().alike(tokens, k, state)

    def _seeing(self) -> VisualMemory:
        if self.visual is None:
            fault = Fault("eyes_sha256", "None", "the hash of the model that sees")
            raise InvalidInputError("memory", [fault], "open it with the manifest's sha256 of the eyes")
        return self.visual

    def _faults(self, kind: str, body: Mapping[str, Any]) -> list[str]:
        if kind == STATE:
            return self.semantic.faults(body)
        if kind in (CHAIN, TRIAL):
            return self.procedural.faults(kind, body)
        if kind == SIGHT and self.visual is not None:
            return self.visual.faults(body)
        kinds = (STATE, CHAIN, TRIAL, *([SIGHT] if self.visual is not None else []))
        return [f"kind {kind!r}: expected {', '.join(kinds[:-1])} or {kinds[-1]}"]

    def _keep(self, kind: str, body: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
        faults = self._faults(kind, body)
        if faults:
            _LOG.warning("put into quarantine: %s: %s", kind, "; ".join(faults))
            self._ledger.quarantine(kind, body, faults)
            return [f"{kind}: {fault}" for fault in faults]
        for entry in self._ledger.append([(kind, body)], provenance):
            self._take(entry)
        return []

    def _show(self) -> None:
        """Hand the graph's changes on. The ledger has them: a server that is gone holds nothing up."""
        try:
            self.semantic.flush()
        except GraphStoreError as error:
            _LOG.warning("the graph is behind, and is brought up to date the next time: %s", error)

    def _take_all(self) -> None:
        for entry in self._ledger.entries:
            if entry.kind == SIGHT and self.visual is None:
                continue
            faults = self._faults(entry.kind, entry.body)
            if faults:  # signed and whole, but of other declarations or eyes than today's
                _LOG.warning("entry %d is not used: %s", entry.sequence, "; ".join(faults))
            else:
                self._take(entry)
        if self._ledger.entries:
            self._show()

    def _take(self, entry: Entry) -> None:
        """An entry without faults."""
        if entry.kind == STATE:
            self.semantic.add(entry)
        elif entry.kind == SIGHT:
            self._seeing().add(entry)
        else:
            self.procedural.add(entry)


def _trial(sha256: str, worked: bool, spent_s: float, failure: str) -> dict[str, Any]:
    return {"sha256": sha256, "worked": worked, "spent_s": spent_s, "failure": failure}


def _went_by(graph: RunGraph) -> bool:
    """Whether the goal was reached by recalled steps and nothing else, each at its first attempt."""
    done = Status.DONE.value
    return graph.outcome == done and all(e.status == done and e.why.startswith(RECALLED) for e in graph.edges)
