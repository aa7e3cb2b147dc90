"""What the commands' parsers share: numbers with the bounds they must keep, and commands with a table of names."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from tether.brief import brief

Table = Mapping[str, tuple[str, str]]
"""Name → the module that does it, with `add_arguments(parser)`, and what it is. Only a module that runs is imported."""

MOST = 2**62
"""The largest number that a command takes: a first seed and a number of episodes together are an integer of ROS still
(64 bits with a sign), so that the core loop and the graph take the same ones."""


def add_table_parser(
    subparsers: Any, command: str, table: Table, *, help: str, intro: str, title: str, run: Callable[..., int]
) -> None:
    """Register `tether COMMAND NAME ...`, where NAME is of `table` and what follows is for its module."""
    width = max(len(name) for name in table)
    listed = "\n".join(f"  {name:<{width}}  {doc}" for name, (_, doc) in table.items())
    parser = subparsers.add_parser(
        command,
        help=help,
        description=f"{intro}\n\n{title}:\n{listed}\n\n`tether {command} NAME --help` lists what one of them takes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", choices=table, help="one of those above")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def chosen_module(command: str, table: Table, name: str) -> tuple[ModuleType, argparse.ArgumentParser]:
    """The module behind a name, and an empty parser for its arguments."""
    module, doc = table[name]
    return importlib.import_module(module), argparse.ArgumentParser(prog=f"tether {command} {name}", description=doc)


def positive(text: str) -> int:
    """A whole number from 1 to `MOST`."""
    return _at_least(text, 1)


def not_negative(text: str) -> int:
    """A whole number from 0 to `MOST`."""
    return _at_least(text, 0)


def _at_least(text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= MOST:
        raise argparse.ArgumentTypeError(f"{brief(text)}: expected a whole number, at least {low} and at most {MOST}")
    return value
