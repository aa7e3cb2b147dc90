"""`tether soak`: what it counts, and a short one over emulated devices that is interrupted and goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tether import cli
from tether.hardware.emulate.process import DeviceFault
from tether.hardware.soak.injector import HELD_S, RECOVER_S, Injector
from tether.hardware.soak.measure import StreamMeter, memory_slope
from tether.hardware.soak.report import summary, table
from tether.journal import read_lines

RUN = [sys.executable, "-c", "import sys; from tether.cli import main; sys.exit(main())"]


def memory(rng: np.random.Generator, mib_h: float, hours: float = 2.0, run: int = 0, level: float = 150.0):
    """Samples each 10 s of a process that grows, with noise that resembles its neighbours (r = 0.8)."""
    noise, rows = 0.0, []
    for t in np.arange(0.0, hours * 3600.0, 10.0):
        noise = 0.8 * noise + rng.normal(0.0, 0.3)
        rows.append((run, float(t), level + mib_h * t / 3600.0 + noise))
    return rows


def test_a_leak_is_found_through_noise_and_a_process_without_one_is_not_accused():
    rng = np.random.default_rng(0)
    leaks = [memory_slope(memory(rng, 6.0)) for _ in range(40)]
    flat = [memory_slope(memory(rng, 0.0)) for _ in range(40)]
    assert all(one is not None and one.low > 0.0 for one in leaks)
    assert sum(one.low <= 6.0 <= one.high for one in leaks) >= 33, "a 95 % interval holds the truth nearly always"
    assert sum(one.low <= 0.0 <= one.high for one in flat) >= 33


def test_a_restart_begins_at_its_own_level_which_is_no_growth():
    rng = np.random.default_rng(1)
    slope = memory_slope([*memory(rng, 0.0, 1.0), *memory(rng, 0.0, 1.0, run=1, level=190.0)])
    assert slope is not None
    assert abs(slope.mib_h) < 1.0, "without levels of their own it were 40 MiB in an hour"


def test_too_few_samples_give_no_slope_instead_of_a_wild_one():
    assert memory_slope([]) is None
    assert memory_slope([(0, 10.0 * i, 100.0 + i) for i in range(12)]) is None, "all of the first two minutes"


def test_missing_samples_are_counted_by_stamps_and_those_of_a_fault_left_out():
    meter = StreamMeter(0.01)
    for stamp_ms in (0, 10, 20, 50, 60):
        meter.take(stamp_ms * 1_000_000)
    meter.leave_out()
    meter.take(2_000_000_000)
    meter.take(2_010_000_000)
    assert meter.drain() == (5, 2, pytest.approx(0.03))
    assert meter.drain() == (0, 0, 0.0)


class Recorder:
    """Takes the place of devices to see what is asked of them and when."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, DeviceFault]] = []

    def begin(self, fault: DeviceFault, servo_id: int) -> None:
        self.asked.append(("begin", fault))

    def end(self, fault: DeviceFault, servo_id: int) -> None:
        self.asked.append(("end", fault))


def test_a_fault_that_is_not_recovered_from_is_told_and_does_not_hold_up_the_next():
    devices = Recorder()
    injector = Injector(devices, [1, 2], 60.0, seed=0, done=0)  # type: ignore[arg-type]
    over = [injector.turn(t, whole=False) for t in np.arange(0.0, 60.0 + HELD_S + RECOVER_S + 1.0, 0.5)]
    (injection,) = [one for one in over if one is not None]
    assert injection.recovered_s is None
    assert devices.asked == [("begin", DeviceFault.OVERLOAD), ("end", DeviceFault.OVERLOAD)]
    injector.turn(121.0, whole=True)
    assert devices.asked[-1] == ("begin", DeviceFault.CHECKSUM)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--hours", "0"], "above 0"),
        (["--hours", "1", "--inject-every", "1"], "at least 5"),
        (["--hours", "1", "--robot", "tether_rover", "--inject-every", "60"], "no fault is put into a real robot"),
        (["--hours", "1", "--wiggle-joint", "wheel_left"], "shoulder_pan"),
        (["--hours", "1", "--wiggle-rad", "2"], "at most 0.3"),
    ],
)
def test_a_soak_that_makes_no_sense_is_refused(words, found, tmp_path, capsys):
    try:
        code = cli.main(["soak", *words, "--json", str(tmp_path / "out.json")])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert found in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.timeout(400)
def test_a_soak_recovers_from_its_faults_is_interrupted_and_goes_on(tmp_path: Path):
    out = tmp_path / "soak.json"
    journal = tmp_path / "soak.json.journal"
    words = [*RUN, "soak", "--hours", "0.011", "--inject-every", "5", "--json", str(out)]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline_s = time.monotonic() + 150.0
    while not (journal.exists() and any(one.get("record") == "fault" for one in read_lines(journal))):
        assert first.poll() is None and time.monotonic() < deadline_s, "no fault was put in"
        time.sleep(0.2)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=60)[0]
    assert first.returncode == 130, said
    assert "NOT complete" in said
    assert json.loads(out.read_text())["complete"] is False
    again = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert again.returncode == 0, again.stderr
    result = json.loads(out.read_text())
    assert (result["complete"], result["runs"], result["tool"]) == (True, 2, "soak")
    assert result["injections"] >= 2
    assert result["stuck"] == 0
    for name, one in result["per_fault"].items():
        assert one["recovered"] == one["n"], (name, one, again.stdout)
    assert result["streams"]["camera"]["samples"] > 0
    assert result["servo_c"] == [35.0, 35.0]
    assert not journal.exists()
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_summary_of_nothing_says_so():
    result = summary([], 3600.0)
    assert result["complete"] is False
    assert "too short" in table(result)
