"""`tether runtimes`: what can run models here, and what `auto` chooses for each shipped model, and why."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tether.arguments import positive
from tether.errors import TetherError
from tether.models.manifest import MANIFEST_FILE
from tether.models.store import Model
from tether.resources import resource_path
from tether.results import header, require_writable, write_json
from tether.runtimes.interface import REFERENCE, RuntimeName
from tether.runtimes.memory import Trial, book_path, key, locked, read_book, remember
from tether.runtimes.registry import runtime
from tether.runtimes.selection import MARGIN, TOLERANCE, Decision, candidates, judge, requested
from tether.runtimes.trial import BUILD_TIMEOUT_S, TIMEOUT_S, try_runtime


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "runtimes",
        help="what can run models here, and what `auto` chooses and why",
        description="Tries every runtime that is installed with every shipped model, each in a process of its own, "
        "once a machine, and shows what `TETHER_RUNTIME=auto` makes of it. Do this before a robot's first start.",
    )
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="look for models below this one instead")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="of each runtime (default 1)")
    parser.add_argument("--again", action="store_true", help="try all anew, whatever is remembered")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result for machines")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Try, show, write; exit status 1 where the reference itself is not here."""
    if arguments.json is not None:
        require_writable(arguments.json)
    here = {name: _state(name) for name in RuntimeName}
    folder = arguments.models or resource_path("models")
    models = [Model.read(path.parent) for path in sorted(folder.rglob(MANIFEST_FILE))]
    decisions: dict[str, tuple[Decision, dict[RuntimeName, Trial]]] = {}
    for model in models:
        trials = _trials(model, arguments.threads, again=arguments.again)
        decisions[model.manifest.kind] = (judge(trials), trials)
    sys.stdout.write(_table(here, decisions, arguments.threads))
    if arguments.json is not None:
        write_json(arguments.json, _json(here, decisions, arguments.threads))
    return 0 if here[REFERENCE][0] else 1


def _state(name: RuntimeName) -> tuple[bool, str]:
    """Whether a runtime is here, and its version or what is missing."""
    try:
        return True, runtime(name).version()
    except TetherError as error:
        faults = getattr(error, "faults", ())
        return False, "; ".join(fault.found for fault in faults) or str(error)


def _trials(model: Model, threads: int, *, again: bool) -> dict[RuntimeName, Trial]:
    """Of every candidate, remembered; a TensorRT engine is waited for here."""
    trials = {}
    for name in candidates():
        entry = key(model.manifest.sha256, name, threads)
        with locked():
            trial = None if again else read_book().trials.get(entry)
            if trial is None:
                timeout_s = BUILD_TIMEOUT_S if name is RuntimeName.TENSORRT else TIMEOUT_S
                trial = try_runtime(name, model, threads, timeout_s)
                remember(entry, trial)
        trials[name] = trial
    return trials


def _table(
    here: dict[RuntimeName, tuple[bool, str]],
    decisions: dict[str, tuple[Decision, dict[RuntimeName, Trial]]],
    threads: int,
) -> str:
    width = max(len(name.value) for name in RuntimeName)
    lines = ["runtimes"]
    for name, (is_here, about) in here.items():
        lines.append(f"  {name.value:<{width}}  {'' if is_here else 'not here: '}{' '.join(about.split())[:120]}")
    lines.append(f"auto, {threads} thread{'s' if threads > 1 else ''}, tolerance {TOLERANCE:g}, margin {MARGIN:g} x")
    for kind, (decision, _) in decisions.items():
        lines.append(f"  {kind:<{width}}  {decision.runtime.value}: {decision.why}")
    lines.append(f"asked for here: {requested().value}; remembered in {book_path()}")
    return "\n".join(lines) + "\n"


def _json(
    here: dict[RuntimeName, tuple[bool, str]],
    decisions: dict[str, tuple[Decision, dict[RuntimeName, Trial]]],
    threads: int,
) -> dict[str, Any]:
    return {
        **header("runtimes", 0),
        "threads": threads,
        "tolerance": TOLERANCE,
        "margin": MARGIN,
        "requested": requested().value,
        "here": {name.value: {"here": is_here, "about": about} for name, (is_here, about) in here.items()},
        "auto": {
            kind: {
                "runtime": decision.runtime.value,
                "why": decision.why,
                "trials": {name.value: {**vars(trial), "runtime": name.value} for name, trial in trials.items()},
            }
            for kind, (decision, trials) in decisions.items()
        },
    }
