"""Real worker processes: what they decide, and that nothing of them is left once they are killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tether.agent.workers import SkillRaisedError, Worker, WorkerLostError
from tether.contracts import Estimate, FusedState, JointSample, Primitive, SampleRef, SkillContext, Stream
from tether.robot.roles import COMMAND_JOINTS

BODIES = "tether.agent.bodies"


def state(opening_m: float = 0.044, stamp_ns: int = 2_000_000_000) -> FusedState:
    position = np.array([0.0, -1.75, 1.95, 1.37, 0.75, opening_m / 2])
    joints = JointSample(SampleRef(Stream.JOINTS, stamp_ns, 0), COMMAND_JOINTS, position, np.zeros(6))
    skill = SkillContext(0, "x", np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))
    empty = np.zeros((6, 0))
    boxes, features = np.zeros((0, 6), np.float32), np.zeros(0, np.float32)
    return FusedState(1, stamp_ns, (), {}, Estimate.none(stamp_ns), joints, empty, boxes, features, skill)


@pytest.fixture
def worker():
    with Worker() as made:
        yield made


def begin(worker: Worker, entry: str, folder: Path = Path("."), **parameters: float) -> None:
    worker.begin(entry, folder, parameters, keep=False, fresh=True, seed=0)


def test_a_worker_decides_as_its_skill_does(worker: Worker) -> None:
    begin(worker, f"{BODIES}:carry", x=0.2, y=-0.1)
    action = worker.decide(state(), 30.0)
    assert action.primitive is Primitive.REACH
    assert action.params[:2] == pytest.approx([0.2, -0.1])
    begin(worker, f"{BODIES}:find")
    assert worker.decide(state(), 30.0).primitive is Primitive.LOOK


def test_a_skill_that_raises_is_told_by_name_and_the_worker_lives(worker: Worker) -> None:
    with pytest.raises(SkillRaisedError, match="KeyError"):
        begin(worker, f"{BODIES}:carry")
    with pytest.raises(SkillRaisedError, match="no_such"):
        begin(worker, f"{BODIES}:no_such")
    begin(worker, f"{BODIES}:stand")
    assert worker.decide(state(), 30.0).primitive is Primitive.HOLD


def test_a_killed_worker_is_lost_by_name_and_gone(worker: Worker) -> None:
    begin(worker, f"{BODIES}:stand")
    os.kill(worker.pid, 9)
    with pytest.raises(WorkerLostError):
        worker.decide(state(), 30.0)
    assert not worker.alive
    assert not psutil.pid_exists(worker.pid)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


HANGS = """
import os, subprocess, sys, time
def make(parameters):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open({note!r}, "w") as file:
        file.write(str(child.pid))
    print("this must not get into the frames")
    class Hangs:
        def reset(self, seed): pass
        def decide(self, state, truth): time.sleep(600)
    return Hangs()
"""


def test_a_silent_worker_is_killed_with_all_that_it_started(tmp_path: Path, monkeypatch) -> None:
    note = tmp_path / "child"
    (tmp_path / "hanging_skill.py").write_text(HANGS.format(note=str(note)), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with Worker() as worker:
        begin(worker, "hanging_skill:make")
        child = int(note.read_text(encoding="utf-8"))
        assert psutil.pid_exists(child)
        with pytest.raises(WorkerLostError, match="silent"):
            worker.decide(state(), 0.2)
        until_s = time.monotonic() + 30.0
        while lives(child):
            assert time.monotonic() < until_s, "what the skill started lives on"
            time.sleep(0.01)


def test_a_skill_in_a_file_runs_only_where_signatures_are_asked_for(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text("def make(parameters): raise SystemExit\n", encoding="utf-8")
    monkeypatch.setenv("TETHER_TRUST", "any")
    with Worker() as worker, pytest.raises(SkillRaisedError, match="sign"):
        begin(worker, "mine.py:make", tmp_path)
    monkeypatch.setenv("TETHER_TRUST", "signed")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Worker() as worker, pytest.raises(SkillRaisedError, match="SignatureRefusedError"):
        begin(worker, "mine.py:make", tmp_path)
