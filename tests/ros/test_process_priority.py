"""Who goes first: a process all of whose nodes ask for a real-time class gets it, DDS's threads with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros

CODE = """
import os, sys
from tether_ros.process import run
from tether_bringup.recorder import RecorderNode

class First(RecorderNode):
    realtime_priority = 20
    niceness = -1

class Other(RecorderNode):
    niceness = 0

class Look(First if sys.argv.pop() == "first" else Other):
    @property
    def finished(self):
        threads = [int(name) for name in os.listdir("/proc/self/task")]
        print(sorted({os.sched_getscheduler(thread) for thread in threads}), len(threads))
        return True

    finished = finished.setter(lambda self, value: None)

sys.exit(run([Look]))
"""


def may_go_first() -> bool:
    code = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def schedulers(domain: int, which: str, *wrapper: str) -> tuple[str, int]:
    env = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
    done = subprocess.run(
        [*wrapper, sys.executable, "-c", CODE, "--ros-args", "-p", "mode:=realtime", "--", which],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said, threads = done.stdout.splitlines()[0].rsplit(" ", 1)
    return said, int(threads)


@pytest.mark.skipif(not may_go_first(), reason="this login may not use SCHED_RR")
def test_every_thread_of_a_process_that_asks_for_it_runs_before_all_ordinary_ones(domain: int) -> None:
    said, threads = schedulers(domain, "first")
    assert said == str([os.SCHED_RR])
    assert threads > 1, "DDS has threads of its own"


def test_process_that_does_not_ask_is_an_ordinary_one(domain: int) -> None:
    assert schedulers(domain, "other")[0] == str([os.SCHED_OTHER])


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to take the right away")
def test_who_may_not_go_first_runs_all_the_same(domain: int) -> None:
    denied = ("prlimit", "--rtprio=0", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-all")
    assert schedulers(domain, "first", *denied)[0] == str([os.SCHED_OTHER])
