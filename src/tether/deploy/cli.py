"""`tether deploy`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tether.deploy import agent
from tether.deploy.agent import Step
from tether.deploy.bundle import FORMAT, Bundle, collect, write_tar
from tether.deploy.errors import DeployError, Reason
from tether.deploy.ssh import Host, call
from tether.deploy.trust import check_signatures
from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path
from tether.signing.revocations import revocations_path

_DESCRIPTION = """\
Sends models/ and config/ with their signatures, and this machine's revocation list, to a robot over ssh. There they
are verified as a physical robot does, loaded and run once in a process of their own, put in use in one step, and
watched; what is not well is taken back by the robot itself, also when the connection is lost or the power fails
meanwhile. What is revoked stays revoked. See docs/robot.md.
"""
_EPILOG = """\
exit status: 0 the robot runs what was sent, 1 it runs what it ran before (the reason is named)

  tether deploy tether@robot --restart 'sudo systemctl restart tether' --health 'tether health'
  tether deploy tether@robot --dry-run
  tether deploy tether@robot --rollback
"""
_ASK_S = 60.0
_SLOWEST_BYTES_S = 100_000.0
"""A link slower than this is taken for a dead one."""
_TRIAL_S = 900.0


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "deploy",
        help="send models, configuration and signatures to a robot, or take them back",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("host", nargs="?", metavar="[USER@]HOST", help="the robot, as ssh takes it")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="instead of the models that ship")
    parser.add_argument("--config", type=Path, metavar="FOLDER", help="instead of the configuration that ships")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--rollback", action="store_true", help="put the version before in use again")
    what.add_argument("--dry-run", action="store_true", help="verify and compare; change nothing")
    parser.add_argument("--ssh", default="ssh", metavar="CMD", help="ssh command with options, as `ssh -p 2222`")
    parser.add_argument("--tether", default="tether", metavar="CMD", help="`tether` on the robot")
    agent.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Deploy, roll back, or be the robot's end of it."""
    _check(arguments)
    if arguments.agent is not None:
        return agent.run(arguments)
    host = Host(arguments.host, tuple(shlex.split(arguments.ssh)), tuple(shlex.split(arguments.tether)))
    try:
        if arguments.rollback:
            _rollback(host, arguments)
        else:
            _deploy(host, arguments)
    except DeployError as error:
        sys.stderr.write(f"tether: {error}\n")
        return 1
    return 0


def _check(arguments: argparse.Namespace) -> None:
    faults = []
    if arguments.host is None and arguments.agent is None:
        faults.append(Fault("HOST", "none", "[user@]host of the robot"))
    if arguments.keep < 2:
        faults.append(Fault("--keep", str(arguments.keep), "2 or more: one to run, one to go back to"))
    if not 0.0 < arguments.health_timeout <= _TRIAL_S / 3:
        faults.append(Fault("--health-timeout", str(arguments.health_timeout), f"above 0, to {_TRIAL_S / 3:.0f} s"))
    if faults:
        raise InvalidInputError("deploy", faults, "see `tether deploy --help`")


def _deploy(host: Host, arguments: argparse.Namespace) -> None:
    sources = {
        "models": arguments.models or resource_path("models"),
        "config": arguments.config or resource_path("config"),
    }
    bundle, files = collect(sources, revocations_path())
    count = check_signatures(sources["models"])
    _say(f"{bundle.id}: {len(bundle.entries)} files, {bundle.size_bytes / 2**20:.1f} MiB, {count} signed")
    found = _probe(host, arguments)
    before = None if found["listing"] is None else Bundle.from_json(found["listing"].encode())
    changes = list(bundle.changes(before))
    _say(f"{host.destination}: Tether {found['tether']}, runs {found['current'] or 'no deployed version'}")
    if found["unfinished"]:
        _say("  a trial there was never ended; it is undone first")
    for change in changes:
        _say(f"  {change}")
    if arguments.dry_run:
        _say(f"dry run: {len(changes)} changes would be made, none was")
        return
    timeout_s = _ASK_S + _TRIAL_S / 3 + bundle.size_bytes / _SLOWEST_BYTES_S
    words = [*_words(arguments), "--version-id", bundle.id]
    present = bundle.id in found["versions"]
    received = call(host, Step.RECEIVE, words, timeout_s, None if present else partial(write_tar, bundle, files))
    _say(f"{'was there' if present else 'sent'}; verified there: {received['models']} signatures")
    _tell(call(host, Step.ACTIVATE, words, _TRIAL_S), arguments)


def _rollback(host: Host, arguments: argparse.Namespace) -> None:
    _probe(host, arguments)
    _tell(call(host, Step.ROLLBACK, _words(arguments), _TRIAL_S), arguments)


def _probe(host: Host, arguments: argparse.Namespace) -> dict[str, Any]:
    found = call(host, Step.PROBE, _words(arguments), _ASK_S)
    if found["format"] != FORMAT:
        text = f"{host.destination} speaks format {found['format']}, this Tether {FORMAT}"
        raise DeployError(Reason.OTHER_FORMAT, text, "install the same version of Tether on both sides")
    return found


def _tell(done: dict[str, Any], arguments: argparse.Namespace) -> None:
    removed = f"; removed {', '.join(done['removed'])}" if done["removed"] else ""
    _say(f"in use: {done['version'] or 'what ships'} (before: {done['before'] or 'what ships'}){removed}")
    if done["revocations"] is not None:
        _say(f"revocation list {done['revocations']} was newer than what was known there: it holds there from now on")
    if not arguments.restart:
        _say("nothing was restarted (--restart): a graph that runs keeps what it loaded until its next start")


def _words(arguments: argparse.Namespace) -> Sequence[str]:
    words = ["--to", str(arguments.to), "--health-timeout", str(arguments.health_timeout)]
    return [*words, "--keep", str(arguments.keep), "--restart", arguments.restart, "--health", arguments.health]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
