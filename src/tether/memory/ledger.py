"""The ledger of what an agent keeps from task to task: signed entries in a chain, from which all else is rebuilt.

An entry names its sequence and the hash of the entry before it, and is signed as a whole, so none can be forged,
changed, taken out, moved or put in twice. That a whole ledger was put back to an older copy is seen by its floor
(`tether.signing.floors`). Whoever opens it verifies all of it, or is told by name which entry is wrong and why.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.signing.ecdsa import PrivateKey
from tether.signing.files import private_folder, read_regular, state_folder
from tether.signing.floors import Floors, floor_name
from tether.signing.policy import Trust, required_trust
from tether.signing.sign import development_key_path
from tether.signing.trust import Purpose, TrustedKey, trusted_keys

FORMAT = 1
SIZE_MAX = 256 * 2**20
FIRST = "0" * 64
"""What the first entry names as the one before it."""
_LEDGER, _QUARANTINE = "ledger.jsonl", "quarantine.jsonl"
_QUARANTINE_MAX = 4 * 2**20


class Reason(str, Enum):
    """Why a ledger is refused."""

    MALFORMED = "malformed"
    FORGED = "forged"
    """The signature is not that of the key it names, over this entry."""
    UNKNOWN_KEY = "unknown_key"
    DEVELOPMENT_KEY = "development_key"
    """Signed with a development key, and this is a physical robot."""
    REPLAYED = "replayed"
    """An entry that stood here before stands here again."""
    GAP = "gap"
    """Entries before this one are missing, or it follows another one than it says."""
    ROLLED_BACK = "rolled_back"
    """Entries that were confirmed here are missing at the end."""
    OTHER = "other"
    """A good entry of another ledger."""


class MemoryRefusedError(InvalidInputError):
    """The ledger is not to be believed. `reason` is for programs, the text for people."""

    def __init__(self, reason: Reason, where: str, found: str, expected: str) -> None:
        self.reason = reason
        fix = "restore the folder from a copy, or begin with an empty one: what was learnt is learnt again"
        super().__init__(f"memory refused ({reason.value})", [Fault(where, found, expected)], fix)


@dataclass(frozen=True)
class Entry:
    """A verified entry. provenance: whose run it comes from and the git commit that ran; stamp_ns of the wall clock."""

    sequence: int
    kind: str
    body: Mapping[str, Any]
    provenance: Mapping[str, Any]
    sha256: str


class Ledger:
    """One folder's ledger, open for writing; one process at a time. A context manager.

    key: signs what is added, this machine's development key where it is None. keys: whose signatures count, those of
    this package where it is None. state: where floors are kept.
    """

    def __init__(
        self,
        folder: Path,
        key: PrivateKey | None = None,
        keys: Mapping[str, TrustedKey] | None = None,
        state: Path | None = None,
    ) -> None:
        """Verifies it. Raises MemoryRefusedError, InvalidInputError (key, folder in use), TetherError (floors)."""
        self._folder = private_folder(folder.absolute())
        self._key = key or _own_key(state)
        self._keys = trusted_keys() if keys is None else keys
        self._floors = (state_folder() if state is None else state) / "versions"
        self._path = self._folder / _LEDGER
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._load()
        except BlockingIOError:
            os.close(self._fd)
            fault = Fault(str(self._folder), "in use by another process", "one process at a time")
            raise InvalidInputError("memory", [fault], "wait for it, or name another folder") from None
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    @property
    def id(self) -> str:
        """Its name, 32 hexadecimal digits, which every entry carries."""
        return self._id

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them, in order."""
        return self._entries

    def append(self, items: Sequence[tuple[str, Mapping[str, Any]]], provenance: Mapping[str, Any]) -> list[Entry]:
        """Sign and add (kind, body) entries; `confirm` puts them on the disk. What is not JSON is refused, and then
        nothing is added. Raises InvalidInputError, OSError."""
        if not items:
            return []
        self.require_own_key()
        added: list[Entry] = []
        lines = b""
        for kind, body in items:
            head = added[-1] if added else (self._entries[-1] if self._entries else None)
            fields = {
                "format": FORMAT, "ledger": self._id, "sequence": head.sequence + 1 if head else 1,
                "previous": head.sha256 if head else FIRST, "kind": kind, "body": body,
                "provenance": provenance, "key": self._key.public.id,
            }  # fmt: skip
            text = _canonical(fields)
            signature = base64.b64encode(self._key.sign(text)).decode()
            line = _canonical({**json.loads(text), "signature": signature})
            lines += line + b"\n"
            added.append(_entry(json.loads(line), line))
        self._write(lines)
        self._entries += added
        return added

    def _write(self, lines: bytes) -> None:
        """All of it or nothing: what a full disk took of it would be glued to the next entry."""
        size = os.fstat(self._fd).st_size
        if size + len(lines) > SIZE_MAX:
            fault = Fault(str(self._path), f"{size} bytes", f"with {len(lines)} more at most {SIZE_MAX}")
            raise InvalidInputError("memory", [fault], "begin a new folder, and keep this one")
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, size)
            raise

    def confirm(self) -> None:
        """On return all entries are on the disk, and a ledger without them is refused as rolled back. Raises OSError,
        TetherError (floors)."""
        os.fsync(self._fd)
        with Floors(self._floors) as floors:
            floors.raise_to(self._floor, len(self._entries))

    def quarantine(self, kind: str, body: Mapping[str, Any], why: Sequence[str]) -> None:
        """Put aside what may not be believed, with the reason, for a person to look at. It is never read back."""
        path = self._folder / _QUARANTINE
        if path.exists() and path.stat().st_size > _QUARANTINE_MAX:
            os.replace(path, path.with_suffix(".old.jsonl"))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "why": list(why), "body": body}, default=repr) + "\n")

    # Reading

    def require_own_key(self) -> None:
        """Raise InvalidInputError unless what is signed here would be believed at the next opening."""
        own = self._keys.get(self._key.public.id)
        if own is None or (own.purpose is Purpose.DEVELOPMENT and required_trust() is Trust.PHYSICAL):
            found = "an unknown key" if own is None else "a development key, on a physical robot"
            raise InvalidInputError("memory", [Fault("key", found, "one that is trusted here")], "pass a robot's key")

    def _load(self) -> None:
        data = read_regular(self._path, SIZE_MAX)
        if len(data) > SIZE_MAX:
            raise MemoryRefusedError(Reason.MALFORMED, _LEDGER, "a larger file", f"at most {SIZE_MAX} bytes")
        whole, _, torn = data.rpartition(b"\n")
        if torn:  # never confirmed: the writer was killed in the middle
            os.ftruncate(self._fd, len(data) - len(torn))
        lines = whole.split(b"\n") if whole else []
        self._id = ""
        self._entries: list[Entry] = []
        for number, line in enumerate(lines, 1):
            self._entries.append(self._verified(number, line))
        self._id = self._id or secrets.token_hex(16)
        self._floor = floor_name(self._id, "memory", "entries")
        with Floors(self._floors) as floors:
            floor = floors.of(self._floor)
        if len(self._entries) < floor:
            expected = f"{floor} or more, which were confirmed here"
            raise MemoryRefusedError(Reason.ROLLED_BACK, _LEDGER, f"{len(self._entries)} entries", expected)

    def _verified(self, number: int, line: bytes) -> Entry:
        where = f"{_LEDGER}: entry {number}"
        fields = _parsed(where, line)
        signature = fields.pop("signature")
        key = self._keys.get(fields["key"])
        if key is None:
            raise MemoryRefusedError(Reason.UNKNOWN_KEY, where, f"key {fields['key']}", "a key in this package")
        if key.purpose is Purpose.DEVELOPMENT and required_trust() is Trust.PHYSICAL:
            raise MemoryRefusedError(Reason.DEVELOPMENT_KEY, where, "a development key's", "a robot's or release key's")
        if not key.public.verifies(_canonical(fields), signature):
            raise MemoryRefusedError(Reason.FORGED, where, "a signature that does not verify", f"key {fields['key']}'s")
        self._id = self._id or fields["ledger"]
        if fields["ledger"] != self._id:
            raise MemoryRefusedError(Reason.OTHER, where, f"an entry of {fields['ledger']}", f"one of {self._id}")
        if fields["sequence"] < number:
            raise MemoryRefusedError(Reason.REPLAYED, where, f"entry {fields['sequence']} again", f"entry {number}")
        previous = self._entries[-1].sha256 if self._entries else FIRST
        if fields["sequence"] != number or fields["previous"] != previous:
            found = f"entry {fields['sequence']} after {fields['previous'][:12]}"
            raise MemoryRefusedError(Reason.GAP, where, found, f"entry {number} after {previous[:12]}")
        return _entry(fields, line)


_TYPES: Mapping[str, type] = {
    "format": int, "ledger": str, "sequence": int, "previous": str, "kind": str, "body": dict, "provenance": dict,
    "key": str, "signature": str,
}  # fmt: skip


def _parsed(where: str, line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict) or set(fields) != set(_TYPES):
            raise ValueError(f"expected the fields {', '.join(_TYPES)}")
        wrong = [name for name, wanted in _TYPES.items() if type(fields[name]) is not wanted]
        if wrong or fields["format"] != FORMAT:
            raise ValueError(f"of another type or format: {', '.join(wrong) or fields['format']}")
        fields["signature"] = base64.b64decode(fields["signature"], validate=True)
    except (ValueError, RecursionError, binascii.Error) as error:
        raise MemoryRefusedError(Reason.MALFORMED, where, str(error)[:200], "an entry that this module wrote") from None
    return fields


def _entry(fields: Mapping[str, Any], line: bytes) -> Entry:
    digest = hashlib.sha256(line).hexdigest()
    return Entry(fields["sequence"], fields["kind"], fields["body"], fields["provenance"], digest)


def _canonical(fields: Mapping[str, Any]) -> bytes:
    """The bytes that are signed. InvalidInputError for what is no JSON, numbers that are not finite among it."""
    try:
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError("memory", [Fault("entry", str(error), "finite numbers, texts, lists, maps")]) from None


def _own_key(state: Path | None) -> PrivateKey:
    path = development_key_path(state)
    if not path.exists():
        raise InvalidInputError("memory", [Fault(str(path), "no key", "this machine's key")], "run `make setup`")
    return PrivateKey.load(path)


def of_kind(entries: Sequence[Entry], kind: str) -> Iterator[Entry]:
    """Those of one kind, in order."""
    return (entry for entry in entries if entry.kind == kind)
