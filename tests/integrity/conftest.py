"""Test folders are no packages; state_making is shared by the modules of this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes matter where power is cut, which no test does; on a busy disk they are what takes the time."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)
    monkeypatch.setattr("tether.integrity.database._SYNCHRONOUS", "OFF")
