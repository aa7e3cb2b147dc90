"""What a folder holds, and what of it can be believed: database and anchor against each other.

| database | anchor | state taken | proven newest |
| --- | --- | --- | --- |
| verifies, same sequence | verifies | both say the same | yes |
| verifies, same sequence | one slot torn or out of turn | anchor's | no |
| verifies, one ahead | verifies | database: a kill came between the two | yes |
| verifies, further ahead | verifies | database | yes |
| verifies, behind | verifies | anchor's | yes |
| damaged or missing | verifies | the newer of anchor's and the good part's | yes |
| verifies, other history | verifies | anchor's | no |
| verifies, or a part of it | damaged or missing | database's good part | no |
| nothing good | damaged or missing | the initial state | no |
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tether.integrity.anchor import Anchor, read_anchor
from tether.integrity.database import FAULTS, Database
from tether.integrity.record import Finding, Snapshot, Wrong
from tether.signing.ecdsa import PublicKey

ANCHOR = "anchor"
_DATABASE = re.compile(r"state-(\d{19})\.db")


@dataclass(frozen=True)
class Examined:
    """Outcome. snapshot: None where nothing is good. proven: it is known to be the newest. path: database in use.

    usable: the database can be gone on with; anchored: so can the anchor.
    """

    snapshot: Snapshot | None
    proven: bool
    findings: tuple[Finding, ...]
    path: Path | None
    usable: bool
    anchored: bool


@dataclass(frozen=True)
class _Chain:
    """What a database file holds. snapshot: after its last good record; fault: why it is not to be gone on with."""

    heads: Mapping[int, bytes]
    snapshot: Snapshot | None
    fault: Finding | None


def database_path(folder: Path, base: int) -> Path:
    """Name of the database file whose first record is `base`."""
    return folder / f"state-{base:019d}.db"


def database_files(folder: Path) -> list[Path]:
    """All database files of a folder, oldest first."""
    return sorted(path for path in folder.iterdir() if _DATABASE.fullmatch(path.name))


def examine(folder: Path, key: PublicKey, names: Sequence[str]) -> Examined:
    """Read and verify everything. Leaves the folder as it is, but for what SQLite does after a crash."""
    anchor, findings = _anchor(folder / ANCHOR, key, names)
    files = database_files(folder)
    path = database_path(folder, anchor.base) if anchor is not None else (files[-1] if files else None)
    chain = _chain(path, key, names)
    if chain.fault is not None:
        findings.append(chain.fault)
    if anchor is None:
        return Examined(chain.snapshot, False, tuple(findings), path, chain.fault is None, False)
    snapshot, proven, more = _compare(anchor, chain)
    findings += more
    usable = chain.fault is None and snapshot == chain.snapshot
    anchored = snapshot.head == anchor.snapshot.head and not anchor.torn
    return Examined(snapshot, proven, tuple(findings), path, usable, anchored)


def _compare(anchor: Anchor, chain: _Chain) -> tuple[Snapshot, bool, list[Finding]]:
    """The state to take, whether it is proven to be the newest, and what else is wrong."""
    found, anchored = chain.snapshot, anchor.snapshot
    if anchor.torn and (found is None or found.sequence <= anchored.sequence):
        # A kill leaves a torn slot only after the database has the record that it was for.
        text = f"its other slot is not that of record {anchored.sequence - 1}, and the database is not ahead"
        return anchored, False, [Finding(Wrong.ANCHOR_DAMAGED, text)]
    if found is None:
        return anchored, True, []
    if found.sequence < anchored.sequence:
        text = f"it ends with record {found.sequence}, {anchored.sequence} is the last that was written"
        return anchored, True, [] if chain.fault else [Finding(Wrong.DATABASE_BEHIND, text)]
    if chain.heads.get(anchored.sequence) != anchored.head:
        text = f"database and anchor hold different records {anchored.sequence}; the anchor's is taken"
        return anchored, False, [Finding(Wrong.FORKED, text)]
    ahead = found.sequence - anchored.sequence
    if ahead > 1:
        text = f"it names record {anchored.sequence}, the database goes on to {found.sequence}"
        return found, True, [Finding(Wrong.ANCHOR_BEHIND, text)]
    return found, True, []


def _anchor(path: Path, key: PublicKey, names: Sequence[str]) -> tuple[Anchor | None, list[Finding]]:
    try:
        return read_anchor(path, key, names), []
    except FileNotFoundError:
        return None, [Finding(Wrong.ANCHOR_MISSING, f"{path} is gone; whether the database is the newest is unknown")]
    except ValueError as error:
        return None, [Finding(Wrong.ANCHOR_DAMAGED, str(error))]


def _chain(path: Path | None, key: PublicKey, names: Sequence[str]) -> _Chain:
    if path is None or not os.path.lexists(path):
        return _Chain({}, None, Finding(Wrong.DATABASE_MISSING, f"{path or 'no database'} is gone"))
    if path.is_symlink() or not path.is_file():
        return _Chain({}, None, Finding(Wrong.DATABASE_DAMAGED, f"{path} is no regular file"))
    try:
        database = Database(path)
    except FAULTS as error:
        return _Chain({}, None, Finding(Wrong.DATABASE_DAMAGED, f"{path}: {error}"))
    try:
        heads, snapshot, fault = database.walk(key, names)
        if fault is not None:
            return _Chain(dict(heads), snapshot, Finding(Wrong.RECORD_DAMAGED, f"{path}: {fault}"))
        schema = database.schema_fault()
        if schema is not None:
            return _Chain(dict(heads), snapshot, Finding(Wrong.DATABASE_DAMAGED, f"{path}: {schema}"))
        return _Chain(dict(heads), snapshot, None)
    except FAULTS as error:
        return _Chain({}, None, Finding(Wrong.DATABASE_DAMAGED, f"{path}: {error}"))
    finally:
        database.close()
