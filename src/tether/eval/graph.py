"""Episodes through the live nodes: starts launch/sim.launch.xml and collects what the world reports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tether.bags import open_bag
from tether.contracts import EpisodeResult
from tether.errors import DeadlineError, TetherError
from tether.eval.journal import read_results
from tether.eval.result import Setting
from tether.interrupts import KeptInterrupt, held_interrupts
from tether.launch.domain import own_domain
from tether.launch.reader import read
from tether.launch.runner import Outcome, Runner
from tether.resources import resource_path

_POLL_S = 0.2


class GraphRunError(TetherError):
    """The graph ended without having run all its episodes. results: of those that had ended before."""

    def __init__(self, message: str, results: Sequence[EpisodeResult] = ()) -> None:
        self.results = tuple(results)
        super().__init__(message)


class GraphInterrupted(KeptInterrupt):
    """Ctrl-C or the like; the graph has been brought down. results: of the episodes that had ended, maybe of all."""

    def __init__(self, results: Sequence[EpisodeResult], number: int) -> None:
        self.results = tuple(results)
        super().__init__(f"{len(results)} episodes had run through the graph; nothing of them is kept", number)


@dataclass(frozen=True)
class GraphRun:
    """How the graph is run. bag: folder of the recording, None for none. composed: stages share a process."""

    setting: Setting
    episodes: int
    bag: Path | None = None
    composed: bool = False
    log_dir: Path | None = None

    def arguments(self, results: Path, domain: int) -> dict[str, str]:
        """Arguments of the launch file."""
        s = self.setting
        arguments = {
            "policy": s.policy,
            "task": s.task,
            "profile": s.profile,
            "mode": "realtime" if s.realtime else "lockstep",
            "episodes": str(self.episodes),
            "seed": str(s.seed),
            "truth_age_ms": str(round(s.truth_age_ms)),
            "arbiter": s.arbitration.value,
            "record": "true" if self.bag is not None else "false",
            "results": str(results),
            "composed": "true" if self.composed else "false",
            "domain": str(domain),
        }
        if self.bag is not None:
            arguments["bag"] = str(self.bag)
        return arguments


def run_graph(run: GraphRun, on_result: Callable[[EpisodeResult], None] | None = None) -> list[EpisodeResult]:
    """Run the graph to its end; results in order of seeds. Everything it started is gone afterwards.

    Raises GraphRunError, naming the process that failed, where episodes are missing at the end, and GraphInterrupted.
    Ctrl-C, SIGTERM and SIGHUP stop the graph in order; another one does not wait for it.
    """
    with tempfile.TemporaryDirectory(prefix="tether-run-") as folder, own_domain() as domain:
        results_file = Path(folder) / "results.jsonl"
        plan = read(resource_path("launch", "sim.launch.xml"), run.arguments(results_file, domain))
        said = 0
        runner = Runner(plan, log_dir=run.log_dir, scratch=Path(folder))
        with held_interrupts(runner.ask_stop) as interrupts, runner:
            outcome = None
            while outcome is None:
                outcome = outcome_so_far(runner)
                results = read_results(results_file)
                for result in results[said:]:
                    if on_result is not None:
                        on_result(result)
                said = len(results)
        if interrupts:
            raise GraphInterrupted(results, interrupts[0])
    if len(results) < run.episodes:
        why = outcome.why()
        if run.log_dir is not None:
            why += f"\n  everything that was said: {run.log_dir / 'launch.log'}"
        raise GraphRunError(f"the graph ran {len(results)} of {run.episodes} episodes: {why}", results)
    if run.bag is not None:
        require_recorded(run.bag, results)
    return results


def require_recorded(bag: Path, results: Sequence[EpisodeResult] = ()) -> None:
    """Raise GraphRunError where the recorder was ended before it had written the end of the recording."""
    try:
        with open_bag(bag) as opened:
            losses = [f"{loss.where}: {loss.what}" for loss in opened.report().losses]
    except TetherError as error:
        losses = [str(error)]
    if losses:
        lost = "\n    ".join(losses)
        raise GraphRunError(f"all episodes ran, but their recording is incomplete:\n    {lost}", results)


def outcome_so_far(runner: Runner) -> Outcome | None:
    """How the launch has ended, looked at for a moment; None while it runs."""
    try:
        return runner.wait(_POLL_S)
    except DeadlineError:
        return None


def evaluate_graph(
    setting: Setting, episodes: int, on_result: Callable[[EpisodeResult], None] | None = None
) -> list[EpisodeResult]:
    """The same episodes as `tether.eval.runner.evaluate`, through the graph in lockstep."""
    return run_graph(GraphRun(setting, episodes), on_result)
