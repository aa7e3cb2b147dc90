"""What is sent: files by path, size and SHA-256, named as a whole by the hash of that listing; and the tar of them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from tether.deploy.errors import DeployError, Reason
from tether.errors import Fault, InvalidInputError

FORMAT = 1
LISTING = "deploy.json"
LISTING_MAX = 4 * 2**20
FILES_MAX = 2000
FILE_MAX = 512 * 2**20
TOPS = ("models", "config", "signing")
"""Folders of a version; the first two are found by `tether.resources` below $TETHER_RESOURCES."""
REVOCATIONS = "signing/revocations.json"
"""The workstation's revocation list; not there where it has none."""


@dataclass(frozen=True)
class Entry:
    """One file. path: relative, with slashes. sha256: hexadecimal, of its content."""

    path: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        faults = []
        parts = PurePosixPath(self.path).parts if isinstance(self.path, str) else ()
        clean = len(parts) >= 2 and parts[0] in TOPS and all(p not in ("..", ".") and p.isprintable() for p in parts)
        if not clean or "/".join(parts) != self.path or len(self.path) > 300:
            faults.append(Fault("path", repr(self.path)[:120], f"a plain path below {' or '.join(TOPS)}"))
        if type(self.size_bytes) is not int or not 0 <= self.size_bytes <= FILE_MAX:
            faults.append(Fault("size_bytes", repr(self.size_bytes)[:40], f"0 to {FILE_MAX}"))
        if not isinstance(self.sha256, str) or len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            faults.append(Fault("sha256", repr(self.sha256)[:80], "64 hexadecimal digits in lower case"))
        if faults:
            raise InvalidInputError("deployed file", faults)


@dataclass(frozen=True)
class Bundle:
    """Everything of one version, sorted by path. Equal content has the equal id, whenever and wherever it is made."""

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        paths = [entry.path for entry in self.entries]
        if paths != sorted(set(paths)) or not 0 < len(paths) <= FILES_MAX:
            raise InvalidInputError("bundle", [Fault("files", str(len(paths)), f"1 to {FILES_MAX}, sorted, each once")])

    @property
    def id(self) -> str:
        """Name of the version: the first 16 hexadecimal digits of the listing's SHA-256."""
        return hashlib.sha256(self.to_json()).hexdigest()[:16]

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(entry.size_bytes for entry in self.entries)

    def to_json(self) -> bytes:
        """The listing, as it is sent and kept in the version's folder."""
        data = {"format": FORMAT, "files": [asdict(entry) for entry in self.entries]}
        return (json.dumps(data, indent=1) + "\n").encode()

    @staticmethod
    def from_json(data: bytes) -> Bundle:
        """Parse; InvalidInputError for what `to_json` did not write."""
        try:
            fields: Any = json.loads(data)
            if set(fields) != {"format", "files"} or fields["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT} and files")
            return Bundle(tuple(Entry(**entry) for entry in fields["files"]))
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInputError(
                "listing", [Fault(LISTING, str(error)[:200], "what `tether deploy` wrote")]
            ) from None

    def changes(self, other: Bundle | None) -> Iterator[str]:
        """What differs in this from `other`, a line each; everything where there is no other."""
        before = {entry.path: entry for entry in other.entries} if other is not None else {}
        for entry in self.entries:
            old = before.pop(entry.path, None)
            if old is None:
                yield f"+ {entry.path} ({entry.size_bytes} bytes)"
            elif old != entry:
                yield f"~ {entry.path} ({old.size_bytes} -> {entry.size_bytes} bytes)"
        yield from (f"- {path}" for path in before)


def collect(sources: Mapping[str, Path], revocations: Path) -> tuple[Bundle, dict[str, Path]]:
    """List the files of `sources`, top folder (`models`, `config`) → where it lies here; and path → file. The
    revocation list goes along where there is one.

    Hidden files, caches and half-written files stay behind. Raises DeployError (NOTHING_TO_SEND) for a folder that is
    not there or empty, InvalidInputError for links and special files, which would mean something else over there.
    """
    files: dict[str, Path] = {}
    for top, folder in sources.items():
        found = {f"{top}/{path.relative_to(folder).as_posix()}": path for path in sorted(_regular(folder))}
        if not found:
            raise DeployError(Reason.NOTHING_TO_SEND, f"{top}: no files in {folder}", "name the folder that holds them")
        files |= found
    if revocations.exists():
        files[REVOCATIONS] = revocations
    entries = [Entry(name, path.stat().st_size, _sha256(path)) for name, path in sorted(files.items())]
    return Bundle(tuple(entries)), files


def write_tar(bundle: Bundle, files: Mapping[str, Path], stream: BinaryIO) -> None:
    """The listing and then every file of it, as an uncompressed tar (models do not compress).

    Raises DeployError (CHANGED) where a file is no longer what was listed, OSError where the stream does not take it.
    """
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        listing = bundle.to_json()
        tar.addfile(_member(LISTING, len(listing)), io.BytesIO(listing))
        for entry in bundle.entries:
            data = files[entry.path].read_bytes()
            if hashlib.sha256(data).hexdigest() != entry.sha256:
                text = f"{files[entry.path]} changed while it was being sent"
                raise DeployError(Reason.CHANGED, text, "let whoever writes it finish, then deploy again")
            tar.addfile(_member(entry.path, len(data)), io.BytesIO(data))


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size_bytes, 0o644
    return info


def _regular(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_private(name))
        for name in (*folders, *names):
            path = Path(where) / name
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise InvalidInputError("deploy", [Fault(str(path), "a link or special file", "files and folders")])
        yield from (Path(where) / name for name in names if not _is_private(name))


def _is_private(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__" or name.endswith((".part", ".pyc", "~"))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
