"""`tether verify`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.integrity.inspection import inspect
from tether.signing import shipped
from tether.signing.cli import target
from tether.signing.statement import SignatureRefusedError
from tether.signing.verify import Verifier


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "verify",
        help="verify signatures of models and skills, and critical state",
        description="One line for each file: who signed it, or why it is refused. Exit status 1 where one is.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="file or model folder; none: what ships")
    parser.add_argument("--physical", action="store_true", help="as a physical robot does: no development keys")
    parser.add_argument("--state", type=Path, metavar="FOLDER", help="verify the critical state kept in FOLDER instead")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Verify; 1 where anything was refused."""
    if arguments.state is not None:
        if arguments.files:
            raise InvalidInputError("verify", [Fault("FILE", str(arguments.files[0]), "none beside --state")])
        return _state(arguments.state)
    verifier = Verifier(arguments.physical)
    targets = [target(path) for path in arguments.files]
    if not targets:
        targets = [(path, kind) for path, kind, _ in shipped.pinned()]
    refused = 0
    for path, kind in targets:
        try:
            signed = verifier.load(path, kind)
            verifier.admit(signed)
        except SignatureRefusedError as error:
            refused += 1
            _say(str(error))
        else:
            statement = signed.signature.statement
            key = f"{signed.purpose.value} key {signed.signature.key_id}"
            _say(f"{path}: good: {kind.value} {statement.name}, version {statement.version}, {key}")
    _say(f"{len(targets) - refused} of {len(targets)} verified")
    return 1 if refused else 0


def _state(folder: Path) -> int:
    lines, good = inspect(folder)
    for line in lines:
        _say(line)
    return 0 if good else 1


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
