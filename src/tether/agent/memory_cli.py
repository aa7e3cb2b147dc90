"""`tether agent memory`: what an agent keeps from task to task, verified, listed and asked."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.agent.domain import Domain, load_domain
from tether.errors import Fault, InvalidInputError

if TYPE_CHECKING:
    from tether.agent.experience import Experience
    from tether.contracts import F32
    from tether.memory.long_term import LongTermMemory
    from tether.vision.eyes import LearnedEyes

_ALIKE = 5


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("memory", help="verify a memory, list its chains, ask its graph (extra `agent`)")
    parser.add_argument("folder", type=Path, help="as of `tether agent run --memory`")
    parser.add_argument(
        "--query",
        metavar="SPARQL",
        default=None,
        help="ask the graph; names are `t:`, see docs/memory.md; Neo4j: Cypher",
    )
    add_server_argument(parser)
    parser.add_argument("--keep", type=Path, metavar="PICTURE", help="remember what a place looks like")
    parser.add_argument("--like", type=Path, metavar="PICTURE", help="the places most alike, and how far they are off")
    parser.add_argument("--domain", type=Path, default=None, help="folder with domain.yaml, skills/ and tasks/")
    parser.set_defaults(run=_memory)


def add_server_argument(parser: argparse.ArgumentParser) -> None:
    """Where the memory's graph is to lie."""
    parser.add_argument(
        "--neo4j", metavar="URL", default=None,
        help="keep the memory's graph on this server: neo4j://, neo4j+s://, bolt:// or bolt+s:// (extra `neo4j`)",
    )  # fmt: skip


def opened(
    arguments: argparse.Namespace, domain: Domain, commit: str, stack: contextlib.ExitStack
) -> LongTermMemory | None:
    """The memory that `tether agent run` names, open until the stack is left; None where it names none."""
    if arguments.memory is None:
        if arguments.neo4j is not None:
            raise InvalidInputError(
                "run", [Fault("--neo4j", "no --memory", "--memory with it: the graph is made of it")]
            )
        return None
    if arguments.script:
        raise InvalidInputError("run", [Fault("--memory", "--script", "one of them: a script recalls nothing")])
    from tether.memory.long_term import LongTermMemory

    memory = stack.enter_context(LongTermMemory(arguments.memory, domain, commit=commit, store_url=arguments.neo4j))
    memory.ledger.require_own_key()  # before the first task, not after it
    return memory


def served(memory: Experience, domain: Domain, stack: contextlib.ExitStack) -> Path:
    """The socket by which the agent of a graph asks an open memory, until the stack is left."""
    from tether.memory.link import MemoryServer

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tether-memory-"))
    return stack.enter_context(MemoryServer(memory, domain, Path(folder) / "socket")).path


def _memory(arguments: argparse.Namespace) -> int:
    from tether.memory.long_term import LongTermMemory
    from tether.results import header

    if not arguments.folder.is_dir():
        fix = "`tether agent run TASK --memory FOLDER` makes one"
        raise InvalidInputError("memory", [Fault(str(arguments.folder), "no folder", "one with a memory")], fix)
    say = sys.stdout.write
    commit = header("agent", 0)["commit"]
    eyes = _eyes() if arguments.keep or arguments.like else None
    sees = None if eyes is None else eyes.session.manifest.sha256
    domain = load_domain(arguments.domain)
    opened = LongTermMemory(arguments.folder, domain, commit=commit, eyes_sha256=sees, store_url=arguments.neo4j)
    with opened as memory:
        if eyes is not None and arguments.keep:
            refused = memory.see(_tokens(eyes, arguments.keep), str(arguments.keep), time.time_ns(), {})
            say("".join(f"not kept: {why}\n" for why in refused))
            return 1 if refused else 0
        if eyes is not None:
            for one in memory.alike(_tokens(eyes, arguments.like), _ALIKE):
                say(f"{one.distance:.2f}  {one.run}  entry {one.entry}, stamp {one.stamp_ns} ns\n")
            return 0
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


def _eyes() -> LearnedEyes:
    from tether.resources import resource_path
    from tether.vision.eyes import LearnedEyes

    return LearnedEyes.load(resource_path("models", "eyes"))


def _tokens(eyes: LearnedEyes, path: Path) -> F32:
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            rgb = np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError) as error:
        raise InvalidInputError("picture", [Fault(str(path), str(error)[:100], "a picture")]) from None
    tokens = eyes.look(rgb, None).tokens
    if tokens is None:
        raise AssertionError("eyes give tokens")
    return tokens
