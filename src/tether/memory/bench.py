"""What remembering costs and saves, and how well places are found again: `tether bench memory`."""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tether.agent.calls import Fact, Status
from tether.agent.domain import Domain, State, load_domain
from tether.agent.graph import Edge, Node, RunGraph
from tether.agent.search import quickest_plan
from tether.arguments import positive
from tether.bench.figures import Benchmark, Metric, Ratio
from tether.memory.ledger import Ledger
from tether.memory.long_term import LongTermMemory
from tether.results import header
from tether.signing.ecdsa import PrivateKey
from tether.signing.trust import Purpose, TrustedKey

_TASK, _STEPS = "fetch", ("find", "approach", "pick", "carry", "place")
_HELD = "ASK { t:gripper t:holds t:red_cube }"
_HISTORY = (
    "SELECT ?at ?holds WHERE { ?s t:fact 'holding' ; t:holds ?holds ; t:stamp_ns ?at } ORDER BY DESC(?at) LIMIT 10"
)


_RECALL_NOTES = (
    "recall: each scene is remembered on one visit and asked for on another; mixed: 2 to 5 cubes of four colours; "
    "alike: the same four cubes, only elsewhere; see tether.memory.recall_bench for the protocol",
    "ratios of recall: how many times as often the right scene is among the first k, 95 % of bootstrap draws; text "
    "has true labels, a robot's own would be worse",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--runs", type=positive, default=200, metavar="N", help="kept (default: %(default)s)")
    parser.add_argument("--repeats", type=positive, default=300, metavar="N", help="of each (default: %(default)s)")
    parser.add_argument(
        "--scenes",
        type=positive,
        default=200,
        metavar="N",
        help="to be found again, of each set (default: %(default)s)",
    )


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Fill a memory, open it again, ask it, and plan a task from it, by search and by Aries."""
    key = PrivateKey.generate()
    keys = {key.public.id: TrustedKey(key.public, Purpose.DEVELOPMENT)}
    domain, commit = load_domain(), str(header("bench memory", 0)["commit"])
    with tempfile.TemporaryDirectory(prefix="tether-memory-") as folder:

        def opened() -> LongTermMemory:
            ledger = Ledger(Path(folder) / "memory", key, keys, Path(folder) / "state")
            return LongTermMemory(Path(folder), domain, commit=commit, ledger=ledger)

        with opened() as memory:
            kept_ms = _fill(memory, domain, arguments.runs)
        begun_s = time.perf_counter()
        with opened() as memory:
            opened_ms = (time.perf_counter() - begun_s) * 1e3
            metrics = {
                "keep_a_run": Metric.of(kept_ms, "ms"),
                "open_and_verify": Metric.of([opened_ms], "ms"),
                "ask_what_holds": Metric.of(_ms(lambda: memory.semantic.query(_HELD), arguments.repeats), "ms"),
                "ask_the_history": Metric.of(_ms(lambda: memory.semantic.query(_HISTORY), arguments.repeats), "ms"),
            }
            size = (Path(folder) / "memory" / "ledger.jsonl").stat().st_size
            planned, ratios = _plans(memory, domain, arguments.repeats)
    recalled, better = _recall(key, domain, arguments.scenes)
    entries, facts = len(memory.ledger.entries), len(domain.spec.facts)
    notes = (
        f"{arguments.runs} runs, each of {len(_STEPS) + 1} states of up to {facts} facts",
        f"{entries} entries, {size / 1e6:.1f} MB",
        "a run is kept once it is over: every entry signed, then one flush to the disk and one floor",
        "plans are of fetch from its declared start; what is recalled is proved anew from the facts of the moment",
    )
    return Benchmark("memory", {**metrics, **planned, **recalled}, {**ratios, **better}, (*notes, *_RECALL_NOTES))


def _recall(key: PrivateKey, domain: Domain, scenes: int) -> tuple[dict[str, Metric], dict[str, Ratio]]:
    from tether.memory.recall_bench import measure_recall

    keys = {key.public.id: TrustedKey(key.public, Purpose.DEVELOPMENT)}
    with tempfile.TemporaryDirectory(prefix="tether-recall-") as folder:
        names = itertools.count()

        def ledger() -> Ledger:
            return Ledger(Path(folder) / f"memory-{next(names)}", key, keys, Path(folder) / "state")

        return measure_recall(Path(folder), ledger, domain, scenes)


def _fill(memory: LongTermMemory, domain: Domain, runs: int) -> list[float]:
    kept = []
    for number in range(runs):
        graph = _run(domain, number)
        begun_s = time.perf_counter()
        memory.learn(graph, None)
        kept.append((time.perf_counter() - begun_s) * 1e3)
    return kept


def _run(domain: Domain, number: int) -> RunGraph:
    """A run of the task in which every skill has its effect."""
    task, known = domain.tasks[_TASK], domain.closure(domain.tasks[_TASK].begins)
    graph = RunGraph(_TASK, f"bench-{number}", {p.name: p.default for p in task.parameters}, outcome=Status.DONE.value)
    graph.nodes.append(_node(0, known))
    for at, name in enumerate(_STEPS, 1):
        skill = domain.skills[name]
        known = domain.after(known, skill.achieves)
        graph.nodes.append(_node(at, known))
        way, status = next(iter(skill.ways)), Status.DONE.value
        graph.edges.append(Edge(at - 1, at, f"{at}", name, way, {}, 1, "task", skill.effect, status, None))
    return graph


def _node(number: int, known: State) -> Node:
    stamp_ns = (number + 1) * 1_000_000_000
    facts = tuple(Fact(name, value, stamp_ns, "joints") for name, value in known.items())
    return Node(number, stamp_ns, facts, {})


def _plans(memory: LongTermMemory, domain: Domain, repeats: int) -> tuple[dict[str, Metric], dict[str, Ratio]]:
    from tether.agent.planning import Planner

    task = domain.tasks[_TASK]
    state: State = domain.closure(task.begins)
    ways = {name: next(iter(skill.ways)) for name, skill in domain.skills.items()}
    recalled, searched = [], []
    for _ in range(repeats):
        recalled += _ms(lambda: memory.recall(task, state, {}, ways), 1)
        searched += _ms(lambda: quickest_plan(domain, state, task.wants), 1)
    planner = Planner(domain)
    aries = _ms(lambda: planner.plan(task, "from_floor"), min(repeats, 10))
    metrics = {
        "begin_from_memory": Metric.of(recalled, "ms"),
        "plan_by_search": Metric.of(searched, "ms"),
        "plan_by_aries": Metric.of(aries, "ms"),
    }
    return metrics, {
        "memory_against_search": Ratio.of(recalled, searched, "search for the quickest plan"),
        "memory_against_aries": Ratio.of(recalled[: len(aries)], aries, "Aries, a process a plan"),
    }


def _ms(what: Callable[[], object], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        begun_s = time.perf_counter()
        what()
        times.append((time.perf_counter() - begun_s) * 1e3)
    return times
