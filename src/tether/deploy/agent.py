"""The robot's end: one step a call, started over ssh as `tether deploy --agent STEP`, answering with one line of JSON.

A step that has begun ends on its own: a lost connection neither stops it half way nor leaves a version in use that was
never found healthy.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from tether import __version__
from tether.arguments import positive
from tether.deploy.bundle import FORMAT
from tether.deploy.errors import DeployError, Reason
from tether.deploy.layout import Place, Trial
from tether.deploy.receive import admit, check_version, receive
from tether.deploy.trial import try_version
from tether.deploy.trust import check_signatures, take_revocations
from tether.errors import TetherError

_PAUSE_S = 0.5
_COMMAND_S = 120.0
Answer = dict[str, Any]


class Step(str, Enum):
    """What the robot is asked for."""

    PROBE = "probe"
    """What is there; changes nothing."""
    RECEIVE = "receive"
    """Take a version in from standard input and verify it; nothing runs it yet."""
    ACTIVATE = "activate"
    """Try a version, put it in use, restart, look whether that is healthy, and go back by itself where it is not."""
    ROLLBACK = "rollback"
    """Put the version before in use, in the same way."""
    SETTLE = "settle"
    """After a crash: go back to what was last found healthy."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What both ends know."""
    parser.add_argument("--to", type=Path, default=Path("/var/lib/tether"), metavar="FOLDER", help="versions' folder")
    parser.add_argument("--restart", default="", metavar="CMD", help="command on the robot that restarts the graph")
    parser.add_argument("--health", default="", metavar="CMD", help="command on the robot that exits 0 when it is well")
    parser.add_argument(
        "--health-timeout", type=float, default=60.0, metavar="S", help="how long to wait for that (60)"
    )
    parser.add_argument("--keep", type=positive, default=3, metavar="N", help="versions to keep on the robot (3)")
    parser.add_argument("--agent", type=Step, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--version-id", default="", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Carry out a step; 0 with what was done, 1 with the reason why not, both as JSON."""
    for name in (signal.SIGHUP, signal.SIGPIPE):
        signal.signal(name, signal.SIG_IGN)
    try:
        answer = {"ok": True, **_STEPS[arguments.agent](Place(arguments.to), arguments)}
    except DeployError as error:
        answer = {"ok": False, "reason": error.reason.value, "text": error.text, "fix": error.fix}
    except TetherError as error:
        answer = {"ok": False, "reason": Reason.DAMAGED.value, "text": str(error), "fix": ""}
    except OSError as error:
        answer = {"ok": False, **_os_error(error, arguments.to)}
    try:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody listens any more; what was done is done
    return 0 if answer["ok"] else 1


def _os_error(error: OSError, root: Path) -> Answer:
    permission = isinstance(error, PermissionError)
    reason = Reason.NOT_PERMITTED if permission else Reason.NO_SPACE if error.errno == 28 else Reason.INTERRUPTED
    fix = f"on the robot: sudo install -d -o $USER {root}" if permission else "look at the robot's disk: `df -h; dmesg`"
    return {"reason": reason.value, "text": f"{error.filename or root}: {error.strerror or error}", "fix": fix}


def _probe(place: Place, arguments: argparse.Namespace) -> Answer:
    current = place.linked("current")
    listing = None if current is None else place.listing(current).to_json().decode()
    return {
        "format": FORMAT,
        "tether": __version__,
        "current": current,
        "previous": place.linked("previous"),
        "versions": place.versions(),
        "unfinished": place.unfinished() is not None,
        "listing": listing,
    }


def _receive(place: Place, arguments: argparse.Namespace) -> Answer:
    version = _version(arguments)
    with place.locked():
        place.settle()
        if place.folder(version).is_dir():
            check_version(place, version)
            return {"version": version, "models": _check_signatures(place.folder(version))}
        try:
            folder = receive(place, sys.stdin.buffer, version)
            count = _check_signatures(folder)
            admit(place, folder, version)
        finally:
            place.clear_incoming()
    return {"version": version, "models": count}


def _activate(place: Place, arguments: argparse.Namespace) -> Answer:
    with place.locked():
        undone = place.settle()
        return {**_put_in_use(place, _version(arguments), arguments), "undone": undone is not None}


def _rollback(place: Place, arguments: argparse.Namespace) -> Answer:
    with place.locked():
        if (undone := place.settle()) is not None:
            _call(arguments.restart, "restart")
            return {"version": undone.before, "before": undone.new, "removed": [], "revocations": None}
        version = place.linked("previous")
        if version is None:
            raise DeployError(Reason.NO_SUCH_VERSION, f"no version before in {place.root}", "deploy one")
        return _put_in_use(place, version, arguments)


def _settle(place: Place, arguments: argparse.Namespace) -> Answer:
    """At the start of the robot's service. A deployment that holds the lock is what restarts it: nothing to undo."""
    try:
        with place.locked():
            undone = place.settle()
    except DeployError as error:
        if error.reason is not Reason.BUSY:
            raise
        return {"undone": False}
    return {"undone": undone is not None}


def _put_in_use(place: Place, version: str, arguments: argparse.Namespace) -> Answer:
    before = place.linked("current")
    check_version(place, version)
    _check_signatures(place.folder(version))
    taken = take_revocations(place.folder(version))
    if version == before:
        return {"version": version, "before": before, "removed": [], "revocations": taken}
    try_version(place.folder(version))
    trial = Trial(before, version)
    place.begin_trial(trial)
    place.switch("current", version)
    try:
        _call(arguments.restart, "restart")
        _wait_for_health(arguments.health, arguments.health_timeout)
    except BaseException as error:
        place.go_back(trial)
        _report_restart(arguments.restart, error, before)
        raise
    place.switch("previous", before)
    place.end_trial()
    return {"version": version, "before": before, "removed": place.prune(arguments.keep), "revocations": taken}


def _check_signatures(folder: Path) -> int:
    return check_signatures(folder / "models", folder)


def _report_restart(restart: str, error: BaseException, before: str | None) -> None:
    """Restart what was gone back to; what goes wrong with that, too, is said beside the first error."""
    again = ""
    try:
        _call(restart, "restart")
    except DeployError as second:
        again = f"; after going back: {second.text}"
    if isinstance(error, DeployError):
        where = f"the robot is back at {before}" if before else "the robot has no version, as before"
        raise DeployError(error.reason, f"{error.text}; {where}{again}", error.fix) from error


def _wait_for_health(command: str, timeout_s: float) -> None:
    """Ask until the answer is yes; DeployError (UNHEALTHY) with the last answer at the deadline."""
    end_s = time.monotonic() + timeout_s
    while command:
        try:
            _call(command, "health check", max(1.0, end_s - time.monotonic()))
            return
        except DeployError:
            if time.monotonic() >= end_s:
                raise
            time.sleep(_PAUSE_S)


def _call(command: str, what: str, timeout_s: float = _COMMAND_S) -> None:
    """Run a command of the operator's, without a shell; nothing where none was given."""
    if not command:
        return
    try:
        words = shlex.split(command)
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, ValueError) as error:
        raise DeployError(Reason.UNHEALTHY, f"{what} `{command}`: {error}", "name a command on the robot") from None
    except subprocess.TimeoutExpired:
        text = f"{what} `{command}` took more than {timeout_s:.0f} s"
        raise DeployError(Reason.UNHEALTHY, text, "look at the robot's log: `journalctl -u tether -n 100`") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-1000:]
        text = f"{what} `{command}`: exit status {done.returncode}{': ' + said if said else ''}"
        raise DeployError(Reason.UNHEALTHY, text, "look at the robot's log: `journalctl -u tether -n 100`")


def _version(arguments: argparse.Namespace) -> str:
    version = str(arguments.version_id)
    if len(version) != 16 or set(version) - set("0123456789abcdef"):
        raise DeployError(Reason.OTHER_FORMAT, f"version {version!r}", "install the same Tether on both sides")
    return version


_STEPS: dict[Step, Callable[[Place, argparse.Namespace], Answer]] = {
    Step.PROBE: _probe,
    Step.RECEIVE: _receive,
    Step.ACTIVATE: _activate,
    Step.ROLLBACK: _rollback,
    Step.SETTLE: _settle,
}
