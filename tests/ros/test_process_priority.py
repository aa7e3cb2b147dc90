"""Who goes first: a process all of whose nodes ask for a real-time class gets it, DDS's threads with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from tether_agent.skill_policy import SkillPolicyNode
from tether_fusion.fusion import FusionNode
from tether_ingest.camera_ingest import CameraIngestNode
from tether_ingest.imu_ingest import ImuIngestNode
from tether_motion.primitive_executor import PrimitiveExecutorNode
from tether_opd.opd_bridge import OpdBridgeNode
from tether_policy.policy import PolicyNode
from tether_safety.safety_supervisor import SafetySupervisorNode
from tether_world.world import WorldNode

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

class Hears(RecorderNode):
    hearing_priority = 10

class Look({"first": First, "hears": Hears, "other": Other}[sys.argv.pop()]):
    @property
    def finished(self):
        threads = [int(name) for name in os.listdir("/proc/self/task")]
        others = sorted({os.sched_getscheduler(thread) for thread in threads if thread != os.getpid()})
        print(os.sched_getscheduler(0), others, len(threads))
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
    assert said == f"{os.SCHED_RR} [{os.SCHED_RR}]"
    assert threads > 1, "DDS has threads of its own"


@pytest.mark.skipif(not may_go_first(), reason="this login may not use SCHED_RR")
def test_who_works_long_is_an_ordinary_process_whose_receiving_threads_go_first(domain: int) -> None:
    assert schedulers(domain, "hears")[0] == f"{os.SCHED_OTHER} [{os.SCHED_RR}]"


def test_stages_from_the_state_to_the_command_go_before_what_is_ordinary_and_the_gate_before_them() -> None:
    stages = (FusionNode, PolicyNode, SkillPolicyNode, OpdBridgeNode, PrimitiveExecutorNode, ImuIngestNode)
    (priority,) = {stage.realtime_priority for stage in stages}
    assert 0 < priority < SafetySupervisorNode.realtime_priority
    assert WorldNode.realtime_priority == CameraIngestNode.realtime_priority == 0, "their work is long"
    assert WorldNode.hearing_priority > 0


def test_process_that_does_not_ask_is_an_ordinary_one(domain: int) -> None:
    assert schedulers(domain, "other")[0] == f"{os.SCHED_OTHER} [{os.SCHED_OTHER}]"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to take the right away")
def test_who_may_not_go_first_runs_all_the_same(domain: int) -> None:
    denied = ("prlimit", "--rtprio=0", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-all")
    assert schedulers(domain, "first", *denied)[0] == f"{os.SCHED_OTHER} [{os.SCHED_OTHER}]"
