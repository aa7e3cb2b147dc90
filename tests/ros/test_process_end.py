"""When a process of the graph ends: its work done, a node failed, or interrupted and the manager had its time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tether_ros.process import GRACE_S, _done

pytestmark = pytest.mark.ros


def node(finished: bool = False, exit_status: int = 0, active: bool = True) -> Any:
    return SimpleNamespace(finished=finished, exit_status=exit_status, active=active)


def test_process_ends_once_all_its_nodes_have_finished() -> None:
    assert not _done([node(), node(finished=True)], [])
    assert _done([node(finished=True), node(finished=True)], [])


def test_first_node_that_fails_ends_those_that_share_its_process() -> None:
    assert _done([node(), node(finished=True, exit_status=1)], [])


def test_interrupted_process_waits_for_the_manager_and_no_longer_than_its_grace() -> None:
    now_s = time.monotonic()
    assert not _done([node()], [now_s])
    assert _done([node()], [now_s - GRACE_S - 0.1])


def test_interrupted_process_whose_nodes_are_down_or_that_is_interrupted_again_ends_at_once() -> None:
    now_s = time.monotonic()
    assert _done([node(active=False)], [now_s])
    assert _done([node()], [now_s, now_s])


def test_process_that_has_done_its_work_is_not_killed_by_a_signal_while_its_interpreter_ends(domain: int) -> None:
    code = """
import signal, sys
from tether_ros.process import run
from tether_bringup.recorder import RecorderNode

class Done(RecorderNode):
    finished = True

status = run([Done])
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN and signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
sys.exit(status)
"""
    env = {**os.environ, "ROS_DOMAIN_ID": str(domain)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
