"""Fixtures of the bag tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages; bag_making is shared by their modules

from bag_making import BUILDERS, Row, make_rows


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    return make_rows()


@pytest.fixture(scope="session")
def tether_data() -> Path:
    """Folder with recorded data that is too big for the repository, named by TETHER_DATA."""
    folder = os.environ.get("TETHER_DATA")
    if not folder:
        pytest.skip("TETHER_DATA does not name a folder with the big recorded bags")
    return Path(folder)


@pytest.fixture(scope="session")
def bags_of_every_kind(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> dict[str, Path]:
    return {name: build(tmp_path_factory.mktemp(name), rows) for name, build in BUILDERS.items()}
