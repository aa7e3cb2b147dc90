"""`tether agent memory`: what an agent keeps from task to task, verified, listed and asked."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tether.agent.domain import load_domain
from tether.errors import Fault, InvalidInputError


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("memory", help="verify a memory, list its chains, ask its graph (extra `agent`)")
    parser.add_argument("folder", type=Path, help="as of `tether agent run --memory`")
    parser.add_argument(
        "--query", metavar="SPARQL", default=None, help="ask the graph; names are `t:`, see docs/memory.md"
    )
    parser.add_argument("--domain", type=Path, default=None, help="folder with domain.yaml, skills/ and tasks/")
    parser.set_defaults(run=_memory)


def _memory(arguments: argparse.Namespace) -> int:
    from tether.memory.long_term import LongTermMemory
    from tether.results import header

    if not arguments.folder.is_dir():
        fix = "`tether agent run TASK --memory FOLDER` makes one"
        raise InvalidInputError("memory", [Fault(str(arguments.folder), "no folder", "one with a memory")], fix)
    say = sys.stdout.write
    commit = header("agent", 0)["commit"]
    with LongTermMemory(arguments.folder, load_domain(arguments.domain), commit=commit) as memory:
        if arguments.query is not None:
            for row in memory.semantic.query(arguments.query):
                say("\t".join(f"{name}={value}" if name else value for name, value in row.items()) + "\n")
            return 0
        say(f"{len(memory.ledger.entries)} entries verified, {memory.semantic.statements} statements\n")
        for record in memory.records():
            chain = record.chain
            say(f"{chain.task} {chain.sha256[:12]}: worked {record.worked}, failed {record.failed}, ")
            say(f"weight {record.weight:.2f}, mean {record.mean_s:.2f} s, commits {', '.join(record.commits)}\n")
            say(f"  {' → '.join(f'{skill} ({way})' for skill, way in chain.steps)}\n")
    return 0
