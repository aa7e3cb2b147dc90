"""What starts the robot's graph: the right version, restarts without rights, an orderly end."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docker" / "run_robot.py"
GRAPH = """
    import os, signal, sys, time
    from pathlib import Path
    log = Path(sys.argv[1])
    def down(*_):
        with log.open("a") as file: file.write("down\\n")
        sys.exit(0)
    signal.signal(signal.SIGINT, down)
    with log.open("a") as file: file.write("up " + Path(os.environ.get("TETHER_RESOURCES", "shipped")).name + "\\n")
    time.sleep(120)
"""


def eventually(holds: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    for version in ("a" * 16, "b" * 16):
        (folder / "versions" / version).mkdir(parents=True)
    (folder / "current").symlink_to(Path("versions") / ("a" * 16))
    return folder


@pytest.fixture
def supervised(place: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A supervisor over a graph that writes down when it comes up, with what, and when it goes down."""
    graph, log = tmp_path / "graph.py", tmp_path / "log"
    graph.write_text(textwrap.dedent(GRAPH))
    log.touch()
    main = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import run_robot; from pathlib import Path; "
    main += f"sys.exit(run_robot.supervise(Path({str(place)!r}), [sys.executable, {str(graph)!r}, {str(log)!r}]))"
    process = subprocess.Popen([sys.executable, "-c", main])
    try:
        eventually(lambda: log.read_text() != "", "the graph came up")
        yield process, log
    finally:
        process.kill()
        process.wait()


def test_graph_runs_the_version_that_holds_and_stops_in_order(supervised, place: Path) -> None:
    process, log = supervised
    assert log.read_text() == f"up {'a' * 16}\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert log.read_text().splitlines()[-1] == "down"


def test_restart_takes_the_old_graph_down_before_it_returns_and_brings_the_new_version_up(
    supervised, place: Path
) -> None:
    _, log = supervised
    (place / "current").unlink()
    (place / "current").symlink_to(Path("versions") / ("b" * 16))
    environ = {**os.environ, "TETHER_PLACE": str(place)}
    done = subprocess.run([sys.executable, str(SCRIPT), "--restart"], env=environ, timeout=90, check=False)
    assert done.returncode == 0
    assert "down" in log.read_text()
    eventually(lambda: f"up {'b' * 16}" in log.read_text(), "the new version came up")


def test_restart_that_nobody_takes_says_so(place: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    spec = importlib.util.spec_from_file_location("run_robot", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STOP_S", -20.0)
    assert module.ask_for_restart(place) == 1
    assert "is the robot's service running" in capsys.readouterr().err
    assert not (place / "restart").exists()
