"""The robot's end of a transfer: a tar from outside becomes a complete version, or nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, BinaryIO

from tether.deploy.bundle import LISTING, LISTING_MAX, Bundle, Entry
from tether.deploy.errors import DeployError, Reason
from tether.deploy.layout import Place
from tether.errors import InvalidInputError
from tether.signing.files import sync_folder, write_whole

SPARE_BYTES = 256 * 2**20
"""Left free on the disk beside a new version: recordings must go on."""
_AGAIN = "deploy again"


def receive(place: Place, stream: BinaryIO, version: str) -> Path:
    """Take a version in; to be called under the lock. Returns the folder in incoming/ that holds it, complete, on the
    disk and equal to its listing, whose id is `version`.

    Raises DeployError (INTERRUPTED, DAMAGED, NO_SPACE). Links, other paths and further files are refused.
    """
    folder = place.root / "incoming" / version
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            bundle = _listing(tar, version)
            _check_space(place.root, bundle.size_bytes)
            _files(tar, bundle, folder)
    except (tarfile.TarError, EOFError) as error:
        raise DeployError(Reason.INTERRUPTED, f"the transfer ended early ({error})", _AGAIN) from None
    write_whole(folder / LISTING, bundle.to_json())
    return folder


def admit(place: Place, folder: Path, version: str) -> None:
    """Give a received version its place among the others, in one step."""
    os.replace(folder, place.folder(version))
    sync_folder(place.root / "versions")


def check_version(place: Place, version: str) -> None:
    """Whether a version lies there as it was received; DeployError (NO_SUCH_VERSION, DAMAGED) otherwise."""
    folder = place.folder(version)
    if not folder.is_dir():
        raise DeployError(Reason.NO_SUCH_VERSION, f"no version {version} in {place.root}", "deploy it")
    try:
        bundle = place.listing(version)
        wrong = [] if bundle.id == version else [LISTING]
        wrong += [entry.path for entry in bundle.entries if _sha256(folder / entry.path) != entry.sha256]
    except (OSError, InvalidInputError) as error:
        raise DeployError(Reason.DAMAGED, f"version {version}: {error}", _AGAIN) from None
    if wrong:
        raise DeployError(
            Reason.DAMAGED, f"version {version}: {', '.join(wrong)} changed since it was received", _AGAIN
        )


def _listing(tar: tarfile.TarFile, version: str) -> Bundle:
    member = tar.next()
    if member is None or member.name != LISTING or not member.isreg() or member.size > LISTING_MAX:
        raise DeployError(Reason.INTERRUPTED, "no listing arrived", _AGAIN)
    file = tar.extractfile(member)
    data = b"" if file is None else file.read()
    try:
        bundle = Bundle.from_json(data)
    except InvalidInputError as error:
        raise DeployError(Reason.DAMAGED, str(error), "install the same version of Tether on both sides") from None
    if bundle.id != version:
        raise DeployError(Reason.DAMAGED, f"the listing is that of {bundle.id}, expected {version}", _AGAIN)
    return bundle


def _check_space(root: Path, size_bytes: int) -> None:
    free = shutil.disk_usage(root).free
    if free < size_bytes + SPARE_BYTES:
        needed = (size_bytes + SPARE_BYTES) / 2**20
        text = f"{free / 2**20:.0f} MiB free in {root}, {needed:.0f} MiB needed"
        raise DeployError(Reason.NO_SPACE, text, "remove old recordings, or give --keep 2")


def _files(tar: tarfile.TarFile, bundle: Bundle, folder: Path) -> None:
    due = {entry.path: entry for entry in bundle.entries}
    made = {folder}
    while (member := tar.next()) is not None:
        entry = due.pop(member.name, None)
        file = tar.extractfile(member) if entry is not None and member.isreg() else None
        if entry is None or file is None or member.size != entry.size_bytes:
            raise DeployError(Reason.DAMAGED, f"{member.name[:120]!r} arrived and is not in the listing", _AGAIN)
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        made.update(parent for parent in path.parents if parent.is_relative_to(folder))
        _write(file, path, entry)
    if due:
        raise DeployError(Reason.INTERRUPTED, f"{len(due)} of {len(bundle.entries)} files did not arrive", _AGAIN)
    for path in made:
        sync_folder(path)


def _write(source: IO[bytes], path: Path, entry: Entry) -> None:
    digest = hashlib.sha256()
    with path.open("xb") as target:
        while block := source.read(2**20):
            digest.update(block)
            target.write(block)
        target.flush()
        os.fsync(target.fileno())
    if digest.hexdigest() != entry.sha256:
        raise DeployError(Reason.DAMAGED, f"{entry.path} arrived with another SHA-256 than it was sent with", _AGAIN)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
