"""Fixtures of the team's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tether.memory.redis_server import RedisServer

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "agent")]  # crews, fact_robot: test folders are no packages

from crews import Crew, crew_of  # noqa: E402


@pytest.fixture
def crew(redis_server: RedisServer) -> Iterator[Crew]:
    """On a server of the test's own."""
    with crew_of(redis_server, redis_server.folder) as made:
        yield made
