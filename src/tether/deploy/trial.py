"""Tries a version before any motor hears of it: in a process of its own, with the trust and the state of a robot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tether.deploy.errors import DeployError, Reason
from tether.deploy.trust import scratch_state
from tether.resources import RESOURCES_VARIABLE
from tether.signing.files import STATE_VARIABLE
from tether.signing.policy import TRUST_VARIABLE, Trust

DEADLINE_S = 180.0


def try_version(folder: Path) -> None:
    """Start a process that loads a version as the robot would. Raises DeployError (UNHEALTHY, TIMEOUT)."""
    with scratch_state() as scratch:
        environ = {
            **os.environ,
            RESOURCES_VARIABLE: str(folder),
            TRUST_VARIABLE: Trust.PHYSICAL.value,
            STATE_VARIABLE: str(scratch),
        }
        command = [sys.executable, "-m", "tether.deploy.load"]
        try:
            done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        except subprocess.TimeoutExpired:
            text = f"loading {folder.name} took more than {DEADLINE_S:.0f} s"
            raise DeployError(Reason.TIMEOUT, text, "look for what is busy on the robot: `top`") from None
    if done.returncode != 0:
        text = (done.stderr.strip() or f"exit status {done.returncode}")[-4000:]
        raise DeployError(Reason.UNHEALTHY, text, "mend it here, then deploy again")
