"""`tether launch`: run a launch file; Ctrl-C stops everything in order."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TextIO

from tether.launch import ament
from tether.launch.errors import Fault, LaunchFileError
from tether.launch.model import LaunchPlan, ParameterFile
from tether.launch.output import Line
from tether.launch.reader import parse_arguments, read, read_arguments
from tether.launch.requirements import require_usable
from tether.launch.runner import Runner

_DESCRIPTION = """\
Run a ROS 2 launch file (XML) without ROS 2's own launch.

The file may use: launch, arg, choice, let, set_env, group, include, node, param, remap, env; if and unless;
$(var), $(env), $(find-pkg-share), $(dirname), $(equals), $(not), $(and), $(or). A file that uses anything
else is refused with the line; a file that is taken means the same to `ros2 launch`.

Ctrl-C stops the lifecycle manager first, then the nodes, the safety gate, and the world or driver last. A
process that does not listen gets SIGTERM and then SIGKILL; a second Ctrl-C does not wait. A process that fails
ends the launch, unless --keep-going. Nothing is left running, also if this command itself is killed.
"""
SHOWN_LINES = 10
_EPILOG = """\
examples:
  tether launch launch/sim.launch.xml task:=pick policy:=classic
  tether launch tether_bringup replay.launch.xml bag:=runs/latest/bag
  tether launch launch/robot.launch.xml --show-args
  tether launch launch/sim.launch.xml --dry-run     # the command lines, and nothing is started

exit status: 0 when every process ended well, also when Ctrl-C or SIGTERM stopped it; 1 when a process failed
(the first one is named); 2 when the file or its arguments are wrong.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "launch",
        help="run a launch file with or without a ROS 2 installation",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE|PACKAGE", help="launch file, or package that installs it")
    parser.add_argument("rest", nargs="*", metavar="[FILE] name:=value", help="file in PACKAGE; arguments")
    parser.add_argument("-s", "--show-args", action="store_true", help="show the file's arguments and leave")
    parser.add_argument("--dry-run", action="store_true", help="show the command lines and leave")
    parser.add_argument("--log-dir", type=Path, metavar="DIR", help="write launch.log into DIR")
    parser.add_argument("--keep-going", action="store_true", help="do not end the launch when a process fails")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command. 0 when every process ended well, 1 when one failed; a bad file raises TetherError."""
    path, words = _file_and_words(arguments.file, list(arguments.rest), dict(os.environ))
    if arguments.show_args:
        return _show_arguments(path)
    plan = read(path, parse_arguments(words))
    require_usable(plan)
    return _show_commands(plan) if arguments.dry_run else _launch(plan, arguments)


def _file_and_words(first: str, rest: list[str], env: dict[str, str]) -> tuple[Path, list[str]]:
    """Tell `FILE …` from `PACKAGE FILE …` as `ros2 launch` does: by whether there is such a file."""
    if Path(first).is_file():
        return Path(first), rest
    if not rest or ":=" in rest[0]:
        what = f"there is no such file, seen from {Path.cwd()}; to run a package's, give PACKAGE FILE"
        raise LaunchFileError([Fault(first, 0, what)])
    return ament.find_share_file(first, rest[0], env), rest[1:]


def _show_arguments(path: Path) -> int:
    for argument in read_arguments(path):
        default = "must be given" if argument.default is None else f"default: {argument.default!r}"
        choices = f"; one of {', '.join(argument.choices)}" if argument.choices else ""
        sys.stdout.write(f"{argument.name}: {argument.description or 'no description'} ({default}{choices})\n")
    return 0


def _show_commands(plan: LaunchPlan) -> int:
    for process in plan.processes:
        paths = [
            p.path if isinstance(p, ParameterFile) else Path(f"<{p.name}: {p.value!r}>") for p in process.parameters
        ]
        settings = " ".join(f"{name}={value}" for name, value in process.env.items())
        sys.stdout.write(f"[{process.label}] {settings + ' ' if settings else ''}")
        sys.stdout.write(" ".join(process.command(paths)) + "\n")
    return 0


def _launch(plan: LaunchPlan, options: argparse.Namespace) -> int:
    def show(line: Line) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    runner = Runner(plan, log_dir=options.log_dir, sink=show, end_on_failure=not options.keep_going)

    def ask_stop(number: int, frame: FrameType | None) -> None:
        runner.ask_stop()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, ask_stop) for number in numbers}
    try:
        with _news(sys.stderr), runner:
            outcome = runner.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if outcome.failure is None:
        return 0
    for text in outcome.failure.last_lines[-SHOWN_LINES:]:
        sys.stderr.write(f"  {text}\n")
    sys.stderr.write(f"tether launch: {outcome.failure}; its last lines stand above\n")
    return 1


@contextmanager
def _news(stream: TextIO) -> Iterator[None]:
    """Write what the runner logs to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[launch] %(message)s"))
    log = logging.getLogger("tether.launch")
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate
