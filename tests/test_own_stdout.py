from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_only_what_is_written_to_it_reaches_the_parent() -> None:
    code = (
        "import os; from tether.own_stdout import own_stdout\n"
        "with own_stdout() as own: print('a print', flush=True); os.write(1, b'a library\\n'); own.write(b'an answer')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"an answer"
    assert done.stderr.splitlines() == [b"a print", b"a library"]


@pytest.mark.ros
def test_what_dds_logs_to_standard_output_is_not_taken_for_the_fault_probes_answer(domain: int, tmp_path: Path) -> None:
    pytest.importorskip("rclpy", reason="needs rclpy and the built tether_msgs (make setup)")
    profiles = tmp_path / "profiles.xml"
    profiles.write_text("no XML at all", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tether_bringup.fault_probe", str(tmp_path / "recording")],
        env={**os.environ, "FASTRTPS_DEFAULT_PROFILES_FILE": str(profiles)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"Error" in done.stderr, f"DDS logged nothing in domain {domain}: nothing was tried"
    assert [list(json.loads(line)) for line in done.stdout.splitlines()] == [["at_ns"]]
