"""`tether faults`: the fault campaign against the live graph."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from tether.arguments import not_negative, positive
from tether.errors import Fault, InvalidInputError
from tether.faults.journal import Injection
from tether.progress import Progress
from tether.resources import resource_path
from tether.results import require_writable, write_json


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "faults",
        help="put faults into the live graph and measure how long the robot takes to stop",
        description="Starts the graph in real time with the MuJoCo world, puts in one fault after the other "
        "(config/faults.yaml) and measures from the fault to the first safe set-point, to standstill and to recovery. "
        "An interrupted campaign goes on where it was: its journal lies beside the result.",
    )
    parser.add_argument("--rounds", type=positive, default=1, metavar="N", help="how often the table is run")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file of the result")
    parser.add_argument("--only", nargs="+", default=[], metavar="FAULT", help="faults or classes; default: all")
    parser.add_argument("--table", type=Path, metavar="FILE", help="another table than config/faults.yaml")
    parser.add_argument("--policy", default="classic", help="policy that moves the robot (default: %(default)s)")
    parser.add_argument("--task", default="pick", help="task (default: %(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run it. 0 when every injection was made, whatever came of it: figures are the caller's to judge."""
    from tether.faults.campaign import Campaign, schedule
    from tether.faults.journal import FaultJournal, GraphLife
    from tether.faults.result import as_json, as_table
    from tether.faults.table import load_faults

    a = arguments
    if importlib.util.find_spec("tether_bringup") is None:
        raise InvalidInputError("faults", [Fault("tether_bringup", "not there", "built")], "make setup")
    table = load_faults(a.table)
    names = [name for name, spec in table.faults.items() if {name, spec.group.value} & set(a.only)]
    unknown = set(a.only) - set(names) - {table.faults[name].group.value for name in names}
    if unknown:
        fault = Fault("--only", ", ".join(sorted(unknown)), f"of {', '.join(table.faults)}, or their classes")
        raise InvalidInputError("faults", [fault], "correct the names")
    require_writable(a.json)
    safety = resource_path("config", "safety.yaml").read_bytes()
    journal = FaultJournal(a.json.with_name(a.json.name + ".journal"), _key(a, repr(table), safety))
    injections, lives = journal.read()
    done = len(injections)

    def keep(injection: Injection) -> None:
        journal.append(injection)
        injections.append(injection)
        progress.step(f"{injection.fault}: {injection.end.value}")

    def keep_life(life: GraphLife) -> None:
        journal.append(life)
        lives.append(life)

    campaign = Campaign(table, a.policy, a.task, a.seed + done, keep, keep_life)
    counts = campaign.made(injections)
    progress = Progress(len(list(schedule(table.faults, a.rounds, counts, names))), "injections")
    campaign.run(a.rounds, injections, names)
    result = as_json(campaign, injections, lives, a.rounds)
    write_json(a.json, result)
    journal.remove()
    sys.stdout.write(as_table(result))
    return 0


def _key(a: argparse.Namespace, table: str, safety: bytes) -> dict[str, Any]:
    """All that injections of one campaign have in common; safety: the gate's limits, which stops depend on."""
    digest = hashlib.sha256(table.encode()).hexdigest()
    fields = ",".join(field.name for field in dataclasses.fields(Injection))
    return {
        "fields": fields,
        "table": digest,
        "safety": hashlib.sha256(safety).hexdigest(),
        "only": json.dumps(sorted(a.only)),
        "policy": a.policy,
        "task": a.task,
        "seed": a.seed,
    }
