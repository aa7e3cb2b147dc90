"""`tether eval`."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.arguments import not_negative, positive
from tether.contracts import TICK_NS
from tether.errors import Fault, InvalidInputError
from tether.interrupts import KeptInterrupt, number_of
from tether.progress import Progress
from tether.results import header, require_writable, write_json

if TYPE_CHECKING:
    from tether.bridge.arbiter import Arbitration
    from tether.contracts import EpisodeResult
    from tether.eval.journal import Journal
    from tether.eval.result import Setting
    from tether.student.naming import DetectorName

_TICK_MS = TICK_NS * 1e-6


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "eval",
        help="success of a policy on a task under a profile",
        description="Runs episodes with consecutive seeds and reports success with its 95 % Wilson interval, attempts, "
        "times and failures by reason. An interrupted one of the core loop goes on where it stopped, if --json names "
        "the same file and the code is the same.",
    )
    parser.add_argument(
        "--policy",
        required=True,
        help="student, student@FOLDER, classic, classic+codebook, classic+diffusion, classic+speed, classic+precision, "
        "classic+staged, or an oracle: scripted, teacher",
    )
    parser.add_argument("--task", default="pick", help="name in config/tasks or a YAML file (default: %(default)s)")
    parser.add_argument(
        "--profile", default="real", help="name in config/profiles or a YAML file (default: %(default)s)"
    )
    parser.add_argument("--episodes", type=positive, default=100, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="seed of the first episode")
    parser.add_argument(
        "--arbiter",
        type=_arbitration,
        default="student_alone",
        metavar="WAY",
        help="student_alone, student_with_fallback or oracle_teacher (default: %(default)s)",
    )
    parser.add_argument(
        "--detector",
        type=_detector,
        default="own",
        metavar="NAME",
        help="whose boxes a student gets: own (of its eyes), or yolo, trained by `tether train detector --kind yolo` "
        "(default: %(default)s)",
    )
    parser.add_argument("--yolo", type=Path, metavar="DIR", help="YOLO's model (default: where that command leaves it)")
    parser.add_argument("--graph", action="store_true", help="through the live ROS 2 nodes, in lockstep")
    parser.add_argument(
        "--truth-age-ms",
        type=_age,
        nargs="+",
        default=[0.0],
        metavar="MS",
        help="age of the truth an oracle gets; several make a curve",
    )
    parser.add_argument("--workers", type=positive, default=os.cpu_count() or 1, help="processes of the core loop")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result for machines")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write a page with plots and films of two episodes")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run it. 0 when all episodes ran, whatever their success."""
    from tether.assembly import needs_truth, require_settings
    from tether.eval.result import Setting
    from tether.student.naming import YOLO_FOLDER, with_detector

    a = arguments
    policy = with_detector(a.policy, a.detector, a.yolo or YOLO_FOLDER)
    require_settings(policy, a.task, a.profile)
    if any(a.truth_age_ms) and not needs_truth(policy, a.arbiter):
        fault = Fault(
            "--truth-age-ms",
            f"{policy}, which never sees the truth",
            "an oracle: scripted, teacher; or --arbiter oracle_teacher",
        )
        raise InvalidInputError("eval", [fault])
    settings = [Setting(policy, a.task, a.profile, a.graph, a.seed, age, a.arbiter) for age in a.truth_age_ms]
    if a.json is not None:
        require_writable(a.json)
    if a.report is not None:
        require_writable(a.report / "report.html")
    return _one(a, settings[0]) if len(settings) == 1 else _sweep(a, settings)


def _one(a: argparse.Namespace, setting: Setting) -> int:
    from tether.eval.result import as_json, as_table

    results = _episodes(a, setting)
    sys.stdout.write(as_table(setting, results))
    if a.json is not None:
        write_json(a.json, as_json(setting, results))
        _journal(a, setting).remove()
    if a.report is not None:
        from tether.eval.report import write_report

        sys.stdout.write(f"report: {write_report(a.report, setting, results)}\n")
    return 0


def _sweep(a: argparse.Namespace, settings: Sequence[Setting]) -> int:
    from tether.eval.sweep import draw_sweep, sweep_json, sweep_table

    sweep = {setting.truth_age_ms: _episodes(a, setting) for setting in settings}
    sys.stdout.write(sweep_table(settings[0], sweep))
    if a.json is not None:
        write_json(a.json, sweep_json(settings[0], sweep))
        for setting in settings:
            _journal(a, setting).remove()
    if a.report is not None:
        draw_sweep(a.report / "sweep.svg", settings[0], sweep)
        sys.stdout.write(f"picture: {a.report / 'sweep.svg'}\n")
    return 0


def _episodes(a: argparse.Namespace, setting: Setting) -> list[EpisodeResult]:
    from tether.eval.graph import evaluate_graph
    from tether.eval.runner import evaluate

    progress = Progress(a.episodes, "episodes")
    if setting.graph:
        return evaluate_graph(setting, a.episodes, on_result=lambda result: progress.step())
    journal = _journal(a, setting) if a.json is not None else None
    try:
        return evaluate(
            setting, a.episodes, workers=a.workers, journal=journal, on_result=lambda result: progress.step()
        )
    except KeyboardInterrupt as interrupt:
        raise KeptInterrupt(_kept(journal, a.episodes), number_of(interrupt)) from None


def _kept(journal: Journal | None, episodes: int) -> str:
    """What an interrupt leaves, and how to go on."""
    if journal is None:
        return "nothing is kept; with --json FILE the same command would go on where it stopped"
    return (
        f"{len(journal.read())} of {episodes} episodes are kept in {journal.path}; the same command goes on from there"
    )


def _journal(a: argparse.Namespace, setting: Setting) -> Journal:
    from tether.eval.journal import Journal

    name = f"{a.json.name}.{setting.truth_age_ms:g}ms.journal" if len(a.truth_age_ms) > 1 else f"{a.json.name}.journal"
    # Episodes of other code are other episodes; the hashes in the key say nothing of that.
    return Journal(a.json.with_name(name), {**setting.key(), "commit": header("eval", setting.seed)["commit"]})


def _arbitration(text: str) -> Arbitration:
    from tether.bridge.arbiter import Arbitration

    try:
        return Arbitration(text)
    except ValueError:
        names = ", ".join(way.value for way in Arbitration)
        raise argparse.ArgumentTypeError(f"{text}: expected one of {names}") from None


def _detector(text: str) -> DetectorName:
    from tether.student.naming import DetectorName

    try:
        return DetectorName(text)
    except ValueError:
        names = ", ".join(detector.value for detector in DetectorName)
        raise argparse.ArgumentTypeError(f"{text}: expected one of {names}") from None


def _age(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0.0 <= value <= 1000.0 and value % _TICK_MS == 0.0):
        raise argparse.ArgumentTypeError(f"{text}: expected 0 to 1000 ms in steps of {_TICK_MS:g} ms, the world's tick")
    return value
