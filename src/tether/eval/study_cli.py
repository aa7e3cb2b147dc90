"""`tether study`: studies of several policies under several conditions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.arguments import not_negative, positive
from tether.errors import Fault, InvalidInputError

if TYPE_CHECKING:
    from tether.eval.study import Cell

_DELAYS_MS = (0.0, 60.0, 120.0, 180.0, 240.0)
_POLICIES = ("student", "student+padded", "student+constant_velocity", "classic")


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "study",
        help="policies side by side under several conditions: curves, ablations, profiles never seen",
        description="Runs the same seeds for every policy and condition, all cells growing together, and goes on where "
        "it stopped if --out is the same folder and the code is the same. JSON and picture are written anew whenever a "
        "cell has grown.",
    )
    parser.add_argument("study", choices=("curve", "ablations", "unseen"), help="against the camera's delay, without "
                        "each modality, or under profiles drawn around the given one")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of journals and profiles")
    parser.add_argument("--policies", nargs="+", default=list(_POLICIES), metavar="[NAME=]POLICY",
                        help="rows, with a name where the policy's own is a folder's (ablations: one student; default: "
                        "%(default)s)")  # fmt: skip
    parser.add_argument("--task", default="pick_moving", help="default: %(default)s")
    parser.add_argument("--profile", default="real", help="default: %(default)s")
    parser.add_argument(
        "--episodes", type=positive, default=60, metavar="N", help="of each cell (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=not_negative, default=400, metavar="S", help="of the first (default: %(default)s)"
    )
    parser.add_argument("--chunk", type=positive, default=10, metavar="N", help="episodes of a cell at a time")
    parser.add_argument("--workers", type=positive, default=1, help="processes")
    parser.add_argument("--delays-ms", type=_delay, nargs="+", default=list(_DELAYS_MS), metavar="MS")
    parser.add_argument("--profiles", type=positive, default=30, metavar="N", help="unseen: so many are drawn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result for machines")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="curve: SVG or PNG")
    parser.add_argument(
        "--beside", type=Path, nargs="+", default=[], metavar="FILE",
        help="results of the same study for other policies, measured apart; they stand in JSON and picture too",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run it. 0 when all episodes ran, whatever their success."""
    from tether.eval.studies import draw_curve
    from tether.eval.study import (
        Results,
        Study,
        cells_of,
        episodes_left,
        run_study,
        study_json,
        study_table,
        write_study,
    )
    from tether.progress import Progress
    from tether.results import require_writable

    a = arguments
    for path in (a.json, a.picture, a.out / "journal"):
        if path is not None:
            require_writable(path)
    study = Study(a.study, a.task, _cells(a), a.episodes, a.seed, a.chunk, a.workers)
    beside = [cell for path in a.beside for cell in cells_of(study, path)]
    progress = Progress(episodes_left(study, a.out), "episodes")

    def keep(results: Results, last: bool = False) -> None:
        if a.json is not None:
            write_study(a.json, study, results, beside, last=last)
        if a.picture is not None and a.study == "curve":
            draw_curve(a.picture, f"{a.task}, {a.profile}", study_json(study, results, beside)["cells"])

    results = run_study(study, a.out, lambda result: progress.step(), keep)
    keep(results, last=True)
    sys.stdout.write(study_table(results))
    return 0


def _cells(a: argparse.Namespace) -> tuple[Cell, ...]:
    from tether.assembly import require_settings
    from tether.eval.studies import ablation_cells, curve_cells, unseen_cells

    policies = _named(a.policies)
    for policy in policies.values():
        require_settings(policy, a.task, a.profile)
    if a.study == "curve":
        return curve_cells(policies, a.profile, a.delays_ms, a.out / "profiles")
    if a.study == "ablations":
        return ablation_cells(next(iter(policies.values())), a.profile)
    per_profile = -(-a.episodes // a.profiles)
    return unseen_cells(policies, a.profile, a.profiles, per_profile, a.seed, a.out / "profiles")


def _named(texts: Sequence[str]) -> dict[str, str]:
    """NAME=POLICY or POLICY, by name; raises InvalidInputError where two have one name."""
    out: dict[str, str] = {}
    for text in texts:
        name, _, policy = text.rpartition("=")
        name = name or policy
        if name in out:
            raise InvalidInputError("study", [Fault("policies", f"{name!r} twice", "a name of its own for each")])
        out[name] = policy
    return out


def _delay(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1000.0:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 to 1000 ms")
    return value
