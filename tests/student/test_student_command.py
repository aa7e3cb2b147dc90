"""`tether train student`: one command from nothing to models with manifests; the same command again changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from student_tools import short_task

from tether.assembly import policy_kit, skills
from tether.cli import main
from tether.models.manifest import read_manifest
from tether.student.models import open_fusion, open_policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_one_command_trains_a_student_from_nothing_in_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["train", "student", "--out", str(out), "--task", str(short_task(tmp_path))]
    words += ["--rounds", "2", "--episodes", "1", "1", "--steps", "2", "1"]
    assert main(words) == 0
    last = out / "round-1"
    assert f"student@{last}" in capsys.readouterr().out
    manifest = read_manifest(last / "fusion")
    assert manifest.trained_on["teacher"] == "scripted" and manifest.version == "round-1.1"
    open_fusion(last / "fusion", skills().sha256)
    open_policy(last / "policy", skills().sha256)
    assert not policy_kit(f"student@{last}").is_oracle
    shards = sorted(out.glob("round-*/episodes/*.npz"))
    kept = [(path, path.stat().st_mtime_ns) for path in (*shards, *sorted(out.glob("round-*/checkpoint.pt")))]
    assert len(kept) == 4
    assert main(words) == 0
    assert [(path, path.stat().st_mtime_ns) for path, _ in kept] == kept
