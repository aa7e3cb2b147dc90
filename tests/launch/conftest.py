"""A small ament prefix with executables that tests launch."""

from __future__ import annotations

import os
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages; launch_reading is shared

GRAPH = [
    ("tether_world", "world"),
    ("tether_world", "isaac_world"),
    ("tether_world", "isaac_sim_shim"),
    ("tether_safety", "safety_supervisor"),
    ("tether_safety", "black_box"),
    ("tether_ingest", "imu_ingest"),
    ("tether_ingest", "camera_ingest"),
    ("tether_fusion", "fusion"),
    ("tether_policy", "policy"),
    ("tether_opd", "opd_bridge"),
    ("tether_motion", "primitive_executor"),
    ("tether_bringup", "composed"),
    ("tether_bringup", "recorder"),
    ("tether_bringup", "replay_player"),
    ("tether_bringup", "lifecycle_manager"),
]


@dataclass(frozen=True)
class Prefix:
    """An ament prefix under construction."""

    root: Path

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, with the prefix before the other ones."""
        others = os.environ.get("AMENT_PREFIX_PATH", "")
        return {**os.environ, "AMENT_PREFIX_PATH": f"{self.root}{os.pathsep}{others}".rstrip(os.pathsep)}

    def add(self, package: str, executable: str, body: str = "") -> Path:
        """Install a Python program as `lib/<package>/<executable>`; the package is made when it is new."""
        marker = self.root / "share/ament_index/resource_index/packages" / package
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        (self.root / "share" / package).mkdir(parents=True, exist_ok=True)
        path = self.root / "lib" / package / executable
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable} -u\n{textwrap.dedent(body)}", encoding="utf-8")
        path.chmod(0o755)
        return path

    def add_graph(self, body: str = "") -> None:
        """Install stand-ins of every executable of the graph, but for the robot's driver."""
        for package, executable in GRAPH:
            self.add(package, executable, body)

    def launch_file(self, body: str, name: str = "test.launch.xml") -> Path:
        """Write a launch file whose line 1 is `<launch>` and whose line 2 is the first of `body`."""
        path = self.root / name
        path.write_text(f"<launch>\n{textwrap.dedent(body).strip()}\n</launch>\n", encoding="utf-8")
        return path


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    """An empty prefix."""
    return Prefix(tmp_path)
