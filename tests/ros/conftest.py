"""Test folders are no packages; graph_tools and node_bench are shared by the modules of this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from node_bench import Bench

pytest.importorskip("rclpy", reason="needs ROS 2's rclpy (make setup)")
pytest.importorskip("tether_msgs", reason="needs the built interfaces (make setup)")

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def bench(domain: int) -> Iterator[Bench]:
    """A bench for one node, in a domain of the test's own."""
    from node_bench import Bench  # what it imports, tests without one need not

    made = Bench(domain)
    try:
        yield made
    finally:
        made.stop()
