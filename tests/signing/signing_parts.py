"""What the tests of signing share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tether.signing.ecdsa import PrivateKey
from tether.signing.sign import sign_file
from tether.signing.statement import Kind, Reason, SignatureRefusedError
from tether.signing.trust import Purpose, TrustedKey
from tether.signing.verify import Signed, Verifier


@dataclass(frozen=True)
class Keys:
    """A key for each purpose, and one that nobody trusts."""

    release: PrivateKey
    robot: PrivateKey
    development: PrivateKey
    stranger: PrivateKey

    @property
    def trusted(self) -> dict[str, TrustedKey]:
        purposes = (
            (self.release, Purpose.RELEASE),
            (self.robot, Purpose.ROBOT),
            (self.development, Purpose.DEVELOPMENT),
        )
        return {key.public.id: TrustedKey(key.public, purpose) for key, purpose in purposes}


def made(folder: Path, content: bytes, key: PrivateKey, version: int = 1, name: str = "student") -> Path:
    """A signed model manifest with this content."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "manifest.json"
    path.write_bytes(content)
    sign_file(path, Kind.MODEL, key, name, version)
    return path


def refused(verifier: Verifier, path: Path, kind: Kind = Kind.MODEL, name: str | None = None) -> Reason:
    """Why loading is refused."""
    with pytest.raises(SignatureRefusedError) as caught:
        verifier.load(path, kind, name)
    return caught.value.reason


def executed(verifier: Verifier, path: Path) -> bytes:
    """Load and admit, as whoever executes does."""
    signed: Signed = verifier.load(path, Kind.MODEL)
    return verifier.admit(signed)
