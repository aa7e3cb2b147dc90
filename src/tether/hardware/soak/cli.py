"""`tether soak`."""

from __future__ import annotations

import argparse
import importlib.util
import math
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tether import __version__
from tether.arguments import not_negative
from tether.errors import Fault, InvalidInputError
from tether.journal import RecordJournal
from tether.results import header, require_writable, write_json

_EVERY_S = 60.0
_LEAST_EVERY_S = 5.0
_WIGGLE_MOST_RAD = 0.3


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "soak",
        help="run a robot or its emulated devices for hours, with faults, and count what wears",
        description="Runs the drivers in real time: the arm holds, one joint goes slowly to and fro, the wheels stand "
        "still. Writes the slope of memory with its 95 % interval, temperatures, gaps, what was stuck, and for "
        "emulated devices each fault with the time to its recovery; a table to the terminal, a picture beside OUT. "
        "An interrupted soak reports what it has, and the same command goes on.",
    )
    parser.add_argument("--hours", type=_hours, required=True, metavar="H", help="how long, all runs together")
    parser.add_argument("--json", type=Path, required=True, metavar="OUT", help="file of the result")
    parser.add_argument("--robot", default="emulated", help="name or file of the robot (default: %(default)s)")
    parser.add_argument(
        "--inject-every",
        type=float,
        metavar="S",
        help=f"emulated devices: seconds from fault to fault, at least {_LEAST_EVERY_S:g} (default: {_EVERY_S:g})",
    )
    parser.add_argument("--no-faults", action="store_true", help="emulated devices: put no faults in")
    parser.add_argument("--task", default="pick", help="what stands around the robot (default: %(default)s)")
    parser.add_argument("--profile", default="real", help="profile (default: %(default)s)")
    parser.add_argument("--wiggle-joint", default="wrist_roll", metavar="NAME", help="default: %(default)s")
    parser.add_argument(
        "--wiggle-rad", type=float, default=0.1, metavar="A", help="amplitude, at most 0.3 (default: %(default)s)"
    )
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Soak. 0 when the whole time was run, 130 when it was interrupted: the report is written either way."""
    from tether.assembly import robot
    from tether.hardware.build import below, make_physical_world
    from tether.hardware.calibration import load_calibration
    from tether.hardware.settings import load_robot_settings
    from tether.hardware.soak.injector import Injector
    from tether.hardware.soak.run import Soak, SoakPlan

    a = arguments
    settings = load_robot_settings(a.robot)
    emulated = settings.is_emulated
    every_s = _checked(a, emulated)
    require_writable(a.json)
    journal = RecordJournal(a.json.with_name(a.json.name + ".journal"), _key(a, every_s))
    records = journal.read()

    spans = [one for one in records if one["record"] == "span"]
    runs, done_s = (spans[-1]["run"] + 1, spans[-1]["done_s"]) if spans else (0, 0.0)
    plan = SoakPlan(3600.0 * a.hours, done_s, runs, a.task, a.profile, a.wiggle_joint, a.wiggle_rad)
    if done_s < plan.total_s:
        with tempfile.TemporaryDirectory(prefix="tether-soak-") as name, _devices(a, emulated, Path(name)) as devices:
            ids = [servo.id for servo in load_calibration(settings.calibration).servos.values()]
            done = sum(one["record"] == "fault" for one in records)
            injector = None if devices is None or every_s is None else Injector(devices, ids, every_s, a.seed, done)
            world = make_physical_world(below(settings, Path(name)) if emulated else settings, robot())
            try:
                soak = Soak(world, settings, plan, injector, journal.append)
                with _stopping(soak):
                    done_s = soak.go()
            finally:
                world.close()
    return _report(a, journal.read(), plan.total_s, journal)  # not kept meanwhile: memory is what is measured


def _report(a: argparse.Namespace, records: list[dict[str, Any]], total_s: float, journal: RecordJournal) -> int:
    from tether.hardware.soak.report import draw, summary, table

    result = {**header("soak", a.seed), "robot": a.robot, **summary(records, total_s)}
    write_json(a.json, result)
    if importlib.util.find_spec("matplotlib") is not None:
        draw(a.json.with_suffix(".png"), records)
    else:
        sys.stderr.write("tether: no picture: matplotlib is not installed here (it comes with the extra sim)\n")
    sys.stdout.write(table(result))
    if result["complete"]:
        journal.remove()
        return 0
    return 130


def _checked(a: argparse.Namespace, emulated: bool) -> float | None:
    """Seconds from fault to fault, None for none; every fault of the arguments is reported."""
    from tether.robot.roles import ARM_JOINTS

    faults = []
    if a.wiggle_joint not in ARM_JOINTS:
        faults.append(Fault("--wiggle-joint", a.wiggle_joint, f"one of {', '.join(ARM_JOINTS)}"))
    if not 0.0 < a.wiggle_rad <= _WIGGLE_MOST_RAD:
        faults.append(Fault("--wiggle-rad", f"{a.wiggle_rad:g}", f"above 0 and at most {_WIGGLE_MOST_RAD:g}"))
    if a.inject_every is not None and not emulated:
        faults.append(
            Fault("--inject-every", f"robot {a.robot}", "emulated devices: no fault is put into a real robot")
        )
    if a.inject_every is not None and a.no_faults:
        faults.append(Fault("--inject-every", "with --no-faults", "one of them"))
    if a.inject_every is not None and not a.inject_every >= _LEAST_EVERY_S:
        faults.append(Fault("--inject-every", f"{a.inject_every:g} s", f"at least {_LEAST_EVERY_S:g} s"))
    if faults:
        raise InvalidInputError("soak", faults)
    if not emulated or a.no_faults:
        return None
    return float(a.inject_every) if a.inject_every is not None else _EVERY_S


def _key(a: argparse.Namespace, every_s: float | None) -> dict[str, Any]:
    """What a soak that goes on must have in common with the one before. Its length may grow."""
    return {
        **{"tool": "soak", "version": __version__, "robot": a.robot, "task": a.task, "profile": a.profile},
        **{"seed": a.seed, "every_s": every_s, "wiggle": [a.wiggle_joint, a.wiggle_rad]},
    }


@contextmanager
def _devices(a: argparse.Namespace, emulated: bool, folder: Path) -> Iterator[Any]:
    """The emulated devices' process, None for a robot that has its own."""
    if not emulated:
        yield None
        return
    from tether.hardware.emulate.process import DeviceProcess

    with DeviceProcess(folder, a.robot, a.task, a.profile, a.seed) as devices:
        yield devices


@contextmanager
def _stopping(soak: Any) -> Iterator[None]:
    """Interrupts and terminations end the soak in order."""
    before = {number: signal.signal(number, lambda *_: soak.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hours(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"{text!r}: expected hours, above 0")
    return value
