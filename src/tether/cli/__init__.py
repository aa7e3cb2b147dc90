"""The console command `tether`."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import re
import select
import sys
from collections.abc import Sequence
from importlib import metadata

from tether import __version__
from tether.cli.streams import prepare_streams
from tether.errors import TetherError
from tether.interrupts import number_of, raising_stops
from tether.threads import use_one_thread

_DESCRIPTION = """\
Tether takes a policy from simulation to a small robot and keeps the two tied together.

  tether sim                                run episodes in the simulated world through the whole ROS 2 graph
  tether eval --policy classic --task pick  success with confidence interval, failures, report
  tether train teacher|student|...          train the models that a robot runs
  tether launch FILE name:=value            run a launch file with or without a ROS 2 installation
  tether replay BAG                         feed a recording to the graph; --check recomputes every decision
  tether bench graph|world|replay|...       measure, side by side with a reference
  tether faults --rounds N --json OUT       put faults into the live graph, measure how long the robot takes to stop
  tether fuzz gate --cases N --json OUT     damaged messages and files into everything that the gate reads
  tether urdf check FILE                    every fault of a robot description at once
  tether deploy USER@HOST                   send models and configuration to a robot; it goes back by itself
  tether doctor                             what is wrong with this machine, and the fix
"""

_COMMANDS = {
    "sim": ("tether.cli.sim", "run episodes in the simulated world through the whole ROS 2 graph"),
    "eval": ("tether.eval.cli", "success of a policy on a task under a profile"),
    "study": ("tether.eval.study_cli", "policies side by side: curves, ablations, profiles never seen"),
    "train": ("tether.train.cli", "train the models that a robot runs"),
    "launch": ("tether.launch.cli", "run a launch file, with or without a ROS 2 installation"),
    "replay": ("tether.bags.cli", "feed a recording to the graph, or check its decisions"),
    "bench": ("tether.bench.cli", "measure, side by side with a reference"),
    "faults": ("tether.faults.cli", "put faults into the live graph and measure how long the robot takes to stop"),
    "fuzz": ("tether.fuzz.cli", "damaged messages and files into everything that the gate reads"),
    "urdf": ("tether.robot.cli", "robot descriptions: every fault at once"),
    "agent": ("tether.agent.cli", "the agent: task skills, their proof, runs and traces"),
    "gateway": ("tether.gateway.cli", "calls of task skills over HTTP, in a journal that loses none"),
    "sign": ("tether.signing.cli", "sign models and skills"),
    "verify": ("tether.signing.cli_verify", "verify signatures and critical state"),
    "deploy": ("tether.deploy.cli", "send models, configuration and signatures to a robot, or take them back"),
    "calibrate": ("tether.calibrate.cli", "measure one robot; writes its calibration and its profile"),
    "latency": ("tether.calibrate.latency_cli", "motion to photon: how late a joint follows and is seen"),
    "soak": ("tether.hardware.soak.cli", "run a robot or its emulated devices for hours, with faults"),
    "runtimes": ("tether.runtimes.cli", "what can run models here, and what `auto` chooses and why"),
    "doctor": ("tether.doctor.cli", "what is wrong with this machine, and the fix"),
}
"""Command → module with `add_parser(subparsers)`, which sets `run` to a function of the parsed arguments; and its help.

Only the module of the command that is run is imported.
"""

_DISTRIBUTION_OF = {"cv2": "opencv-python-headless", "faiss": "faiss-cpu", "PIL": "pillow"}
"""Module → distribution, where they are not called the same."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point.

    Exit status: 0 done, 1 what was asked for failed, 2 not understood or refused, 130 interrupted (143 by SIGTERM,
    129 by SIGHUP), 141 (as of other programs) nobody reads the output any more.
    """
    prepare_streams()
    try:
        try:
            with raising_stops():
                return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # here, where it can still be told that nobody reads
    except TetherError as error:
        sys.stderr.write(f"tether: {error}\n")
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("tether", ""):
            raise
        sys.stderr.write(f"tether: this needs the Python package {error.name}, which is not installed here\n")
        sys.stderr.write(f"  fix: {_fix_of_missing((error.name or '').partition('.')[0])}\n")
        return 2
    except KeyboardInterrupt as interrupt:
        sys.stderr.write(f"tether: interrupted{f': {interrupt}' if str(interrupt) else ''}\n")
        return 128 + number_of(interrupt)
    except BrokenPipeError as error:
        if _nobody_reads():
            return 141
        sys.stderr.write(f"tether: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(_of_the_system(error))
        return 1


def _fix_of_missing(module: str) -> str:
    """How to come by a module that is not here: by the extra of this distribution that asks for it."""
    name = _DISTRIBUTION_OF.get(module, module).replace("_", "-")
    extra = "sim"
    try:
        requirements = metadata.requires("tether-robotics") or ()
    except metadata.PackageNotFoundError:  # run from its sources
        requirements = ()
    for requirement in requirements:
        asked = re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", requirement)
        if asked and asked[1].lower() == name.lower():
            extra = asked[2]
            break
    target = {"sim": "setup", "train": "setup-dev", "agent": "setup-dev", "dev": "setup-dev"}.get(extra)
    made = f"run `make {target}` in a checkout, or " if target else ""
    return f"{made}`pip install 'tether-robotics[{extra}]'`"


def _of_the_system(error: OSError) -> str:
    if error.filename is None or error.filename2 is not None:
        return f"tether: {error}\n"
    fix = "check the path, its permissions and the free space"
    return f"tether: {error.filename}: {error.strerror}\n  fix: {fix}\n"


def _nobody_reads() -> bool:
    """Whether it is stdout that broke (`| head`), not another pipe; what is left for it goes nowhere then."""
    try:
        out = sys.stdout.fileno()
    except OSError:  # no file behind it
        return False
    poll = select.poll()
    poll.register(out, 0)  # errors alone: a pipe has one as long as nobody reads
    if not poll.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), out)  # else Python complains when it ends
    return True


def _run(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tether", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"tether {__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what is going on")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen in ("eval", "study"):  # many small arrays in many processes: threads below only get in each other's way
        use_one_thread()
    for name, (module, doc) in _COMMANDS.items():
        if name == chosen:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=doc)
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        of_command = subparsers.choices.get(chosen or "", parser)
        of_command.error(f"unrecognized arguments: {' '.join(unknown)}")
    level = logging.INFO if arguments.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    return int(arguments.run(arguments))
