"""`tether doctor` as a command."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tether.doctor import cli
from tether.doctor.finding import Finding, Status, ok
from tether.world import gl

WRONG = Finding("disk", Status.FAIL, "0.1 GiB free", "2 GiB free", "remove old recordings")


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    return parser.parse_args(["doctor", *words])


def test_exit_status_is_1_only_when_something_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    args = parse("--only", "hardware")
    monkeypatch.setitem(cli.GROUPS, "hardware", (lambda machine: [WRONG],))
    assert args.run(args) == 1
    warning = Finding("disk", Status.WARN, "1 GiB free", "2 GiB free", "remove old recordings")
    monkeypatch.setitem(cli.GROUPS, "hardware", (lambda machine: [warning],))
    assert args.run(args) == 0
    assert "fix: remove old recordings" in capsys.readouterr().out


def test_json_holds_what_the_table_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(cli.GROUPS, "hardware", (lambda machine: [WRONG, ok("memory", "8 GiB", "2 GiB")],))
    out = tmp_path / "sub/doctor.json"
    args = parse("--only", "hardware", "--json", str(out))
    args.run(args)
    result = json.loads(out.read_text())
    assert result["tool"] == "doctor"
    assert result["counts"] == {"ok": 1, "warn": 0, "fail": 1}
    assert result["findings"][0] == {
        "group": "hardware",
        "name": "disk",
        "status": "fail",
        "found": "0.1 GiB free",
        "expected": "2 GiB free",
        "fix": "remove old recordings",
    }


def test_quiet_table_leaves_out_what_is_fine() -> None:
    text = cli.as_table({"hardware": [WRONG, ok("memory", "8 GiB", "2 GiB")]}, 100, quiet=True)
    assert "memory" not in text
    assert text.endswith("1 ok, 0 warn, 1 fail\n")


@pytest.mark.parametrize("width", [40, 80, 110])
def test_a_fix_can_be_copied_from_the_table_as_it_stands(width: int) -> None:
    fix = "sudo mount --mkdir -t tmpfs -o mode=1777,size=256m tmpfs /dev/shm"
    missing = Finding("shared memory", Status.WARN, "no /dev/shm: images go through UDP", "/dev/shm with room", fix)
    lines = cli.as_table({"ros": [missing]}, width).splitlines()
    assert [line.strip() for line in lines if "fix:" in line] == [f"fix: {fix}"]


def test_finding_that_is_wrong_must_carry_a_fix() -> None:
    with pytest.raises(ValueError, match="with fix ''"):
        Finding("x", Status.FAIL, "a", "b")


def test_doctor_runs_where_nothing_of_ros_can_be_imported(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class NoRos:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('rclpy', 'ament_index_python', 'tether_msgs'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoRos())\n"
        "import argparse\n"
        "from tether.doctor import cli\n"
        "parser = argparse.ArgumentParser()\n"
        "cli.add_parser(parser.add_subparsers())\n"
        "args = parser.parse_args(['doctor', '--only', 'hardware', '--only', 'devices'])\n"
        "sys.exit(args.run(args))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    assert "memory" in done.stdout


def test_gl_reports_a_way_that_cannot_draw_instead_of_dying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gl, "DRAW", "raise RuntimeError('no display device')")
    fault = gl.try_backend("egl")
    assert fault is not None
    assert "no display device" in fault


def test_gl_survives_a_library_that_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gl, "DRAW", "import os; os.abort()")
    fault = gl.try_backend("osmesa")
    assert fault is not None
    assert "-6" in fault
