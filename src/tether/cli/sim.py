"""`tether sim`: episodes in the simulated world through the whole ROS 2 graph, recorded."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.arguments import not_negative, positive
from tether.errors import Fault, InvalidInputError, TetherError
from tether.interrupts import KeptInterrupt, held_interrupts, number_of
from tether.progress import Progress
from tether.results import write_json

if TYPE_CHECKING:
    from tether.contracts import EpisodeResult
    from tether.eval.result import Setting

RUNS = Path("runs")


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "sim",
        help="run episodes in the simulated world through the whole ROS 2 graph",
        description="Starts launch/sim.launch.xml, runs episodes and leaves result.json, report.html and the bag in "
        "runs/<time> of the current folder. runs/latest points to the latest run that has a result: while one runs, or "
        "if it fails, to the one before.",
    )
    parser.add_argument(
        "--policy", default="student", help="student, classic, or an oracle: scripted, teacher (default: %(default)s)"
    )
    parser.add_argument("--task", default="pick", help="name in config/tasks or a YAML file (default: %(default)s)")
    parser.add_argument(
        "--profile", default="real", help="name in config/profiles or a YAML file (default: %(default)s)"
    )
    parser.add_argument("--episodes", type=positive, default=3, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="seed of the first episode")
    parser.add_argument("--realtime", action="store_true", help="real time instead of lockstep")
    parser.add_argument("--composed", action="store_true", help="the stages before the gate share one process")
    parser.add_argument("--no-record", action="store_true", help="record no bag")
    parser.add_argument("--no-report", action="store_true", help="write no report page")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run it. 0 when all episodes ran, whatever their success."""
    from tether.assembly import require_settings
    from tether.eval.graph import GraphInterrupted, GraphRun, GraphRunError, run_graph
    from tether.eval.result import Setting, as_json, as_table

    a = arguments
    require_settings(a.policy, a.task, a.profile)  # before anything is started or written
    setting = Setting(a.policy, a.task, a.profile, graph=True, seed=a.seed, realtime=a.realtime)
    folder = _new_run_folder(RUNS)
    bag = None if a.no_record else folder / "bag"
    graph = GraphRun(setting, a.episodes, bag, a.composed, folder / "log")
    progress = Progress(a.episodes, "episodes")
    with held_interrupts():  # what was measured is written, however often somebody asks to stop
        try:
            results = run_graph(graph, on_result=lambda result: progress.step(result.failure or "picked"))
        except GraphInterrupted as interrupt:
            kept = _kept(folder, setting, a.episodes, interrupt.results, "interrupted")
            raise KeptInterrupt(kept, interrupt.number) from None
        except GraphRunError as error:
            kept = _kept(folder, setting, a.episodes, error.results, "failed")
            raise TetherError(f"{error}\n  {kept}") from error
        _leave_result(folder, as_json(setting, results))
    sys.stdout.write(as_table(setting, results))
    sys.stdout.write(f"  result  {folder / 'result.json'}\n")
    if bag is not None:
        sys.stdout.write(f"  bag     {bag}\n")
    if not a.no_report:
        from tether.eval.report import write_report

        timed = bag if a.realtime else None  # lockstep records no times
        try:
            report = write_report(folder, setting, results, timed)
        except KeyboardInterrupt as interrupt:
            kept = f"the result is in {folder / 'result.json'}; no report was written"
            raise KeptInterrupt(kept, number_of(interrupt)) from None
        sys.stdout.write(f"  report  {report}\n")
    return 0


def _kept(folder: Path, setting: Setting, episodes: int, results: Sequence[EpisodeResult], why: str) -> str:
    """Write what a run has measured that was interrupted or failed; what that is, and what runs the rest, in words."""
    from tether.eval.result import as_json

    if not results:
        there = sorted(entry.name for entry in folder.iterdir())
        if not there:
            folder.rmdir()
            return "no episode had ended; nothing is kept"
        return f"no episode had ended; in {folder} there is no result, only: {', '.join(there)}"
    _leave_result(folder, {**as_json(setting, results), why: True})
    text = f"{len(results)} of {episodes} episodes are in {folder / 'result.json'}"
    left = episodes - len(results)
    return f"{text}; the rest: --seed {setting.seed + len(results)} --episodes {left}" if left else text


def _new_run_folder(runs: Path) -> Path:
    """A fresh folder named by the time; raises InvalidInputError where `latest` is not this command's to replace."""
    latest = runs / "latest"
    if os.path.lexists(latest) and not latest.is_symlink():
        found = "a folder" if latest.is_dir() else "a file"
        fault = Fault(str(latest), found, "a link to the latest run, which is made anew, or nothing")
        raise InvalidInputError("runs", [fault], f"give it another name: `mv {latest} {runs / 'kept'}`")
    runs.mkdir(parents=True, exist_ok=True)
    name = time.strftime("%Y%m%d-%H%M%S")
    folder, number = runs / name, 1
    while folder.exists():
        number += 1
        folder = runs / f"{name}-{number}"
    folder.mkdir()
    return folder


def _leave_result(folder: Path, result: Mapping[str, Any]) -> None:
    """Write the result of a run, and only then let `latest` beside its folder point to it."""
    write_json(folder / "result.json", result)
    link = folder.with_name(f".latest-{os.getpid()}")
    link.symlink_to(folder.name)
    try:
        os.replace(link, folder.with_name("latest"))
    finally:
        link.unlink(missing_ok=True)
