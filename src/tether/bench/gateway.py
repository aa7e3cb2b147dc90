"""`tether bench gateway`: many calls at a time, with kills of workers, Redis and the gateway in between.

What is run is a gateway as `tether gateway` starts it. Its executor has an effect that can be counted: it adds one byte
to a file of the call's name, so two bytes are a call that was run twice, and none is an effect that is absent. Sensors
are replaced by a look at that file. Afterwards three records are compared that were written apart: what the gateway
told its client, the files, and the journal's own trace (`gateway_audit`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tether.agent.calls import Call, Fact, Feedback, Outcome, Status, Value
from tether.arguments import not_negative, positive
from tether.bench.figures import Benchmark, Metric
from tether.bench.gateway_audit import audit_journal
from tether.bench.gateway_load import Load, Tally, Told, run_load, tally
from tether.bench.gateway_process import EFFECTS_VARIABLE, MODULE, GatewayProcess
from tether.errors import Fault, InvalidInputError, TetherError
from tether.gateway.records import Effect
from tether.gateway.services import ParameterInfo, Services, SkillInfo, Step
from tether.progress import Progress

_SKILL = SkillInfo("mark", 1, "adds a byte to a file", (ParameterInfo("work_ms", 0.0, 10_000.0, "ms"),), 20.0)
_DEADLINE_S = 120.0


class Marks:
    """Effects that can be counted: one file a call. Executor, verifier and catalogue of the benchmark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        """Work for `work_ms`, half before the effect and half after it."""
        half_s = call.parameters["work_ms"] * 0.5e-3
        for step in ("before", "after"):
            until_s = time.monotonic() + half_s
            while (left_s := until_s - time.monotonic()) > 0.0:
                time.sleep(min(left_s, 0.02))
                if cancelled():
                    return Outcome(call.call_id, Status.CANCELLED, "cancelled")
            if step == "before":
                on_feedback(Feedback(call.call_id, step, 0.5, 1))
                self._mark(call.call_id)
        return Outcome(call.call_id, Status.DONE)

    def _mark(self, call_id: str) -> None:
        fd = os.open(self._folder / call_id.partition("#")[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, b"1")
        finally:
            os.close(fd)

    def count(self, call_id: str) -> int:
        """How often a call had its effect."""
        try:
            return (self._folder / call_id.partition("#")[0]).stat().st_size
        except FileNotFoundError:
            return 0

    def verify(self, call: Call) -> tuple[Effect, tuple[Fact, ...]]:
        """Look at the file."""
        marks = self.count(call.call_id)
        return (Effect.HAPPENED if marks else Effect.ABSENT), (Fact("marks", float(marks), time.time_ns(), "file"),)

    def skills(self) -> Sequence[SkillInfo]:
        """One."""
        return (_SKILL,)

    def register(self, declaration: str) -> SkillInfo:
        """None but the one."""
        raise InvalidInputError("skill", [Fault("declaration", declaration[:40], "nothing: the skill is built in")])

    def deadline_s(self, task: str) -> float:
        """One for every task."""
        return _DEADLINE_S

    def plan(self, task: str, facts: Mapping[str, Value]) -> Sequence[Step]:
        """One step, until the task's mark is there."""
        return () if facts.get(f"marked_{task}") else (Step(_SKILL.name, {"work_ms": 0.0}),)


def services() -> Services:
    """What the gateway and its workers load. Raises InvalidInputError where no folder for effects is named."""
    marks = Marks(_effects_folder())
    return Services(marks, marks, marks)


def blind_services() -> Services:
    """The same with nobody who could verify an effect."""
    marks = Marks(_effects_folder())
    return Services(marks, marks, None)


def _effects_folder() -> Path:
    named = os.environ.get(EFFECTS_VARIABLE, "")
    if not named or not Path(named).is_dir():
        fix = "`mkdir /tmp/effects; export TETHER_BENCH_EFFECTS=/tmp/effects`: each call leaves a file there"
        raise InvalidInputError("services of the benchmark", [Fault(EFFECTS_VARIABLE, repr(named), "a folder")], fix)
    return Path(named)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--calls", type=positive, default=10_000, help="with kills (default: %(default)s)")
    parser.add_argument("--quiet-calls", type=positive, default=2000, help="without (default: %(default)s)")
    parser.add_argument(
        "--blind-calls", type=positive, default=500, help="with kills and nobody to verify effects (default: 500)"
    )
    parser.add_argument("--concurrent", type=positive, default=64, help="calls at a time (default: %(default)s)")
    parser.add_argument("--kill-every-s", type=float, default=3.0, help="0: no kills (default: %(default)s)")
    parser.add_argument("--work-ms", type=float, default=50.0, help="mean length of a call (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=2, help="worker processes (default: %(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, help="(default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="keep all here, and go on from it where it was broken off")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Without kills, for latencies; with them; with them where nobody can verify. Raises TetherError where a call is
    lost, run twice, or told otherwise than it happened."""
    if not 0.0 <= arguments.kill_every_s <= 3600.0 or not 0.0 <= arguments.work_ms <= 5000.0:
        found = f"--kill-every-s {arguments.kill_every_s:g} --work-ms {arguments.work_ms:g}"
        raise InvalidInputError("bench gateway", [Fault("arguments", found, "0 to 3600 s, 0 to 5000 ms")])
    metrics: dict[str, Metric] = {}
    notes: list[str] = []
    for name, calls, every_s, services in (
        ("quiet", arguments.quiet_calls, 0.0, "services"),
        ("kills", arguments.calls, arguments.kill_every_s, "services"),
        ("blind", arguments.blind_calls, arguments.kill_every_s, "blind_services"),
    ):
        figures, told = _part(arguments, name, calls, every_s, services)
        metrics |= {f"{name}_{label}": metric for label, metric in figures.items()}
        notes += [f"{name}: {line}" for line in told]
    notes.append(f"{arguments.concurrent} calls at a time; latency: of calls answered at once, less the work itself")
    notes.append("journal: what its trace says, read by itself; unchecked: begun again without sensors having looked")
    return Benchmark("gateway", metrics, {}, tuple(notes))


def _part(
    arguments: argparse.Namespace, name: str, calls: int, kill_every_s: float, services: str
) -> tuple[dict[str, Metric], list[str]]:
    kept: AbstractContextManager[str] = tempfile.TemporaryDirectory(prefix="tether-gw-")
    if arguments.folder is not None:
        folder = arguments.folder.absolute() / name
        folder.mkdir(parents=True, exist_ok=True)
        kept = nullcontext(str(folder))
    with kept as place:
        gateway = GatewayProcess(Path(place), f"{MODULE}:{services}", workers=arguments.workers)
        load = Load(gateway, calls, arguments.concurrent, arguments.work_ms, arguments.seed)
        told = Told(Path(place) / "told.jsonl", {"calls": calls, **load.key, "kill_every_s": kill_every_s})
        load.go_on_from(told)
        gateway.end_left_over()
        try:
            gateway.start()
            progress = Progress(calls - len(load.states), f"calls ({name})")
            begun_s, before = time.monotonic(), len(load.states)
            run_load(gateway, load, kill_every_s, progress)
            took_s = time.monotonic() - begun_s
            audit = audit_journal(gateway, load.tasks)
        finally:
            gateway.stop()
        seen = tally(load, Marks(gateway.effects).count, audit)
    metrics = _figures(load, seen, len(load.states) - before, took_s)
    states = ", ".join(f"{n} {state}" for state, n in sorted(seen.by_state.items()))
    lines = [f"{states}; {seen.retried} tried again once their effect was seen to be absent"]
    lines += [f"in {told.sittings} sittings"] if told.sittings > 1 else []
    lines.append(f"killed {dict(load.killed)}; answers to come again or none {dict(load.refusals)}")
    lines.append(f"journal: {audit.summary()}")
    if seen.faults:
        raise TetherError(f"bench gateway: {name}: {seen}; {'; '.join(audit.faults[:10])}")
    return metrics, lines


def _figures(load: Load, seen: Tally, answered: int, took_s: float) -> dict[str, Metric]:
    metrics = {"latency_beyond_work": Metric.of(load.latencies_ms, "ms")} if load.latencies_ms else {}
    if answered:
        metrics["calls_per_s"] = Metric.of([answered / took_s], "1/s")
    for label in ("lost", "run_twice", "contradicting", "journal_lost", "journal_unchecked", "journal_otherwise"):
        metrics[label] = Metric.of([float(getattr(seen, label))], "calls")
    metrics["outcome_unknown"] = Metric.of([float(seen.by_state.get("outcome_unknown", 0))], "calls")
    return metrics


def _main(words: Sequence[str]) -> int:
    """The command, where the package's table of commands may lack it."""
    from tether.gateway import cli

    parser = argparse.ArgumentParser(prog="tether")
    parser.add_argument("-v", "--verbose", action="store_true")
    cli.add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
