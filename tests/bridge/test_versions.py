"""Versions appear whole or not at all, whenever their writer is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_models import open_tiny, write_tiny

from tether.bridge.versions import publish, versions_in
from tether.errors import InvalidInputError

PUBLISHER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tiny_models import write_tiny
from tether.bridge.versions import publish
factor = 1.0
while True:
    factor += 1.0
    publish(Path(sys.argv[1]), lambda folder: write_tiny(folder, factor), kept=5)
"""


def test_versions_are_numbered_on_and_only_so_many_are_kept(tmp_path: Path) -> None:
    for factor in range(1, 8):
        publish(tmp_path, lambda folder, f=factor: write_tiny(folder, f), kept=3)
    assert [number for number, _ in versions_in(tmp_path)] == [5, 6, 7]
    assert sorted(os.listdir(tmp_path)) == ["v000005", "v000006", "v000007"]


def test_version_whose_writing_fails_does_not_appear(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        write_tiny(folder, 1.0)
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError):
        publish(tmp_path, broken)
    assert versions_in(tmp_path) == []
    publish(tmp_path, lambda folder: write_tiny(folder, 1.0))
    assert sorted(os.listdir(tmp_path)) == ["v000001"]


def test_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="versions"):
        publish(tmp_path / "file" / "below", lambda folder: None)


def test_no_folder_has_no_versions(tmp_path: Path) -> None:
    assert versions_in(tmp_path / "nothing") == []


@pytest.mark.timeout(300)
def test_every_version_opens_though_its_writer_is_killed_at_any_moment(tmp_path: Path) -> None:
    rng = random.Random(7)
    here = str(Path(__file__).parent)
    last = 0
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", PUBLISHER, str(tmp_path), here])
        deadline = time.monotonic() + 60.0
        while not any(number > last for number, _ in versions_in(tmp_path)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        versions = versions_in(tmp_path)
        last = versions[-1][0]
        for _, folder in versions:
            open_tiny(folder)
