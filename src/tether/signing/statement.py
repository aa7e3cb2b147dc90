"""What a signature says: this content is this version of this thing. And the file that carries it.

The signed text names kind, name, version and SHA-256, so that none of them can be changed or taken from elsewhere. The
file is JSON: the same fields, the key's id, and the DER signature in base64.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tether.errors import Fault, InvalidInputError
from tether.signing.ecdsa import PrivateKey, PublicKey

FORMAT = 1
SUFFIX = ".sig"
FILE_MAX = 64 * 1024
VERSION_MAX = 2**31 - 1


class Kind(str, Enum):
    """What is signed. A signature for one kind is none for another."""

    MODEL = "model"
    """A model's manifest, which pins the SHA-256 of the model file."""
    SKILL = "skill"
    """The Python source of a skill's entry point, or its description."""
    REVOCATIONS = "revocations"


class Reason(str, Enum):
    """Why something was refused."""

    MISSING = "missing"
    UNSIGNED = "unsigned"
    MALFORMED = "malformed"
    """The file that should hold the signature holds something else."""
    UNKNOWN_KEY = "unknown_key"
    FORGED = "forged"
    """The signature is not that of the key it names, or of another text."""
    CHANGED = "changed"
    """The content is not what was signed."""
    OTHER_KIND = "other_kind"
    DEVELOPMENT_KEY = "development_key"
    """Signed with a development key, and this is a physical robot."""
    REVOKED = "revoked"
    REVOCATIONS = "revocations"
    """The revocation list is missing, forged or older than one seen before."""
    ROLLED_BACK = "rolled_back"
    """Older than a version that was in use here before."""


class SignatureRefusedError(InvalidInputError):
    """Something is not to be executed. `reason` is for programs, the text for people."""

    def __init__(self, reason: Reason, what: str, found: str, expected: str, fix: str) -> None:
        self.reason = reason
        super().__init__(f"{what} refused ({reason.value})", [Fault(what, found, expected)], fix)


@dataclass(frozen=True)
class Statement:
    """What is signed. name: of the thing, the same for all its versions. sha256: hexadecimal, of its content."""

    kind: Kind
    name: str
    version: int
    sha256: str

    def __post_init__(self) -> None:
        faults = []
        if not 0 < len(self.name) <= 500 or not self.name.isprintable():
            faults.append(Fault("name", repr(self.name)[:80], "1 to 500 printable characters"))
        if type(self.version) is not int or not 1 <= self.version <= VERSION_MAX:
            faults.append(Fault("version", repr(self.version)[:80], f"a whole number from 1 to {VERSION_MAX}"))
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            faults.append(Fault("sha256", repr(self.sha256)[:80], "64 hexadecimal digits in lower case"))
        if faults:
            raise InvalidInputError("signature", faults)

    def text(self) -> bytes:
        """The bytes that are signed."""
        return (
            f"tether signature {FORMAT}\nkind: {self.kind.value}\nname: {self.name}\n"
            f"version: {self.version}\nsha256: {self.sha256}\n"
        ).encode()


@dataclass(frozen=True)
class Signature:
    """A statement, the id of the key that signed it, and the signature (DER)."""

    statement: Statement
    key_id: str
    der: bytes

    @staticmethod
    def make(statement: Statement, key: PrivateKey) -> Signature:
        """Sign."""
        return Signature(statement, key.public.id, key.sign(statement.text()))

    def verifies(self, key: PublicKey) -> bool:
        """Whether `key` signed this statement."""
        return self.key_id == key.id and key.verifies(self.statement.text(), self.der)

    def to_json(self) -> bytes:
        """Content of the file."""
        fields: dict[str, Any] = {"format": FORMAT, **asdict(self.statement)}
        fields["kind"] = self.statement.kind.value
        fields |= {"key": self.key_id, "signature": base64.b64encode(self.der).decode()}
        return (json.dumps(fields, indent=1) + "\n").encode()

    @staticmethod
    def from_json(data: bytes) -> Signature:
        """Parse; ValueError or InvalidInputError for anything that `to_json` did not write."""
        if len(data) > FILE_MAX:
            raise ValueError(f"more than {FILE_MAX} bytes")
        try:
            fields = json.loads(data)
        except RecursionError:
            raise ValueError("nested too deep") from None
        expected = {"format", "kind", "name", "version", "sha256", "key", "signature"}
        if not isinstance(fields, dict) or set(fields) != expected or fields["format"] != FORMAT:
            raise ValueError(f"expected the fields {', '.join(sorted(expected))} and format {FORMAT}")
        texts = [fields[name] for name in ("kind", "name", "sha256", "key", "signature")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a field that is no text")
        kind, name, sha256, key_id, encoded = texts
        try:
            der = base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ValueError(f"signature: {error}") from None
        return Signature(Statement(Kind(kind), name, fields["version"], sha256), key_id, der)


def signature_path(path: Path) -> Path:
    """Where a signature lies that travels with a file: beside it."""
    return path.with_name(path.name + SUFFIX)
