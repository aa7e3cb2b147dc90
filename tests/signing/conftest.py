"""Keys and a state of the tests' own; nothing of the machine's is read or written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages; signing_parts is shared by their modules

from signing_parts import Keys

from tether.signing import shipped, trust
from tether.signing.ecdsa import PrivateKey


@pytest.fixture(scope="session")
def keys() -> Keys:
    return Keys(*(PrivateKey.generate() for _ in range(4)))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder, through the environment as well; and a package without machine keys."""
    folder = tmp_path / "state of the user"
    monkeypatch.setenv("TETHER_STATE", str(folder))
    monkeypatch.setattr(trust, "MACHINE_KEYS", tmp_path / "package" / "machine_keys.json")
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(shipped, "_folder", lambda: tmp_path / "models")
    (tmp_path / "models").mkdir()
    return folder
