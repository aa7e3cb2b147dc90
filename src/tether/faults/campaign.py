"""Runs the table: graphs are started as they are needed, faults put in one after the other, figures taken."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tether.errors import TetherError
from tether.faults.graph import LiveGraph
from tether.faults.inject import FaultInGraph
from tether.faults.journal import GraphLife, Injection
from tether.faults.measure import Stop, episode_began, first_motion, measure_stop, was_blind
from tether.faults.table import End, FaultSpec, FaultTable, Recovery

RECOVERY_MAX_S = 6.0
"""How long the campaign waits for the robot to go on; the bar is for whoever reads the figure."""
_BROKEN_MAX = 3
_POLL_S = 0.01
_BLIND_MAX = 3
"""How often a fault is put in anew because the observer was late; then the figure is kept, and marked."""
_WRITTEN_S = 0.15
"""By then what came is in the recording: the probe flushes it every 20 ms, later where the machine is busy."""
_LOG = logging.getLogger(__name__)


class DiscardedError(TetherError):
    """An episode ended while a fault was in: the gate began anew, and the figures say nothing."""


@dataclass
class Campaign:
    """What is run on what. on_result is given every injection as it is made, on_life every graph that has ended."""

    table: FaultTable
    policy: str
    task: str
    seed: int
    on_result: Callable[[Injection], None]
    on_life: Callable[[GraphLife], None]
    life: GraphLife = field(default_factory=GraphLife)
    """Of the graph that runs."""
    _tries: int = 0
    """How often the fault that is next was put in while the observer was late."""

    def run(self, rounds: int, done: Sequence[Injection] = (), names: Sequence[str] = ()) -> None:
        """Run what is not done yet. names: only these faults. Raises TetherError where graphs keep failing."""
        work = list(schedule(self.table.faults, rounds, self.made(done), names))
        broken = 0
        for number in count():
            if not work:
                return
            before = len(work)
            graph = LiveGraph(self.policy, self.task, self.seed + 1000 * number)
            self.life = GraphLife()
            try:
                with graph:
                    self._use(graph, work)
            except TetherError as error:
                _LOG.warning("a graph was given up: %s", error)
                broken = broken + 1 if len(work) == before else 0
                if broken >= _BROKEN_MAX:
                    raise
            finally:
                unsafe, lost = graph.unclaimed
                self.life.unsafe += unsafe
                self.life.lost += lost
                self.life.commands = graph.audit.commands
                self.on_life(self.life)

    def made(self, done: Sequence[Injection]) -> Counter[str]:
        """How often each fault was put in."""
        return Counter(one.fault for one in done)

    def _use(self, graph: LiveGraph, work: list[str]) -> None:
        """Take faults off `work` until one of them needs a new graph, or there are none."""
        while work:
            name = work[0]
            spec = self.table.faults[name]
            try:
                injection = self._try(graph, name, spec)
            except DiscardedError:
                self.life.discarded += 1
                if spec.recovery is Recovery.RESTART:
                    return
                continue
            self._tries += 1
            anew = injection.blind and self._tries < _BLIND_MAX
            if anew:
                self.life.made_anew += 1
                self.life.unsafe += len(injection.unsafe)
                self.life.lost += injection.lost
            else:
                self._tries = 0
                work.pop(0)
                self.on_result(injection)
            if spec.recovery is Recovery.RESTART or injection.recovery_s is None:
                return

    def _try(self, graph: LiveGraph, name: str, spec: FaultSpec) -> Injection:
        graph.await_motion()
        first = FaultInGraph(graph, spec)
        faults = [first]
        try:
            if spec.beside:
                faults.append(FaultInGraph(graph, self.table.faults[spec.beside]))
            _let_it_last(graph, faults, spec.lasts_s)
            until_ns = time.monotonic_ns()
        finally:
            for fault in reversed(faults):
                fault.lift()
        lifted_ns = time.monotonic_ns()
        graph.probe.order("ping")  # whatever kept it is over, and stands in the recording
        graph.run_for(_WRITTEN_S)
        stop = measure_stop(graph.series, first.injected_ns, until_ns)
        recovery_s = None if spec.recovery is Recovery.RESTART else _recover(graph, stop, spec, lifted_ns)
        if spec.recovery is Recovery.RESTART:
            graph.close()
        measured_ns = until_ns if spec.recovery is Recovery.RESTART else time.monotonic_ns()
        if episode_began(graph.series, first.injected_ns, measured_ns):
            raise DiscardedError(name)
        blind = was_blind(graph.series, stop, first.injected_ns, until_ns)
        return _judged(name, spec, stop, recovery_s, graph, first.injected_ns, blind)


def schedule(
    faults: Mapping[str, FaultSpec], rounds: int, done: Counter[str], names: Sequence[str] = ()
) -> Iterator[str]:
    """Names of faults in the order in which they are put in: in a round first those that a graph survives."""
    left = Counter(done)
    for _ in range(rounds):
        for ends_graph in (False, True):
            for name, spec in faults.items():
                if (names and name not in names) or (spec.recovery is Recovery.RESTART) != ends_graph:
                    continue
                for _ in range(spec.repeat):
                    if left[name] > 0:
                        left[name] -= 1
                    else:
                        yield name


def _let_it_last(graph: LiveGraph, faults: Sequence[FaultInGraph], seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for fault in faults:
            fault.pulse()
        graph.run_for(_POLL_S)


def _recover(graph: LiveGraph, stop: Stop, spec: FaultSpec, lifted_ns: int) -> float | None:
    """Seconds from the end of the fault until the gate let the robot move; None where it did not."""
    if spec.recovery is Recovery.REARM and stop.end in (End.LATCHED, End.SAFE_MODE):
        graph.rearm(stop.end is End.LATCHED)
        lifted_ns = time.monotonic_ns()
    end_s = time.monotonic() + RECOVERY_MAX_S
    while time.monotonic() < end_s:
        graph.pump()
        moved_ns = first_motion(graph.series, lifted_ns)
        if moved_ns is not None:
            return (moved_ns - lifted_ns) * 1e-9
        time.sleep(_POLL_S)
    return None


def _judged(
    name: str, spec: FaultSpec, stop: Stop, recovery_s: float | None, graph: LiveGraph, injected_ns: int, blind: bool
) -> Injection:
    graph.run_for(0.0 if spec.recovery is Recovery.RESTART else 0.4)  # what was applied is judged a little later
    unsafe, lost = graph.claim(injected_ns)
    stands = stop.standstill_ms is not None or not stop.seen
    right = stop.end is not End.UNDRIVEN and (stop.end is not End.MOVES or not spec.must_stop)
    must_stand = spec.must_stop and End.SAFE_MODE not in spec.ends
    said = not spec.says or any(at >= injected_ns and kind == spec.says for at, kind in graph.series.events)
    return Injection(
        fault=name,
        end=stop.end,
        stop_ms=stop.stop_ms,
        standstill_ms=stop.standstill_ms,
        still_ms=stop.still_ms,
        gate_ms=stop.gate_ms,
        gap_ms=stop.gap_ms,
        why=stop.why,
        recovery_s=recovery_s,
        said=said,
        blind=blind,
        safe=right and not unsafe and (stands or not must_stand),
        unsafe=tuple(unsafe),
        lost=lost,
    )
