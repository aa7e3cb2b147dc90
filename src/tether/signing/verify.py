"""Nothing is executed that was not verified: read once, verified, and executed from those very bytes.

`Verifier.load` reads a file into memory and verifies hash, signature, key, revocation and version. What it returns
holds the bytes; whoever executes them calls `admit` right before the first execution in a run, which verifies again
what is in memory, against the revocation list as it is then.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tether.contracts import Verdict
from tether.errors import TetherError
from tether.safety.settings import Check
from tether.signing.files import read_regular, state_folder
from tether.signing.floors import Floors, floor_name
from tether.signing.revocations import read_revocations, revocations_path
from tether.signing.statement import FILE_MAX, Kind, Reason, Signature, SignatureRefusedError, signature_path
from tether.signing.trust import Purpose, TrustedKey, trusted_keys

_LOG = logging.getLogger(__name__)
SIZE_MAX = 512 * 2**20
SIGNATURES = "signatures"
"""Folder of the state in which signatures lie that do not travel with their file, by SHA-256 of its content."""


@dataclass(frozen=True)
class Signed:
    """Content that was verified. data: what is to be executed; nothing is read again."""

    path: Path
    signature: Signature
    purpose: Purpose
    data: bytes


class Verifier:
    """Verifies for one run. physical: motors are real, so development keys and unproven floors are refused.

    keys, state: for tests; otherwise those of this package and of this user.
    """

    def __init__(self, physical: bool, keys: Mapping[str, TrustedKey] | None = None, state: Path | None = None) -> None:
        self._physical = physical
        self._keys = trusted_keys() if keys is None else dict(keys)
        self._state = state_folder() if state is None else state
        self._admitted: set[tuple[str, str]] = set()

    def load(self, path: Path, kind: Kind, name: str | None = None) -> Signed:
        """Read and verify. name: what it must be signed as, where the caller knows. SignatureRefusedError says why
        not; errors of the floors' store (TetherError) come as they are."""
        data = self._read(path)
        signature = self._signature(path, hashlib.sha256(data).hexdigest())
        purpose = self._verified(path, kind, name, data, signature)
        return Signed(path, signature, purpose, data)

    def admit(self, signed: Signed) -> bytes:
        """The bytes to execute. At the first call for them in this run they are verified again, as they are now in
        memory."""
        statement = signed.signature.statement
        key = (statement.sha256, signed.signature.key_id)
        if key not in self._admitted:
            self._verified(signed.path, statement.kind, statement.name, signed.data, signed.signature)
            self._admitted.add(key)
        return signed.data

    def begin_run(self) -> None:
        """A new run: everything is verified again before its first execution."""
        self._admitted.clear()

    def _verified(self, path: Path, kind: Kind, name: str | None, data: bytes, signature: Signature) -> Purpose:
        statement, what = signature.statement, str(path)
        sha256 = hashlib.sha256(data).hexdigest()
        if statement.sha256 != sha256:
            raise _refused(Reason.CHANGED, what, f"SHA-256 {sha256}", statement.sha256)
        if statement.kind is not kind or (name is not None and statement.name != name):
            found = f"{statement.kind.value} {statement.name!r}"
            raise _refused(Reason.OTHER_KIND, what, found, f"{kind.value} {name or ''}".strip())
        key = self._keys.get(signature.key_id)
        if key is None:
            known = ", ".join(sorted(self._keys)) or "none"
            raise _refused(Reason.UNKNOWN_KEY, what, f"key {signature.key_id}", f"a key in this package ({known})")
        if not signature.verifies(key.public):
            raise _refused(Reason.FORGED, what, "a signature that does not verify", f"key {signature.key_id}")
        if self._physical and key.purpose is Purpose.DEVELOPMENT:
            raise _refused(Reason.DEVELOPMENT_KEY, what, "a development key's signature", "a robot's or release key's")
        self._check_state(what, signature)
        return key.purpose

    def _check_state(self, what: str, signature: Signature) -> None:
        """Revocations and version floors, under the floors' lock."""
        statement = signature.statement
        with Floors(self._state / "versions") as floors:
            if floors.unproven:
                if self._physical:
                    raise _refused(Reason.ROLLED_BACK, "version floors", floors.unproven, "floors known to be newest")
                _LOG.warning("version floors may be old: %s", floors.unproven)
            revoked = read_revocations(revocations_path(self._state), self._keys, floors, self._physical)
            reason = revoked.reason(statement.sha256, signature.key_id)
            if reason is not None:
                raise _refused(Reason.REVOKED, what, f"revoked: {reason}", "something that is not on the list")
            name = floor_name(signature.key_id, statement.kind.value, statement.name)
            floor = floors.of(name)
            if statement.version < floor:
                expected = f"version {floor} or newer, which was in use here"
                raise _refused(Reason.ROLLED_BACK, what, f"version {statement.version} of {statement.name}", expected)
            floors.raise_to(name, statement.version)

    def _read(self, path: Path) -> bytes:
        try:
            data = read_regular(path, SIZE_MAX)
        except OSError as error:
            raise _refused(Reason.MISSING, str(path), error.strerror or str(error), "a readable file") from None
        if len(data) > SIZE_MAX:
            raise _refused(Reason.MISSING, str(path), f"more than {SIZE_MAX} bytes", "a file that fits memory")
        return data

    def _signature(self, path: Path, sha256: str) -> Signature:
        beside, kept = signature_path(path), self._state / SIGNATURES / f"{sha256}.json"
        found: list[Signature] = []
        for place in (beside, kept):
            try:
                found.append(Signature.from_json(read_regular(place, FILE_MAX)))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TetherError) as error:
                raise _refused(Reason.MALFORMED, str(place), str(error)[:200], "a signature") from None
        if not found:
            raise _refused(Reason.UNSIGNED, str(path), f"neither {beside.name} nor {kept}", "a signature")
        return next((signature for signature in found if signature.statement.sha256 == sha256), found[0])


def verified_bytes(path: Path, kind: Kind, physical: bool, name: str | None = None) -> bytes:
    """Read, verify and admit in one go, for what is executed right away (an ONNX session made from these bytes)."""
    verifier = Verifier(physical)
    return verifier.admit(verifier.load(path, kind, name))


def signature_attestation(artefacts: Mapping[Path, Kind], physical: bool) -> Callable[[], Verdict]:
    """An attestation for the gate (`tether.safety.attest`): what the robot is to execute verifies.

    Verified once, when this is called (the gate's tick must not wait for a disk); the answer stays.
    """
    verdict = Verdict(Check.MODEL_SIGNATURE.value, 1.0)
    verifier = Verifier(physical)
    for path, kind in artefacts.items():
        try:
            verifier.admit(verifier.load(path, kind))
        except TetherError as error:
            check = Check.SKILL_SIGNATURE if kind is Kind.SKILL else Check.MODEL_SIGNATURE
            verdict = Verdict(check.value, 0.0, str(error).replace("\n", " ")[:500])
            break
    return lambda: verdict


_FIXES = {
    Reason.MISSING: "name a file that can be read",
    Reason.UNSIGNED: "sign it: `tether sign FILE`; for what ships with Tether run `make setup`",
    Reason.MALFORMED: "sign it again: `tether sign FILE`",
    Reason.UNKNOWN_KEY: "sign it with a key of this machine, or install the key: `tether sign --install-key`",
    Reason.FORGED: "do not use it; bring it anew from where it was signed",
    Reason.CHANGED: "bring the signed content, or sign the change: `tether sign FILE`",
    Reason.OTHER_KIND: "use what was signed for this",
    Reason.DEVELOPMENT_KEY: "sign it with the robot's key: `tether sign --key FILE`",
    Reason.REVOKED: "use a newer version",
    Reason.ROLLED_BACK: "use the newer version, or sign this one again as a higher one: `tether sign FILE`",
}


def _refused(reason: Reason, what: str, found: str, expected: str) -> SignatureRefusedError:
    return SignatureRefusedError(reason, what, found, expected, _FIXES[reason])
