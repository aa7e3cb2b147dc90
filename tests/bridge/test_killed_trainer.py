"""The trainer is killed with SIGKILL, again and again, while the student runs: the robot's decisions know nothing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bridge_episodes import ticks

from tether.assembly import make_pair_stage, policy_kit, skills
from tether.bridge.arbiter import Arbitration
from tether.bridge.guard import GuardConfig, VersionGuard
from tether.bridge.pairs import PairStage
from tether.bridge.spool import SpoolConfig, SpoolWriter, shards_in
from tether.bridge.student_switch import student_switch
from tether.bridge.swap import SwapKind, VersionWatcher
from tether.bridge.versions import versions_in
from tether.student.models import open_policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PATIENCE_S = 150.0
SPOOL = SpoolConfig(pairs_per_shard=20, shards_max=8)


def decisions_of(policy: str, pairs: PairStage | None) -> list[tuple[object, ...]]:
    """Everything that a decision says, of the first 1.2 s of an episode."""
    run = ticks(Arbitration.STUDENT_ALONE, lambda state: state, policy=policy, pairs=pairs, ticks_max=120)
    decided = [trace.decision for _, trace in run if trace is not None and trace.decision is not None]
    return [
        (d.action.primitive, d.action.params.tobytes(), d.state_hash, d.reason, d.used, tuple(d.age_ns.items()))
        for d in decided
    ]


class Trainers:
    """Trainers of their own processes, one after the other."""

    def __init__(self, student: Path, folder: Path) -> None:
        self.spool, self.versions = folder / "spool", folder / "versions"
        self._command = [
            *(sys.executable, "-m", "tether.bridge.cli", "--student", f"student@{student}"),
            *("--spool", str(self.spool), "--versions", str(self.versions)),
            *("--least", "20", "--batch", "16", "--publish-every", "10"),
        ]
        self._log = folder / "trainer.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def published(self) -> int:
        """Number of the newest version; 0 where there is none. The trainer must not have ended by itself."""
        if self.process is not None:
            assert self.process.poll() is None, self._log.read_text()
        return versions_in(self.versions)[-1][0] if versions_in(self.versions) else 0


def until(what: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, f"nothing happened within {PATIENCE_S:g} s"
        meanwhile()


def test_robot_decides_the_same_whenever_its_trainer_is_killed(tiny_student: Path, tmp_path: Path) -> None:
    policy = f"student@{tiny_student}"
    expected = decisions_of(policy, None)
    trainers = Trainers(tiny_student, tmp_path)
    spool = SpoolWriter(trainers.spool, SPOOL)
    rng = random.Random(5)

    def run_and_compare() -> None:
        assert decisions_of(policy, make_pair_stage(spool.put)) == expected
        assert len(shards_in(trainers.spool)) <= SPOOL.shards_max

    try:
        for _ in range(2):
            before = trainers.published()
            trainers.start()
            until(lambda n=before: trainers.published() > n, run_and_compare)
            time.sleep(rng.uniform(0.0, 0.2))
            trainers.kill()
            for _, folder in versions_in(trainers.versions):
                open_policy(folder, skills().sha256)
        run_and_compare()
    finally:
        trainers.kill()
        spool.close()


def test_student_takes_the_versions_of_a_living_trainer_between_decisions(tiny_student: Path, tmp_path: Path) -> None:
    name = f"student@{tiny_student}"
    trainers = Trainers(tiny_student, tmp_path)
    spool = SpoolWriter(trainers.spool, SPOOL)
    switch = student_switch(
        name, policy_kit(name).make(), skills().sha256, VersionGuard(GuardConfig(decisions=20, least_decisions=10))
    )
    first = switch.running.sha256
    watcher = VersionWatcher(trainers.versions, switch, period_s=0.05)
    watcher.start()
    happened: list[SwapKind] = []

    def run() -> None:
        decisions_of(name, make_pair_stage(spool.put))
        for _ in range(20):
            event = switch.before_decision()
            if event is not None:
                happened.append(event.kind)
            switch.saw(0.05)

    try:
        trainers.start()
        until(lambda: SwapKind.SWAPPED in happened, run)
        trainers.kill()
        taken = switch.running.sha256
        assert taken != first
        for _ in range(10):  # the trainer is gone, and the version does worse: back to what is in memory
            switch.saw(5.0)
        event = switch.before_decision()
        assert event is not None
        assert event.kind is SwapKind.ROLLED_BACK
        assert switch.running.sha256 == first
    finally:
        watcher.stop()
        trainers.kill()
        spool.close()
