"""Requests and replies over a pseudo terminal, with everything that goes wrong on a bus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tether.hardware.emulate.servos import EmulatedServo, LagPlant, ServoBusEmulator
from tether.hardware.feetech import ErrorBit, Register
from tether.hardware.serial_port import PortLostError, SerialPort
from tether.hardware.servo_bus import ServoBus

IDS = list(range(1, 10))
MARGIN_S = 2.0
"""A busy machine answers late; where an answer never comes, tests wait for this once."""


@contextmanager
def bus_of(path: Path) -> Iterator[tuple[ServoBus, ServoBusEmulator]]:
    with ServoBusEmulator(path, [EmulatedServo(i) for i in IDS]) as emulator:
        bus = ServoBus(SerialPort(path, 1_000_000), margin_s=MARGIN_S)
        try:
            yield bus, emulator
        finally:
            bus.close()


def test_nine_servos_answer_one_request(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        emulator.servos[4].set(Register.PRESENT_POSITION, -17)
        replies = bus.sync_read(IDS, Register.PRESENT_POSITION.address, 15)
        assert list(replies) == IDS
        positions = {i: Register.PRESENT_POSITION.decode(r.data, 56) for i, r in replies.items()}
        assert positions == {**dict.fromkeys(IDS, 2048), 4: -17}
        assert Register.PRESENT_VOLTAGE.decode(replies[1].data, 56) == 120
        assert (bus.counts.missing, bus.counts.checksum_errors, bus.counts.stray_bytes) == (0, 0, 0)


def test_goals_reach_each_servo(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        bus.sync_write(Register.GOAL_POSITION, {i: 1000 + i for i in IDS})
        assert bus.read(3, Register.GOAL_POSITION) == 1003
        assert [servo.get(Register.GOAL_POSITION) for servo in emulator.servos.values()] == [1000 + i for i in IDS]


def test_a_locked_servo_keeps_its_settings(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, _):
        bus.write(1, Register.RETURN_DELAY, 0)
        assert bus.read(1, Register.RETURN_DELAY) == 250
        bus.write(1, Register.LOCK, 0)
        bus.write(1, Register.RETURN_DELAY, 0)
        assert bus.read(1, Register.RETURN_DELAY) == 0


def test_a_silent_servo_costs_the_others_nothing(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        emulator.faults.silent.add(5)
        assert set(bus.sync_read(IDS, 56, 2)) == set(IDS) - {5}
        assert bus.counts.missing == 1
        assert bus.ping(6) is not None


def test_a_reply_with_a_wrong_checksum_is_left_out_and_counted(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        emulator.faults.corrupt_every = 4
        replies = bus.sync_read(IDS, 56, 15)
        assert set(replies) == set(IDS) - {4, 8}
        assert bus.counts.checksum_errors >= 2
        emulator.faults.corrupt_every = 0
        assert set(bus.sync_read(IDS, 56, 15)) == set(IDS)


def test_the_error_byte_comes_with_the_reply(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        emulator.servos[2].overload()
        reply = bus.ping(2)
        assert reply is not None
        assert reply.error is ErrorBit.OVERLOAD


def test_a_late_reply_is_not_taken_for_the_next_ones(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        port = bus._port
        port.write(b"\xff\xff\x01\x02\x01\xfb")  # a ping whose reply nobody waits for
        while not port.read(0.0):
            pass
        emulator.servos[1].set(Register.PRESENT_POSITION, 99)
        assert bus.read(1, Register.PRESENT_POSITION) == 99


def test_replies_that_come_after_their_deadline_are_not_the_next_requests(tmp_path: Path):
    with bus_of(tmp_path / "bus") as (bus, emulator):
        emulator.servos[9].set(Register.PRESENT_POSITION, 1)
        emulator.faults.hold = True
        bus._margin_s = 0.01
        assert bus.sync_read(IDS, 56, 15) == {}
        bus._margin_s = MARGIN_S
        emulator.release()
        emulator.servos[9].set(Register.PRESENT_POSITION, 2)
        assert bus.read(9, Register.PRESENT_POSITION) == 2
        replies = bus.sync_read(IDS, 56, 15)
        assert Register.PRESENT_POSITION.decode(replies[9].data, 56) == 2


def test_an_unplugged_adapter_is_an_error_of_its_own_and_comes_back_under_its_name(tmp_path: Path):
    path = tmp_path / "bus"
    with bus_of(path) as (bus, emulator):
        emulator.unplug()
        with pytest.raises(PortLostError, match=r"unplugged|hung up"):
            bus.sync_read(IDS, 56, 2)
        with pytest.raises(PortLostError, match="No such file"):
            SerialPort(path, 1_000_000)
        emulator.plug()
        again = ServoBus(SerialPort(path, 1_000_000), margin_s=MARGIN_S)
        assert set(again.sync_read(IDS, 56, 2)) == set(IDS)
        again.close()


def test_a_baud_rate_that_linux_does_not_name_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="expected one of"):
        SerialPort(tmp_path / "bus", 1_234_567)


def test_servos_move_to_their_goals_once_their_torque_is_on(tmp_path: Path):
    servos = [EmulatedServo(1), EmulatedServo(2)]
    with ServoBusEmulator(tmp_path / "bus", servos, LagPlant(speed=30_000.0)) as emulator:
        bus = ServoBus(SerialPort(emulator.path, 1_000_000), margin_s=MARGIN_S)
        bus.write(1, Register.TORQUE_ENABLE, 1)
        bus.sync_write(Register.GOAL_POSITION, {1: 3000, 2: 3000})
        deadline_s = time.monotonic() + 10.0
        while bus.read(1, Register.PRESENT_POSITION) != 3000:
            assert time.monotonic() < deadline_s
        assert bus.read(2, Register.PRESENT_POSITION) == 2048
        bus.close()
