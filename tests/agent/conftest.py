"""Fixtures of the agent's tests."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tether.agent.domain import Domain, load_domain
from tether.resources import resource_path

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages; fact_robot is shared by their modules

Edit = Callable[[str, str, str], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped domain."""
    return Path(shutil.copytree(resource_path("config", "agent"), tmp_path / "agent"))


@pytest.fixture
def edit(folder: Path) -> Edit:
    """edit(file, old, new) in the copy; the old text must be there."""

    def replace(name: str, old: str, new: str) -> None:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    return replace


@pytest.fixture
def domain() -> Domain:
    """The shipped domain."""
    return load_domain()
