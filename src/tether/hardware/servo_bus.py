"""The servo bus: requests and their replies, each with a deadline. Half duplex, one master, never two requests at once.

A reply that is wrong or missing is counted and left out; the caller gets what is right. Only a port that has gone is
an error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tether.hardware.feetech import (
    Deframer,
    ErrorBit,
    Instruction,
    Register,
    Reply,
    packet,
    read_packet,
    reply_size,
    sync_read_packet,
    sync_write_packet,
)
from tether.hardware.serial_port import Port

BITS_PER_BYTE = 10
"""Start bit, eight data bits, stop bit."""
_QUIET_S = 0.006
"""A line that was silent for longer owes nothing any more: twice what nine servos take to answer."""


@dataclass
class BusCounts:
    """What happened on the bus since it was opened."""

    requests: int = 0
    replies: int = 0
    missing: int = 0
    checksum_errors: int = 0
    stray_bytes: int = 0


class ServoBus:
    """Requests on one port, whose adapter does not echo. Not for more than one thread at a time."""

    def __init__(self, port: Port, baud: int = 1_000_000, margin_s: float = 0.005) -> None:
        """margin_s: what adapter, kernel and servos may take on top of the time that the bytes spend on the wire."""
        self._port = port
        self._byte_s = BITS_PER_BYTE / baud
        self._margin_s = margin_s
        self._deframer = Deframer()
        self._owed = False
        self.counts = BusCounts()

    def ping(self, servo_id: int) -> Reply | None:
        """Whether a servo is there, and its state."""
        return self._ask(packet(servo_id, Instruction.PING), [servo_id], 0).get(servo_id)

    def read(self, servo_id: int, register: Register) -> int | None:
        """A register of one servo; None where no right reply came."""
        request = read_packet(servo_id, register.address, register.size)
        reply = self._ask(request, [servo_id], register.size).get(servo_id)
        return None if reply is None else register.decode(reply.data, register.address)

    def write(self, servo_id: int, register: Register, number: int) -> Reply | None:
        """Write a register of one servo; None where it was not acknowledged."""
        parameters = bytes([register.address]) + register.encode(number)
        return self._ask(packet(servo_id, Instruction.WRITE, parameters), [servo_id], 0).get(servo_id)

    def sync_read(self, ids: Sequence[int], address: int, size: int) -> dict[int, Reply]:
        """`size` bytes from `address` on of each servo that answered rightly and in time."""
        return self._ask(sync_read_packet(ids, address, size), ids, size)

    def sync_write(self, register: Register, numbers: Mapping[int, int]) -> None:
        """Write a register of several servos; nobody acknowledges."""
        self._port.write(sync_write_packet(register.address, {i: register.encode(n) for i, n in numbers.items()}))
        self.counts.requests += 1

    def fileno(self) -> int:
        """The open port."""
        return self._port.fileno()

    def close(self) -> None:
        """Give the port up."""
        self._port.close()

    def _ask(self, request: bytes, ids: Sequence[int], size: int) -> dict[int, Reply]:
        """Send, and collect replies until the last servo's has come or the deadline is over.

        Servos answer in the order in which they were asked: once the last has, those that have not will not. Replies
        bear no number. So where the last one did not come, the line is given time to fall silent before the next
        request, and what comes sooner than the wire allows is not taken for its answer. That is counted from before the
        write: a servo may have answered before this process runs again.
        """
        counts, deframer = self.counts, self._deframer
        counts.stray_bytes += self._port.discard() + (self._drain() if self._owed else 0)
        deframer.clear()
        earliest_s = time.monotonic() + (len(request) + reply_size(size)) * self._byte_s
        self._port.write(request)
        counts.requests += 1
        wire_s = (len(request) + len(ids) * reply_size(size)) * self._byte_s
        deadline_s = time.monotonic() + wire_s + self._margin_s
        replies: dict[int, Reply] = {}
        while ids[-1] not in replies and len(replies) < len(ids):
            data = self._port.read(deadline_s)
            if not data:
                break
            in_time = time.monotonic() >= earliest_s
            for servo_id, error, parameters in deframer.feed(data):
                if in_time and servo_id in ids and len(parameters) == size:
                    replies[servo_id] = Reply(servo_id, ErrorBit(error), parameters)
        self._owed = ids[-1] not in replies
        counts.replies += len(replies)
        counts.missing += len(ids) - len(replies)
        counts.checksum_errors, deframer.checksum_errors = counts.checksum_errors + deframer.checksum_errors, 0
        counts.stray_bytes, deframer.stray_bytes = counts.stray_bytes + deframer.stray_bytes, 0
        return replies

    def _drain(self) -> int:
        """Throw away what comes until nothing has for a while; the number of bytes."""
        count = 0
        end_s = time.monotonic() + max(self._margin_s, 0.0) + _QUIET_S
        while data := self._port.read(min(time.monotonic() + _QUIET_S, end_s)):
            count += len(data)
        return count
