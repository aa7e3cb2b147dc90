"""One environment for all tests of a run: Isaac Lab has one simulation a process, and starting it takes a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tether_isaac.env import PickEnv
from tether_isaac.env_cfg import pick_cfg

NUM_ENVS = 2


@pytest.fixture(scope="session")
def env() -> Iterator[PickEnv]:
    """`pick` in the profile that teachers learn in, two environments, on the CPU."""
    made = PickEnv(pick_cfg("pick", "ideal_lagged", num_envs=NUM_ENVS, device="cpu"))
    yield made
    made.close()
