"""How well sensors verify the subgoals, and what a judgement costs: `tether bench rewards`."""

from __future__ import annotations

import argparse
import time

from tether.arguments import not_negative, positive
from tether.bench.figures import Benchmark, Metric


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--policy", default="classic", help="policy that acts (default: %(default)s)")
    parser.add_argument("--task", default="pick_moving", help="default: %(default)s")
    parser.add_argument("--profile", default="real", help="default: %(default)s")
    parser.add_argument("--episodes", type=positive, default=60, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="seed of the first episode")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """Run the episodes and compare."""
    from tether.progress import Progress
    from tether.rewards.agreement import agreements, judge_episodes

    a = arguments
    progress = Progress(a.episodes, "episodes")
    verdicts = []
    for seed in range(a.seed, a.seed + a.episodes):
        verdicts += judge_episodes(a.policy, a.task, a.profile, [seed])
        progress.step()
    metrics: dict[str, Metric] = {}
    notes = [f"{a.policy} on {a.task}, profile {a.profile}; against the world's state, the truth"]
    for subgoal, found in agreements(verdicts).items():
        metrics[f"{subgoal.value}_agreement"] = Metric.of([found.share], "share of episodes")
        if found.late_ms:
            metrics[f"{subgoal.value}_late"] = Metric.of(found.late_ms, "ms")
        if found.only_world or found.only_sensors:
            notes.append(f"{subgoal.value}: {found.only_world} by the world only, {found.only_sensors} by sensors only")
    metrics["judgement"] = Metric.of(_judgement_us(), "us")
    return Benchmark("rewards", metrics, {}, tuple(notes))


def _judgement_us() -> list[float]:
    """Wall time of one measurement in the ledger."""
    from tether.rewards.build import make_ledger
    from tether.rewards.measured import Measured

    ledger = make_ledger("pick")
    times = []
    for i in range(2000):
        measured = Measured(i * 10_000_000, 0.01, 0.05, 0.04, 0.04, False, 0.0)
        start = time.perf_counter()
        ledger.judge(measured)
        times.append((time.perf_counter() - start) * 1e6)
    return times
