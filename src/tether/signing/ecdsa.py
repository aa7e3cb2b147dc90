"""ECDSA over secp256r1 (NIST P-256) with SHA-256; signatures in DER, keys in PEM."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tether.errors import Fault, InvalidInputError
from tether.signing.files import read_with_mode, write_whole

_FILE_MAX = 65536
_ALGORITHM = ec.ECDSA(hashes.SHA256())


class PublicKey:
    """The half that verifies."""

    def __init__(self, key: ec.EllipticCurvePublicKey) -> None:
        self._key = key

    @staticmethod
    def from_pem(pem: str, origin: str = "public key") -> PublicKey:
        """Parse; InvalidInputError for anything that is no P-256 public key in PEM."""
        try:
            key = serialization.load_pem_public_key(pem.encode())
        except (ValueError, UnicodeError) as error:
            raise _no_key(origin, str(error) or "no PEM") from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise _no_key(origin, type(key).__name__)
        return PublicKey(key)

    @cached_property
    def pem(self) -> str:
        """SubjectPublicKeyInfo as PEM."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_bytes(serialization.Encoding.PEM, form).decode()

    @cached_property
    def id(self) -> str:
        """First 32 hex digits of the SHA-256 over the key's SubjectPublicKeyInfo."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return hashlib.sha256(self._key.public_bytes(serialization.Encoding.DER, form)).hexdigest()[:32]

    def verifies(self, data: bytes, signature: bytes) -> bool:
        """Whether `signature` (DER) was made over `data` with the other half."""
        try:
            self._key.verify(signature, data, _ALGORITHM)
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """The half that signs. It never leaves its file and this process."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    @staticmethod
    def generate() -> PrivateKey:
        """A new key."""
        return PrivateKey(ec.generate_private_key(ec.SECP256R1()))

    @staticmethod
    def load(path: Path) -> PrivateKey:
        """Read a key that `save` wrote; InvalidInputError where it is none or others may read it."""
        try:
            pem, mode = read_with_mode(path, _FILE_MAX)
        except OSError as error:
            raise _no_key(str(path), error.strerror or str(error)) from None
        if mode & 0o077:
            fault = Fault(str(path), f"permissions {mode:o}", "600")
            raise InvalidInputError("private key", [fault], f"chmod 600 {path}; make a new key if others have read it")
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise _no_key(str(path), str(error) or "no PEM") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise _no_key(str(path), type(key).__name__)
        return PrivateKey(key)

    def save(self, path: Path) -> None:
        """Write the key, readable by its owner only, whole or not at all."""
        form = serialization.PrivateFormat.PKCS8
        pem = self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        write_whole(path, pem, mode=0o600)

    def sign(self, data: bytes) -> bytes:
        """DER signature over the SHA-256 of `data`."""
        return self._key.sign(data, _ALGORITHM)


def _no_key(origin: str, found: str) -> InvalidInputError:
    fault = Fault(origin, found, "a secp256r1 key in PEM")
    return InvalidInputError("key", [fault], "restore it, or make a new one with `tether sign --make-key`")
