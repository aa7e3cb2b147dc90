"""`tether urdf check`: list every fault of a robot description at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.results import header, require_writable, write_json
from tether.robot.check import Status, check_file
from tether.robot.description import require_asked_for
from tether.robot.expansion import expand_apart
from tether.robot.report import as_json, as_table

_DESCRIPTION = """\
Checks a robot description (.urdf, or .xacro, which is expanded first) and lists every fault at once, by link
or joint, with the fix: XML and xacro left over, links and joints that do not fit together, missing meshes and
packages, masses and inertias no body can have, missing or empty limits, bad axes, mimic that worlds drop,
awkward names.
"""
_EPILOG = """\
exit status: 0 clean (warnings allowed), 1 errors found, 2 not checkable (missing, empty, binary, malformed
XML, entity declarations, no URDF, xacro that cannot be expanded), or an --arg or --package-path is wrong
"""


def add_parser(subparsers: Any) -> None:
    """Add `urdf` to the subparsers of an argparse parser; the handler `run` returns the exit status."""
    urdf = subparsers.add_parser("urdf", help="check a robot description")
    commands = urdf.add_subparsers(dest="urdf_command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="list every fault of a URDF or xacro file at once",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("file", metavar="FILE", type=Path, help="robot description, .urdf or .xacro")
    check.add_argument("--json", metavar="OUT", type=Path, help="write the findings as JSON as well")
    check.add_argument(
        "--package-path",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder of packages (or a package) for package://, model:// and $(find …); may be given again",
    )
    check.add_argument(
        "--arg",
        metavar="NAME:=VALUE",
        action="append",
        default=[],
        help="value of a xacro:arg, as xacro and ros2 launch take it; may be given again",
    )
    check.set_defaults(run=_check)


def _check(args: argparse.Namespace) -> int:
    arguments = _given(args.arg, args.package_path)
    if args.json is not None:
        require_writable(args.json)
    asked_of_xacro = []

    def expand_by(path: Path, package_paths: Sequence[Path]) -> str:
        asked_of_xacro.append(path)
        return expand_apart(path, package_paths, arguments)

    report = check_file(args.file, args.package_path, expand_by)
    if not asked_of_xacro and report.status is not Status.NOT_CHECKABLE:
        require_asked_for(args.file, arguments, frozenset())
    sys.stdout.write(as_table(report))
    if args.json is not None:
        write_json(args.json, {**header("urdf check", 0), **as_json(report)})
    return int(report.status)


def _given(words: Sequence[str], folders: Sequence[Path]) -> dict[str, str]:
    """Return the values of xacro:args by name.

    Raises InvalidInputError that names every word of another form and every package path that is no folder.
    """
    pairs = [word.partition(":=") for word in words]
    faults = [
        Fault("--arg", word, "NAME:=VALUE, as in --arg prefix:=left_")
        for word, (name, sign, _) in zip(words, pairs, strict=True)
        if not (sign and name)
    ]
    for folder in folders:
        if not folder.is_dir():
            found = f"{folder}, which {'is no folder' if folder.exists() else 'does not exist'}"
            faults.append(Fault("--package-path", found, "a package, or a folder that holds packages"))
    if faults:
        raise InvalidInputError("tether urdf check", faults)
    return {name: value for name, _, value in pairs}
