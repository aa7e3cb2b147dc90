"""Signing files, and the development key that set-up makes for a machine."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.signing.ecdsa import PrivateKey
from tether.signing.files import private_folder, read_regular, state_folder, write_whole
from tether.signing.floors import Floors, floor_name
from tether.signing.statement import FILE_MAX, Kind, Signature, Statement, signature_path
from tether.signing.trust import Purpose, install_key
from tether.signing.verify import SIGNATURES, SIZE_MAX

DEVELOPMENT_KEY = Path("keys") / "development.key"
_EXTERNAL_DATA = b"\x0a\x08location"
"""How a tensor of an ONNX model names another file (StringStringEntryProto with the key `location`)."""


def development_key_path(state: Path | None = None) -> Path:
    """Where this user's private development key lies; it never enters a repository."""
    return (state_folder() if state is None else state) / DEVELOPMENT_KEY


def make_development_key(state: Path | None = None, machine_keys: Path | None = None) -> tuple[PrivateKey, bool]:
    """This machine's development key, made where there is none; its public half goes into the installed package.

    Returns the key and whether anything was new. Raises OSError, InvalidInputError.
    """
    path = development_key_path(state)
    is_new = not path.exists()
    if is_new:
        private_folder(path.parent.parent)
        private_folder(path.parent)
        key = PrivateKey.generate()
        key.save(path)
    else:
        key = PrivateKey.load(path)
    return key, install_key(key.public, Purpose.DEVELOPMENT, machine_keys) or is_new


def sign_file(path: Path, kind: Kind, key: PrivateKey, name: str, version: int) -> Path:
    """Sign the content of `path`; the signature goes beside it, to travel with it. Returns where it is."""
    signature = Signature.make(Statement(kind, name, version, hashlib.sha256(_content(path)).hexdigest()), key)
    target = signature_path(path)
    write_whole(target, signature.to_json())
    return target


def sign_locally(path: Path, kind: Kind, key: PrivateKey, state: Path | None = None) -> Signature:
    """Sign the content of `path` for this machine; the signature is kept in the state, by the content's SHA-256.

    Its name is the file's own path, its version one above the highest that was in use under it, unless this content
    is the one in use: then it keeps its signature. So whoever signs decides what the newest is.
    """
    folder = state_folder() if state is None else state
    name = str(path.resolve())
    sha256 = hashlib.sha256(_content(path)).hexdigest()
    target = folder / SIGNATURES / f"{sha256}.json"
    with Floors(folder / "versions") as floors:
        floor = floor_name(key.public.id, kind.value, name)
        known = _known(target)
        if (
            known is not None
            and known.verifies(key.public)
            and known.statement.kind is kind
            and known.statement.name == name
            and known.statement.version >= floors.of(floor)
        ):
            return known
        version = floors.of(floor) + 1
        signature = Signature.make(Statement(kind, name, version, sha256), key)
        private_folder(folder)
        target.parent.mkdir(exist_ok=True)
        write_whole(target, signature.to_json())
        floors.raise_to(floor, version)
    return signature


def _known(path: Path) -> Signature | None:
    try:
        return Signature.from_json(read_regular(path, FILE_MAX))
    except (OSError, ValueError, InvalidInputError):
        return None  # none, or none that can be read: a new one takes its place


def _content(path: Path) -> bytes:
    try:
        data = read_regular(path, SIZE_MAX)
    except OSError as error:
        fault = Fault(str(path), error.strerror or str(error), "a readable file")
        raise InvalidInputError("signing", [fault]) from None
    if len(data) > SIZE_MAX:
        raise InvalidInputError("signing", [Fault(str(path), "a larger file", f"at most {SIZE_MAX} bytes")])
    if path.suffix == ".onnx" and _EXTERNAL_DATA in data:
        fault = Fault(str(path), "tensors in other files", "one file that holds the whole model")
        raise InvalidInputError("signing", [fault], "export it without external data: a signature covers one file")
    return data
