"""The critical state on disk: a named value each, under a Merkle tree, signed, chained, and known to be the newest.

An update is a record in a database that is only added to, and then the anchor outside it. Opening verifies every record
and compares both; an update first verifies what it builds on. What does not verify is named, set aside as evidence, and
the last good state is taken and written anew.

The key lies in the same folder, readable by its owner only: this finds damage, crashes, restored backups and whoever
may write files but not read the key. Somebody who can read it, or who puts back a copy of the whole folder, is not
found; that takes a counter in hardware.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tether.errors import DeadlineError, Fault, InvalidInputError
from tether.integrity.anchor import STATE_MAX, Anchor, AnchorFile
from tether.integrity.database import FAULTS, Database, companions
from tether.integrity.examine import ANCHOR, Examined, database_files, database_path, examine
from tether.integrity.merkle import LEAVES_MAX, Leaf, Tree
from tether.integrity.record import (
    NO_RECORD,
    VALUE_MAX,
    Finding,
    Snapshot,
    StateError,
    Wrong,
    first_record,
    followed,
    next_record,
    opened,
)
from tether.signing.ecdsa import PrivateKey
from tether.signing.files import private_folder, sync_folder

_LOG = logging.getLogger(__name__)
UNPROVEN = "unproven"
"""Name of the leaf that says why the state is not known to be the newest; empty where it is."""
KEY, _NEW_KEY, _LOCK = "state.key", "state.key.new", "lock"
_LOCK_WAIT_S = 10.0
RECORDS_MAX = 5000
"""A longer file is closed at the next start and a new one begun with its last state: opening stays below a second."""
EVIDENCE_MAX = 8


class Store:
    """Critical state of one folder. One process at a time; one thread at a time. A context manager.

    initial: name → value of every item, for the first start; at most 15. `findings` are those of opening and of
    updates, until taken.
    """

    def __init__(self, folder: Path, initial: Mapping[str, bytes], stamp_ns: int) -> None:
        """Open or begin. Raises InvalidInputError (names, values, key), DeadlineError (another process has it),
        StateError where the folder cannot be written."""
        _check_initial(initial)
        self.folder = folder
        self._names = (UNPROVEN, *initial)
        self._findings: list[Finding] = []
        leaves = tuple(Leaf(n, v, stamp_ns, 0) for n, v in {UNPROVEN: b"", **initial}.items())
        self._initial = self._snapshot = Snapshot(0, stamp_ns, leaves, Tree.of(leaves).root, NO_RECORD)
        _check_size(self._initial)
        try:
            private_folder(folder)
            _check_folder(folder)
            self._lock = _locked(folder / _LOCK)
        except OSError as error:
            raise StateError(f"{folder}: {error.strerror or error}; name a folder that can be written") from error
        try:
            self._open(stamp_ns)
        except FAULTS as error:
            os.close(self._lock)
            raise StateError(f"{folder}: {error}; free space or permit writing") from error
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, stamp_ns: int) -> None:
        path = self.folder / KEY
        if path.exists():
            self._key = PrivateKey.load(path)
            self._recover(examine(self.folder, self._key.public, self._names), stamp_ns, None)
            return
        unfinished = self.folder / _NEW_KEY
        if not unfinished.exists() and (database_files(self.folder) or (self.folder / ANCHOR).exists()):
            fault = Fault(str(path), "nothing", "the key that the state beside it was signed with")
            raise InvalidInputError("critical state", [fault], f"restore it, or move {self.folder} away to begin anew")
        # The key gets its name last: a first start that was interrupted is begun again.
        self._key = PrivateKey.generate()
        self._key.save(unfinished)
        self._begin(self._initial)
        unfinished.replace(path)
        sync_folder(self.folder)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def snapshot(self) -> Snapshot:
        """The state now."""
        return self._snapshot

    @property
    def unproven(self) -> str:
        """Why the state is not known to be the newest; empty where it is."""
        return self._snapshot.values[UNPROVEN].decode()

    def take_findings(self) -> list[Finding]:
        """What was found wrong since the last call."""
        taken, self._findings = self._findings, []
        return taken

    def check(self, changes: Mapping[str, bytes]) -> None:
        """Raises InvalidInputError for names or values that `put` would refuse."""
        _check_values(changes, [name for name in self._names if name != UNPROVEN])

    def put(self, changes: Mapping[str, bytes], stamp_ns: int) -> Snapshot:
        """Set values; on return they are on the disk. Values that are as they were make no record.

        Raises InvalidInputError for other names or values, StateError where the disk does not take it; the state is
        then what it was.
        """
        self.check(changes)
        if not -(2**63) <= stamp_ns < 2**63:
            raise InvalidInputError("critical state", [Fault("stamp_ns", str(stamp_ns), "64 bits")])
        return self._put(changes, stamp_ns)

    def acknowledge(self, reason: str, stamp_ns: int) -> None:
        """A person has looked at a state that is not known to be the newest, and takes it. InvalidInputError without
        a reason."""
        if not reason.strip():
            raise InvalidInputError("acknowledge", [Fault("reason", repr(reason), "a text that says why")])
        _LOG.warning("%s: state acknowledged: %s", self.folder, reason.strip())
        self._put({UNPROVEN: b""}, stamp_ns)

    def verify(self, stamp_ns: int) -> bool:
        """Verify memory and the whole database now; what is wrong is mended and named. True: nothing was wrong.

        Raises StateError where it cannot be mended now.
        """
        before = len(self._findings)
        memory = self._snapshot if self._snapshot.intact() else None
        if memory is None:
            self._found(Finding(Wrong.MEMORY_DAMAGED, "leaves in memory do not hash to their root"))
        try:
            self._reopen(memory, stamp_ns)
        except FAULTS as error:
            raise StateError(f"{self.folder}: {error}") from error
        return len(self._findings) == before

    def close(self) -> None:
        """Close database and lock; closing again does nothing."""
        if self._lock >= 0:
            self._database.close()
            self._anchor.close()
            os.close(self._lock)
            self._lock = -1

    def _put(self, changes: Mapping[str, bytes], stamp_ns: int) -> Snapshot:
        try:
            wrong = self._ground_fault()
            if wrong is not None:
                self._found(wrong)
                self._reopen(None if wrong.wrong is Wrong.MEMORY_DAMAGED else self._snapshot, stamp_ns)
            return self._append(changes, stamp_ns)
        except FAULTS as error:
            raise StateError(f"{self.folder}: {error}; the state is what it was") from error

    def _append(self, changes: Mapping[str, bytes], stamp_ns: int) -> Snapshot:
        before = self._snapshot
        new = {name: value for name, value in changes.items() if before.values[name] != value}
        if new:
            leaves = [Leaf(name, value, stamp_ns, before.sequence + 1) for name, value in new.items()]
            record = next_record(self._key, before, leaves, stamp_ns)
            after = followed(before, record, self._key.public)
            _check_size(after)
            self._database.add(record)
            self._snapshot = after
            try:
                self._anchor.write(self._key, Anchor(self._base, after))
            except OSError as error:
                # The record is in the database, which may be ahead of the anchor; the next update writes it.
                text = f"{self.folder / ANCHOR}: {error.strerror or error}; it stays behind until the next update"
                self._found(Finding(Wrong.ANCHOR_BEHIND, text))
        return self._snapshot

    def _ground_fault(self) -> Finding | None:
        path = self._database.path
        if not self._snapshot.intact():
            return Finding(Wrong.MEMORY_DAMAGED, "leaves in memory do not hash to their root")
        if not self._database.is_same_file():
            return Finding(Wrong.DATABASE_SWAPPED, f"{path} is not the file that was opened")
        try:
            if self._database.changed_by_others():
                return Finding(Wrong.DATABASE_DAMAGED, f"{path}: somebody else has written to it")
            last = self._database.last()
        except FAULTS as error:
            return Finding(Wrong.DATABASE_DAMAGED, f"{path}: {error}")
        if last is None or last.head != self._snapshot.head:
            return Finding(Wrong.RECORD_DAMAGED, f"{path}: its newest record is not the one written last")
        if not self._anchor.is_same_file():
            return Finding(Wrong.ANCHOR_MISSING, f"{self.folder / ANCHOR} is not the file that was opened")
        return None

    def _reopen(self, memory: Snapshot | None, stamp_ns: int) -> None:
        self._database.close()
        self._anchor.close()
        self._recover(examine(self.folder, self._key.public, self._names), stamp_ns, memory)

    def _recover(self, found: Examined, stamp_ns: int, memory: Snapshot | None) -> None:
        """Take what is good, and write anew what is not. memory: the state that this process wrote last, if it has
        one that is intact; it is the newest there is."""
        for finding in found.findings:
            self._found(finding)
        snapshot, proven = (found.snapshot, found.proven) if memory is None else (memory, True)
        if snapshot is None:
            snapshot = self._initial
            self._found(Finding(Wrong.STATE_LOST, f"{self.folder}: nothing verifies; taking the initial state"))
        reason = b"" if proven else "; ".join(map(str, self._findings)).encode()[:VALUE_MAX]
        reason = snapshot.values[UNPROVEN] or reason
        if found.usable and found.path is not None and found.snapshot == snapshot:
            self._go_on(found.path, snapshot, found.anchored, stamp_ns)
            self._append({UNPROVEN: reason}, stamp_ns)
            return
        _LOG.error("%s: rolled back to record %d, the last good one", self.folder, snapshot.sequence)
        self._set_aside(found.path)
        leaves = tuple(
            Leaf(UNPROVEN, reason, stamp_ns, snapshot.sequence + 1) if leaf.name == UNPROVEN else leaf
            for leaf in snapshot.leaves
        )
        self._begin(_after(snapshot, leaves, stamp_ns))

    def _go_on(self, path: Path, snapshot: Snapshot, anchored: bool, stamp_ns: int) -> None:
        """Use a database that verifies; where it has become long, begin another one."""
        self._snapshot = snapshot
        self._base = int(path.stem.partition("-")[2])
        if snapshot.sequence - self._base >= RECORDS_MAX:
            self._begin(_after(snapshot, snapshot.leaves, stamp_ns))
            return
        self._database = Database(path)
        if anchored:
            self._anchor = AnchorFile(self.folder / ANCHOR)
        else:
            self._create_anchor()

    def _begin(self, snapshot: Snapshot) -> None:
        """A new database file that begins with a whole state; the anchor then names it. snapshot.head: the record
        before it."""
        record = first_record(self._key, snapshot, snapshot.head)
        before, self._base = getattr(self, "_base", snapshot.sequence), snapshot.sequence
        self._database = Database.create(database_path(self.folder, self._base), record)
        self._snapshot = opened(record, self._key.public, self._names)
        self._create_anchor()
        keep = {database_path(self.folder, self._base), database_path(self.folder, before)}
        for path in database_files(self.folder):
            if path not in keep:
                _remove(path)

    def _create_anchor(self) -> None:
        self._anchor = AnchorFile.create(self.folder / ANCHOR, self._key, Anchor(self._base, self._snapshot))

    def _set_aside(self, path: Path | None) -> None:
        """Keep what does not verify, for people to look at; the oldest of it goes."""
        if path is not None:
            stamp = time.time_ns()
            for name in (path, *companions(path)):
                if os.path.lexists(name):
                    name.replace(self.folder / f"damaged-{stamp}-{name.name}")
        evidence = sorted(p for p in self.folder.iterdir() if re.fullmatch(r"damaged-\d+-.*\.db", p.name))
        for old in evidence[:-EVIDENCE_MAX]:
            _remove(old)

    def _found(self, finding: Finding) -> None:
        _LOG.error("%s: %s", self.folder, finding)
        self._findings.append(finding)


def _after(snapshot: Snapshot, leaves: tuple[Leaf, ...], stamp_ns: int) -> Snapshot:
    """The state one record later, for the first record of a new file; its head is still that of the one before."""
    return Snapshot(snapshot.sequence + 1, stamp_ns, leaves, Tree.of(leaves).root, snapshot.head)


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                raise DeadlineError(f"{path}: another process uses this state", _LOCK_WAIT_S) from None
            time.sleep(0.01)
        else:
            return fd


def _remove(path: Path) -> None:
    for name in (path, *companions(path)):
        name.unlink(missing_ok=True)


def _check_folder(folder: Path) -> None:
    """Whoever may write the folder may put another key into it."""
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022 or status.st_uid != os.geteuid():
        found = f"permissions {mode:o}, owner {status.st_uid}"
        fault = Fault(str(folder), found, f"writable by its owner {os.geteuid()} only")
        raise InvalidInputError("critical state", [fault], f"chmod 700 {folder}, or name another folder")


def _check_initial(initial: Mapping[str, bytes]) -> None:
    faults = []
    if not 0 < len(initial) < LEAVES_MAX:
        faults.append(Fault("items", str(len(initial)), f"1 to {LEAVES_MAX - 1}"))
    faults += [Fault(repr(n), "a name", "a short text of its own") for n in initial if not 0 < len(n) < 64]
    if UNPROVEN in initial:
        faults.append(Fault(UNPROVEN, "an item", "another name: this one is the store's own"))
    if faults:
        raise InvalidInputError("critical state", faults)
    _check_values(initial, list(initial))


def _check_size(snapshot: Snapshot) -> None:
    size = sum(len(leaf.pack()) for leaf in snapshot.leaves)
    if size > STATE_MAX:
        raise InvalidInputError("critical state", [Fault("all values", f"{size} bytes", f"at most {STATE_MAX}")])


def _check_values(changes: Mapping[str, bytes], names: Sequence[str]) -> None:
    faults = []
    for name, value in changes.items():
        if name not in names:
            faults.append(Fault(name, "an unknown item", f"one of {', '.join(names)}"))
        elif type(value) is not bytes or len(value) > VALUE_MAX:
            faults.append(Fault(name, f"{type(value).__name__}", f"bytes, at most {VALUE_MAX}"))
    if faults:
        raise InvalidInputError("critical state", faults)
