"""Looking at critical state without changing it, for people."""

from __future__ import annotations

from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.integrity.critical import INITIAL
from tether.integrity.examine import examine
from tether.integrity.store import KEY, UNPROVEN
from tether.signing.ecdsa import PrivateKey


def inspect(folder: Path, names: tuple[str, ...] = tuple(INITIAL)) -> tuple[list[str], bool]:
    """What the state in `folder` is, line by line, and whether all of it verifies. Nobody may be using it.

    Raises InvalidInputError where there is none or its key is missing.
    """
    if not folder.is_dir():
        raise InvalidInputError("critical state", [Fault(str(folder), "nothing", "a folder with critical state")])
    found = examine(folder, PrivateKey.load(folder / KEY).public, (UNPROVEN, *names))
    lines = [f"{finding}" for finding in found.findings]
    if found.snapshot is None:
        return [*lines, "nothing verifies"], False
    values = {**found.snapshot.values}
    unproven = values.pop(UNPROVEN).decode()
    lines += [f"{name}: {value.decode(errors='backslashreplace')}" for name, value in values.items()]
    lines.append(f"record {found.snapshot.sequence}, root {found.snapshot.root.hex()}")
    if unproven:
        lines.append(f"not known to be the newest: {unproven}")
    return lines, found.proven and not found.findings and not unproven
