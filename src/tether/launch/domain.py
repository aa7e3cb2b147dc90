"""A ROS domain that no other graph of this machine uses, so that two runs at once do not take each other's messages."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tether.brief import brief
from tether.errors import Fault, InvalidInputError

_POLL_S = 0.05
_FIRST, _LAST = 1, 101
"""Domains whose ports lie below the ephemeral ones on Linux (docs.ros.org, About the domain ID)."""


@contextmanager
def own_domain() -> Iterator[int]:
    """ROS_DOMAIN_ID where it is set, else the first domain that nobody else holds through this function.

    It is free again when the process ends, however it ends.
    """
    chosen = os.environ.get("ROS_DOMAIN_ID", "").strip()
    if chosen:
        yield domain_number(chosen)
        return
    for domain in range(_FIRST, _LAST + 1):
        holder = _hold(f"tether-ros-domain-{domain}")
        if holder is not None:
            with holder:
                yield domain
            return
    fault = Fault("ROS domains", f"{_FIRST} to {_LAST} all in use", "a free one")
    raise InvalidInputError("graph", [fault], "set ROS_DOMAIN_ID or end other runs")


def only_graph(domain: int, namespace: str, wait_s: float) -> socket.socket | None:
    """Hold the place of this machine's one graph in a ROS domain and namespace until the socket is closed.

    None where another graph still holds it after `wait_s`; one that is just ending lets it go.
    """
    until_s = time.monotonic() + wait_s
    while True:
        holder = _hold(f"tether-graph-{domain}-{namespace}")
        if holder is not None or time.monotonic() >= until_s:
            return holder
        time.sleep(_POLL_S)


def _hold(name: str) -> socket.socket | None:
    """Bind a name in the kernel's abstract socket space, which leaves no file behind; None where it is taken."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(f"\0{name}")
    except OSError:
        holder.close()
        return None
    return holder


def domain_number(text: str, where: str = "ROS_DOMAIN_ID") -> int:
    """The number of a ROS domain; raises InvalidInputError, which names `where`, for any other text."""
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) <= _LAST:
        return int(text)
    fault = Fault(where, brief(text), f"a whole number from 0 to {_LAST}; beyond, its ports are the system's")
    raise InvalidInputError("ROS domain", [fault], "set the domain right, or leave it out")
