"""The bytes of Feetech's protocol, without a port."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.errors import InvalidInputError
from tether.hardware.feetech import (
    Deframer,
    ErrorBit,
    Instruction,
    Register,
    packet,
    read_packet,
    sync_read_packet,
    sync_write_packet,
)


def test_packets_are_the_ones_of_the_manual():
    # SMS/STS protocol manual: ping of servo 1, read of its position, and sync write of two goals
    assert packet(1, Instruction.PING).hex() == "ffff010201fb"
    assert read_packet(1, 0x38, 2).hex() == "ffff0104023802be"
    written = sync_write_packet(0x2A, {1: bytes.fromhex("0008"), 2: bytes.fromhex("0008")})
    assert (
        written.hex() == "fffffe0a832a02010008020008" + f"{~(0xFE + 0x0A + 0x83 + 0x2A + 2 + 1 + 8 + 2 + 8) & 255:02x}"
    )
    assert (
        sync_read_packet([1, 2], 0x38, 8).hex()
        == "fffffe0682380801023a"[:-2] + f"{~(0xFE + 6 + 0x82 + 0x38 + 8 + 3) & 255:02x}"
    )


@pytest.mark.parametrize(
    ("register", "number", "raw"),
    [
        (Register.PRESENT_POSITION, -1, "0180"),
        (Register.PRESENT_POSITION, 4095, "ff0f"),
        (Register.GOAL_VELOCITY, -3000, "b88b"),
        (Register.PRESENT_LOAD, -100, "6404"),
        (Register.HOMING_OFFSET, -2047, "ff0f"),
        (Register.TORQUE_ENABLE, 1, "01"),
    ],
)
def test_signed_numbers_are_sign_and_magnitude(register: Register, number: int, raw: str):
    assert register.encode(number).hex() == raw
    assert register.decode(bytes(register.address) + bytes.fromhex(raw)) == number


def test_a_number_that_does_not_fit_its_register_is_refused():
    for register, number in ((Register.HOMING_OFFSET, 2048), (Register.TORQUE_LIMIT, -1), (Register.ID, 256)):
        with pytest.raises(ValueError, match=register.name):
            register.encode(number)


def test_the_same_id_twice_is_refused():
    with pytest.raises(InvalidInputError, match="each once"):
        sync_read_packet([1, 1], 56, 2)


@given(
    st.lists(st.tuples(st.integers(0, 253), st.integers(0, 255), st.binary(max_size=20)), min_size=1, max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=20),
)
def test_packets_come_out_whole_however_the_bytes_are_cut(packets, cuts):
    stream = b"".join(packet(*p) for p in packets)
    deframer, found, at = Deframer(), [], 0
    while at < len(stream):
        cut = cuts[at % len(cuts)]
        found += deframer.feed(stream[at : at + cut])
        at += cut
    assert found == packets
    assert deframer.checksum_errors == deframer.stray_bytes == 0


def test_a_reply_with_a_wrong_checksum_is_left_out_and_the_next_one_is_found():
    good, bad = packet(2, 0, b"\x00\x08"), bytearray(packet(1, 0, b"\x10\x20"))
    bad[5] ^= 0x01
    deframer = Deframer()
    assert deframer.feed(b"\x00\xff" + bytes(bad) + good) == [(2, 0, b"\x00\x08")]
    assert deframer.checksum_errors == 1


@given(st.binary(max_size=200))
def test_noise_never_hides_the_packet_behind_it_for_longer_than_a_packet(noise: bytes):
    deframer = Deframer()
    deframer.feed(noise)
    found = []
    for _ in range(300):  # a packet that noise announces can be 255 bytes long
        found += deframer.feed(packet(7, int(ErrorBit.OVERLOAD), b"\x01"))
    assert found[-1] == (7, 0x20, b"\x01")
