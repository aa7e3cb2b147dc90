"""The protocol of Feetech's STS servos: registers, packets, and replies taken out of a stream of bytes.

A packet is FF FF, id, length (of what follows), instruction or error, parameters, checksum (inverted sum of all after
the header). Numbers of two bytes have their low byte first; signed ones are sign and magnitude, not two's complement.

Source: Feetech, "FT-SCS protocol" and "SMS/STS memory table"; the register addresses agree with lerobot's
motors/feetech/tables.py (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag

from tether.errors import Fault, InvalidInputError

STEPS_PER_TURN = 4096
MODEL_STS3215 = 777
BROADCAST = 0xFE
HEADER = b"\xff\xff"
MAX_ID = 0xFD
_OVERHEAD = 6
"""Bytes of a packet beside its parameters."""


class Instruction(IntEnum):
    """What a packet asks for."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83


class ErrorBit(IntFlag):
    """The error byte of a reply: what the servo has against its state, not against the packet."""

    VOLTAGE = 0x01
    SENSOR = 0x02
    TEMPERATURE = 0x04
    CURRENT = 0x08
    OVERLOAD = 0x20


class Register(Enum):
    """Registers: address, bytes, and the bit that carries the sign (None: unsigned)."""

    MODEL = (3, 2, None)
    ID = (5, 1, None)
    RETURN_DELAY = (7, 1, None)
    MIN_POSITION = (9, 2, None)
    MAX_POSITION = (11, 2, None)
    MAX_TEMPERATURE = (13, 1, None)
    MAX_TORQUE = (16, 2, None)
    PHASE = (18, 1, None)
    HOMING_OFFSET = (31, 2, 11)
    OPERATING_MODE = (33, 1, None)
    TORQUE_ENABLE = (40, 1, None)
    ACCELERATION = (41, 1, None)
    GOAL_POSITION = (42, 2, 15)
    GOAL_VELOCITY = (46, 2, 15)
    TORQUE_LIMIT = (48, 2, None)
    LOCK = (55, 1, None)
    PRESENT_POSITION = (56, 2, 15)
    PRESENT_VELOCITY = (58, 2, 15)
    PRESENT_LOAD = (60, 2, 10)
    PRESENT_VOLTAGE = (62, 1, None)
    PRESENT_TEMPERATURE = (63, 1, None)
    STATUS = (65, 1, None)
    MOVING = (66, 1, None)
    PRESENT_CURRENT = (69, 2, 15)

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self.value[0])

    @property
    def size(self) -> int:
        """Bytes, 1 or 2."""
        return int(self.value[1])

    @property
    def _sign_bit(self) -> int | None:
        sign_bit: int | None = self.value[2]
        return sign_bit

    def encode(self, number: int) -> bytes:
        """The register's bytes; ValueError for a number that does not fit."""
        sign_bit = self._sign_bit
        top = 1 << (8 * self.size if sign_bit is None else sign_bit)
        if not (-top < number < top) or (number < 0 and sign_bit is None):
            raise ValueError(f"{self.name}: {number}, expected {'below' if sign_bit is None else 'a size below'} {top}")
        raw = -number | (1 << sign_bit) if number < 0 and sign_bit is not None else number
        return raw.to_bytes(self.size, "little")

    def decode(self, data: bytes | bytearray, at: int = 0) -> int:
        """The number in `data`, whose byte 0 is that of address `at`."""
        start = self.address - at
        raw = int.from_bytes(data[start : start + self.size], "little")
        sign_bit = self._sign_bit
        if sign_bit is None or not raw >> sign_bit & 1:
            return raw
        return -(raw & ((1 << sign_bit) - 1))


class OperatingMode(IntEnum):
    """What a goal is."""

    POSITION = 0
    VELOCITY = 1


@dataclass(frozen=True)
class Reply:
    """What one servo answered."""

    servo_id: int
    error: ErrorBit
    data: bytes


def packet(servo_id: int, code: int, parameters: bytes = b"") -> bytes:
    """An instruction, or (code: the error byte) a reply."""
    body = bytes([servo_id, len(parameters) + 2, code]) + parameters
    return HEADER + body + bytes([checksum(body)])


def checksum(body: bytes) -> int:
    """Of all bytes between header and checksum."""
    return ~sum(body) & 0xFF


def read_packet(servo_id: int, address: int, size: int) -> bytes:
    """Ask one servo for `size` bytes from `address` on."""
    return packet(servo_id, Instruction.READ, bytes([address, size]))


def sync_read_packet(ids: Sequence[int], address: int, size: int) -> bytes:
    """Ask several servos at once; they answer one after the other in the order of `ids`."""
    _require_ids(ids)
    return packet(BROADCAST, Instruction.SYNC_READ, bytes([address, size, *ids]))


def sync_write_packet(address: int, data: Mapping[int, bytes]) -> bytes:
    """Write to several servos at once, each its own bytes; nobody answers."""
    _require_ids(list(data))
    sizes = {len(part) for part in data.values()}
    if len(sizes) != 1:
        raise InvalidInputError("sync write", [Fault("sizes", f"{sorted(sizes)}", "one size for all servos")])
    rows = b"".join(bytes([servo_id]) + part for servo_id, part in data.items())
    return packet(BROADCAST, Instruction.SYNC_WRITE, bytes([address, sizes.pop()]) + rows)


def reply_size(data_size: int) -> int:
    """Bytes on the wire of a reply with so many bytes of data."""
    return _OVERHEAD + data_size


class Deframer:
    """Takes packets out of a stream in which bytes may be missing, wrong or nobody's."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.checksum_errors = 0
        self.stray_bytes = 0

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Packets that are complete with `data`: (id, instruction or error byte, parameters)."""
        self._buffer += data
        found = []
        while (item := self._next()) is not None:
            found.append(item)
        return found

    def clear(self) -> None:
        """Forget half a packet: what comes now belongs to the next request."""
        self.stray_bytes += len(self._buffer)
        self._buffer.clear()

    def _next(self) -> tuple[int, int, bytes] | None:
        buffer = self._buffer
        while True:
            start = buffer.find(HEADER)
            if start < 0:
                start = len(buffer) - (buffer[-1:] == b"\xff")
            self.stray_bytes += start
            del buffer[:start]
            if len(buffer) < 4:
                return None
            servo_id, length = buffer[2], buffer[3]
            if servo_id > BROADCAST or length < 2:
                self.stray_bytes += 1  # a third FF, or no length that a packet can have: the header is further on
                del buffer[:1]
                continue
            if len(buffer) < 4 + length:
                return None
            body, given = bytes(buffer[2 : 3 + length]), buffer[3 + length]
            if checksum(body) != given:
                # The header may have been an accident of the data; look for the next from the following byte on.
                self.checksum_errors += 1
                del buffer[:2]
                continue
            del buffer[: 4 + length]
            return servo_id, body[2], body[3:]


def _require_ids(ids: Sequence[int]) -> None:
    wrong = [servo_id for servo_id in ids if not 0 <= servo_id <= MAX_ID]
    if wrong or not ids or len(set(ids)) != len(ids):
        fault = Fault("ids", f"{list(ids)}", f"at least one, each once, within [0, {MAX_ID}]")
        raise InvalidInputError("servo packet", [fault])
