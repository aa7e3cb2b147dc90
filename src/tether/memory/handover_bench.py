"""What a hand-over between agents by shared state costs: `tether bench handover`.

Three processes take turns on one task's working memory, as agents of perception, arm and base would. Each follows the
record, and where the newest change hands over to it, writes the next one: facts, and the action that hands over to the
next agent, in one MULTI/EXEC on the disk of a real server. A fourth may write facts meanwhile, as sensing does. Times
are from right before the giver begins to write until the taker, in its process, has read that change, all by the
machine's steady clock. No skill is executed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tether.agent.calls import Fact
from tether.arguments import positive
from tether.bench.figures import Benchmark, Metric
from tether.errors import DeadlineError, Fault, InvalidInputError, TetherError
from tether.memory.redis_server import RedisServer, connect, require_durable
from tether.memory.working import Action, Change, WorkingMemory

AGENTS = ("perception", "arm", "base")
LIMIT_MS = 200.0
"""What a hand-over may take."""
SENSING = "sensing"
_FACTS = ("seen", "reachable", "above", "holding", "lifted")
_RECEIVED, _WROTE = "received_ns", "wrote_ns"
_SENSE_S = 0.05
_TURN_S = 30.0
_TURNS_MIN = 2 * len(AGENTS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--turns", type=positive, default=600, metavar="N", help="of each part (default: %(default)s)")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Turns with nothing else going on, then with facts written every 50 ms beside them."""
    if arguments.turns < _TURNS_MIN:
        raise InvalidInputError("bench", [Fault("--turns", str(arguments.turns), f"{_TURNS_MIN} or more")])
    metrics: dict[str, Metric] = {}
    over = {}
    with tempfile.TemporaryDirectory(prefix="tether-ho-") as folder, RedisServer(Path(folder) / "r") as server:
        require_durable(connect(server.url))
        for part, sensing in (("alone", False), ("beside_sensing", True)):
            changes = _relay(server.url, f"handover-{part}", arguments.turns, sensing=sensing)
            times_ms, writes_ms = handovers_ms(changes, arguments.turns)
            metrics[f"handover_{part}"] = Metric.of(times_ms, "ms")
            metrics[f"write_{part}"] = Metric.of(writes_ms, "ms")
            over[part] = sum(time_ms >= LIMIT_MS for time_ms in times_ms)
    notes = (
        f"{len(AGENTS)} processes in turn, {arguments.turns} turns a part; {len(_FACTS)} facts and an action a change",
        f"at or above {LIMIT_MS:g} ms: {over['alone']} alone, {over['beside_sensing']} beside sensing",
        "none lost, none out of turn: checked on the record, else the command fails",
        "handover: from before the write until read elsewhere; write: until it is confirmed on the disk",
    )
    return Benchmark("handover", metrics, {}, notes)


def handovers_ms(changes: Sequence[Change], turns: int) -> tuple[list[float], list[float]]:
    """Times of hand-overs and of the writes, from the record alone. Raises TetherError where a turn is missing, double
    or another agent's, or the sequence has a gap."""
    if [change.sequence for change in changes] != list(range(1, len(changes) + 1)):
        raise TetherError(f"the record of {len(changes)} changes has a gap")
    taken = [change for change in changes if change.source != SENSING]
    found = [(change.source, change.change_id) for change in taken]
    expected = [(_agent(turn), f"turn-{turn}") for turn in range(turns)]
    if found != expected:
        at = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), turns))
        raise TetherError(f"{len(found)} turns, expected {turns}: they differ from turn {at} on")
    times_ms = [(_stamp(after, _RECEIVED) - before.stamp_ns) * 1e-6 for before, after in itertools.pairwise(taken)]
    writes_ms = [
        _stamp(change, _WROTE) * 1e-6 for change in taken[len(AGENTS) + 1 :]
    ]  # the first of a process tells none
    return times_ms, writes_ms


def take_turns(url: str, task_id: str, agent: str, turns: int) -> None:
    """One agent's process: until it has had its last turn. Raises DeadlineError where no turn comes for 30 s."""
    memory, wrote_ns, until_s = WorkingMemory(connect(url), task_id), 0, time.monotonic() + _TURN_S
    last = max(turn for turn in range(turns) if _agent(turn) == agent)
    for changes in memory.follow():
        received_ns = time.monotonic_ns()
        for change in changes:
            if change.action is None or change.action.skill != agent:
                continue
            turn = int(change.action.parameters["turn"])
            wrote_ns = _take(memory, agent, turn, received_ns, wrote_ns)
            until_s = time.monotonic() + _TURN_S
            if turn == last:
                return
        if time.monotonic() > until_s:
            raise DeadlineError(f"a turn of {agent}", _TURN_S, [task_id])


def sense(url: str, task_id: str) -> None:
    """Write facts every 50 ms until this process is ended, or whoever started it is gone."""
    memory, number, parent = WorkingMemory(connect(url), task_id), 0, os.getppid()
    while os.getppid() == parent:
        now_ns = time.monotonic_ns()
        facts = tuple(Fact(name, True, now_ns, "camera") for name in _FACTS)
        memory.write(Change(f"{SENSING}-{number}", now_ns, SENSING, facts))
        number += 1
        time.sleep(_SENSE_S)


def _take(memory: WorkingMemory, agent: str, turn: int, received_ns: int, wrote_ns: int) -> int:
    """Write this turn's change; how long that took, which the agent's next change tells."""
    begun_ns = time.monotonic_ns()
    facts = tuple(Fact(name, turn % 2 == 0, begun_ns, agent) for name in _FACTS)
    told = (Fact(_RECEIVED, str(received_ns), begun_ns, agent), Fact(_WROTE, str(wrote_ns), begun_ns, agent))
    action = Action(f"turn-{turn + 1}", _agent(turn + 1), {"turn": float(turn + 1)})
    memory.write(Change(f"turn-{turn}", begun_ns, agent, (*facts, *told), action))
    return time.monotonic_ns() - begun_ns


def _relay(url: str, task_id: str, turns: int, *, sensing: bool) -> list[Change]:
    """The record of a relay whose first turn is made once all agents follow."""
    memory = WorkingMemory(connect(url), task_id)
    with _processes([("agent", url, task_id, agent, str(turns)) for agent in AGENTS]) as agents:
        _await("agents that follow the task", lambda: memory.followers() == len(AGENTS))
        with _processes([("sense", url, task_id)] if sensing else []):
            _await("facts that are sensed", lambda: not sensing or bool(memory.facts()))
            _take(memory, AGENTS[0], 0, time.monotonic_ns(), 0)
            for name, process in zip(AGENTS, agents, strict=True):
                _await(f"the last turn of {name}", partial(_has_ended, process), _TURN_S + turns)
                if process.returncode != 0:
                    raise TetherError(f"{name} ended with {process.returncode}")
    return memory.changes()


def _await(what: str, is_so: Callable[[], bool], within_s: float = _TURN_S) -> None:
    until_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until_s:
            raise DeadlineError(what, within_s, [what])
        time.sleep(0.05)


@contextmanager
def _processes(commands: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of this module; those that still run at the end are ended."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        started += [subprocess.Popen([sys.executable, "-m", __name__, *command]) for command in commands]
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def _agent(turn: int) -> str:
    return AGENTS[turn % len(AGENTS)]


def _stamp(change: Change, name: str) -> int:
    return next(int(fact.value) for fact in change.facts if fact.name == name)


def _main() -> None:
    role, *rest = sys.argv[1:]
    if role == "sense":
        sense(*rest)
    else:
        url, task_id, agent, turns = rest
        take_turns(url, task_id, agent, int(turns))


if __name__ == "__main__":
    _main()
