"""Reading of short launch files, whose node is `pkg`'s `node`."""

from __future__ import annotations

import pytest

from tether.launch import LaunchFileError, LaunchPlan, read


def plan_of(prefix, body: str, **arguments: str) -> LaunchPlan:
    prefix.add("pkg", "node")
    return read(prefix.launch_file(body), arguments, prefix.env)


def faults_of(prefix, body: str, **arguments: str) -> list[tuple[int, str]]:
    """Line and message of each fault."""
    with pytest.raises(LaunchFileError) as raised:
        plan_of(prefix, body, **arguments)
    return [(fault.line, fault.message) for fault in raised.value.faults]
