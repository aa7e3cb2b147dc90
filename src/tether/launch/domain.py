"""A ROS domain that no other graph of this machine uses, so that two runs at once do not take each other's messages."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tether.errors import Fault, InvalidInputError

_FIRST, _LAST = 1, 101
"""Domains whose ports lie below the ephemeral ones on Linux (docs.ros.org, About the domain ID)."""


@contextmanager
def own_domain() -> Iterator[int]:
    """ROS_DOMAIN_ID where it is set, else the first domain that nobody else holds through this function.

    A domain is held by binding a name in the kernel's abstract socket space: it is free again when the process ends,
    however it ends, and leaves no file behind.
    """
    chosen = os.environ.get("ROS_DOMAIN_ID", "").strip()
    if chosen:
        yield domain_number(chosen)
        return
    for domain in range(_FIRST, _LAST + 1):
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0tether-ros-domain-{domain}")
        except OSError:
            holder.close()
            continue
        try:
            yield domain
        finally:
            holder.close()
        return
    fault = Fault("ROS domains", f"{_FIRST} to {_LAST} all in use", "a free one")
    raise InvalidInputError("graph", [fault], "set ROS_DOMAIN_ID or end other runs")


def domain_number(text: str, where: str = "ROS_DOMAIN_ID") -> int:
    """The number of a ROS domain; raises InvalidInputError, which names `where`, for any other text."""
    if text.isdecimal() and int(text) <= _LAST:
        return int(text)
    fault = Fault(where, repr(text), f"a whole number from 0 to {_LAST}; beyond, its ports are the system's")
    raise InvalidInputError("ROS domain", [fault], "set the domain right, or leave it out")
