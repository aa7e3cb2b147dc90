"""What was signed and is not to be executed any more: a signed list that only grows newer.

The list names contents by SHA-256 and keys by id. It carries a number that may not fall; once a list was seen here, its
absence refuses everything, for deleting it must not bring back what it revokes. A key that a list revoked signs no list
any more: whoever has stolen it could otherwise write a newer one that no longer names it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.signing.ecdsa import PrivateKey
from tether.signing.files import private_folder, read_regular, state_folder, write_whole
from tether.signing.floors import Floors
from tether.signing.statement import Kind, Reason, Signature, SignatureRefusedError, Statement
from tether.signing.trust import Purpose, TrustedKey

NAME = "revocations"
LIST_MAX = 4 * 2**20


@dataclass(frozen=True)
class Revocations:
    """sequence: number of the list, 0 for none. sha256: contents, key_ids: keys; each with the reason."""

    sequence: int = 0
    sha256: Mapping[str, str] = field(default_factory=dict)
    key_ids: Mapping[str, str] = field(default_factory=dict)

    def reason(self, sha256: str, key_id: str) -> str | None:
        """Why this content, or what this key signed, is revoked; None where it is not."""
        return self.sha256.get(sha256) or self.key_ids.get(key_id)


def revocations_path(state: Path | None = None) -> Path:
    """Where the list of this machine lies, or a state's. Whoever can write it can only put signed lists there."""
    return (state_folder() if state is None else state) / "revocations.json"


def write_revocations(path: Path, revocations: Revocations, key: PrivateKey) -> None:
    """Sign and write. Raises OSError, and InvalidInputError for a list that revokes the key that it is signed with."""
    if key.public.id in revocations.key_ids:
        fault = Fault("signed with", key.public.id, "another key of this package than those that the list revokes")
        raise InvalidInputError("revocations", [fault], "make and install a new key first: `tether sign --make-key`")
    body = json.dumps(
        {"sequence": revocations.sequence, "sha256": dict(revocations.sha256), "keys": dict(revocations.key_ids)},
        sort_keys=True,
    )
    sha256 = hashlib.sha256(body.encode()).hexdigest()
    signature = Signature.make(Statement(Kind.REVOCATIONS, NAME, revocations.sequence, sha256), key)
    whole = {"list": body, "signature": json.loads(signature.to_json())}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(whole, indent=1) + "\n").encode())


def read_revocations(path: Path, keys: Mapping[str, TrustedKey], floors: Floors, physical: bool) -> Revocations:
    """The list that holds; an empty one where there never was one. SignatureRefusedError (REVOCATIONS) otherwise."""
    floor = floors.of(NAME)
    try:
        found = _fit_here(path, keys, floors, physical)
    except FileNotFoundError:
        if floor == 0:
            return Revocations()
        raise _refused(path, "nothing", f"list {floor} or newer, which was in use here") from None
    floors.raise_to(NAME, found.sequence)
    for key_id in found.key_ids:
        floors.raise_to(_as_signer(key_id), 1)
    return found


def install_revocations(source: Path, keys: Mapping[str, TrustedKey], state: Path | None = None) -> Revocations:
    """Take a list that was brought here, if a physical robot would: signed by a release or robot key, and no older one.

    Raises SignatureRefusedError, and then the list that was here stays; OSError. state: instead of this user's.
    """
    data, target = read_regular(source, LIST_MAX), revocations_path(state)
    private_folder(target.parent)
    incoming = target.with_name(f"{target.name}.incoming")
    write_whole(incoming, data)
    try:
        with Floors(target.parent / "versions") as floors:
            _fit_here(incoming, keys, floors, physical=True)
            os.replace(incoming, target)  # before the floor rises: cut in between, the list that lies here still fits
            return read_revocations(target, keys, floors, physical=True)
    finally:
        incoming.unlink(missing_ok=True)


def install_newer(source: Path, keys: Mapping[str, TrustedKey], state: Path | None = None) -> Revocations | None:
    """`install_revocations` for a list that came along with something else: None, and nothing is changed, where the
    one here is as new or newer."""
    brought, _ = _signed_list(source, keys, physical=True)
    target = revocations_path(state)
    with Floors(target.parent / "versions") as floors:
        floor = floors.of(NAME)
    try:
        here = _signed_list(target, keys, physical=True)[0].sequence
    except (FileNotFoundError, SignatureRefusedError):
        here = 0  # none, or one that does not count here
    if brought.sequence < floor or brought.sequence <= here:
        return None
    return install_revocations(source, keys, state)


def _fit_here(path: Path, keys: Mapping[str, TrustedKey], floors: Floors, physical: bool) -> Revocations:
    """The list in a file, if it may hold here: no older than any that did, its signer never revoked."""
    found, key_id = _signed_list(path, keys, physical)
    floor = floors.of(NAME)
    if found.sequence < floor:
        raise _refused(path, f"list {found.sequence}", f"list {floor} or newer, which was in use here")
    if floors.of(_as_signer(key_id)):
        raise _refused(path, f"a list signed by {key_id}, which is revoked", "one signed by another key")
    return found


def _signed_list(path: Path, keys: Mapping[str, TrustedKey], physical: bool) -> tuple[Revocations, str]:
    """The list in a file and the id of the key that it is signed with, whatever was in use here. FileNotFoundError
    where there is none."""
    try:
        data = read_regular(path, LIST_MAX)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "a readable list") from None
    try:
        whole = json.loads(data)
        body, signature = whole["list"].encode(), Signature.from_json(json.dumps(whole["signature"]).encode())
        fields = json.loads(body)
        found = Revocations(fields["sequence"], _texts(fields["sha256"]), _texts(fields["keys"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(path, repr(error)[:200], "a signed list") from None
    statement = signature.statement
    key = keys.get(signature.key_id)
    if key is None or not signature.verifies(key.public):
        raise _refused(path, f"a list signed by {signature.key_id}", "a signature of a key in this package")
    if physical and key.purpose is Purpose.DEVELOPMENT:
        raise _refused(path, "a development key's signature", "one of a robot's or a release key")
    sealed = Statement(Kind.REVOCATIONS, NAME, statement.version, hashlib.sha256(body).hexdigest())
    if statement != sealed or found.sequence != statement.version:
        raise _refused(path, "a list that is not the one that was signed", f"SHA-256 {statement.sha256}")
    if signature.key_id in found.key_ids:
        raise _refused(path, f"a list signed by {signature.key_id}, which is revoked", "one signed by another key")
    return found, signature.key_id


def _as_signer(key_id: str) -> str:
    """Under what it is kept that a key signs no lists any more."""
    return hashlib.sha256(f"revoked\n{key_id}".encode()).hexdigest()[:20]


def _texts(mapping: object) -> dict[str, str]:
    if not isinstance(mapping, dict) or not all(isinstance(v, str) and v for v in mapping.values()):
        raise ValueError("expected names with reasons")
    return dict(mapping)


def _refused(path: Path, found: str, expected: str) -> SignatureRefusedError:
    fix = "bring the newest list from whoever signs for this machine"
    return SignatureRefusedError(Reason.REVOCATIONS, str(path), found, expected, fix)
