"""Emulated STS3215 servos on a pseudo terminal: real packets through the kernel's tty layer, at the wire's pace.

What the servos do with their goals is the business of a plant: `LagPlant` here, the MuJoCo world elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import tty
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tether.hardware.feetech import (
    BROADCAST,
    MODEL_STS3215,
    STEPS_PER_TURN,
    Deframer,
    ErrorBit,
    Instruction,
    OperatingMode,
    Register,
    packet,
)
from tether.hardware.servo_bus import BITS_PER_BYTE

_MEMORY = 128
_EEPROM_END = 40
_POLL_S = 0.1
CENTRE = STEPS_PER_TURN // 2


class EmulatedServo:
    """Memory of one servo, and how it takes writes. At an overload it lets go by itself, as the real one does."""

    def __init__(self, servo_id: int, position: int = CENTRE) -> None:
        self.memory = bytearray(_MEMORY)
        self.error = ErrorBit(0)
        self.set(Register.MODEL, MODEL_STS3215)
        self.set(Register.ID, servo_id)
        self.set(Register.RETURN_DELAY, 250)
        self.set(Register.MAX_POSITION, STEPS_PER_TURN - 1)
        self.set(Register.MAX_TEMPERATURE, 70)
        self.set(Register.MAX_TORQUE, 1000)
        self.set(Register.TORQUE_LIMIT, 1000)
        self.set(Register.LOCK, 1)
        self.set(Register.PRESENT_VOLTAGE, 120)
        self.set(Register.PRESENT_TEMPERATURE, 35)
        self.set(Register.PRESENT_POSITION, position)
        self.set(Register.GOAL_POSITION, position)

    def get(self, register: Register) -> int:
        """A register's number."""
        return register.decode(self.memory)

    def set(self, register: Register, number: int) -> None:
        """Set a register, as the servo's own firmware does."""
        self.memory[register.address : register.address + register.size] = register.encode(number)

    def write(self, address: int, data: bytes) -> None:
        """A write over the bus. A locked servo keeps its settings; torque switched on holds where the servo is."""
        if address < _EEPROM_END and self.get(Register.LOCK):
            return
        self.memory[address : address + len(data)] = data
        del self.memory[_MEMORY:]
        if address <= Register.TORQUE_ENABLE.address < address + len(data) and self.error & ErrorBit.OVERLOAD:
            self.set(Register.TORQUE_ENABLE, 0)

    def overload(self) -> None:
        """What a blocked servo does: it reports an overload and lets go, until its power was cut."""
        self.error |= ErrorBit.OVERLOAD
        self.set(Register.TORQUE_ENABLE, 0)

    def power_cycle(self) -> None:
        """Volatile memory starts anew."""
        self.error = ErrorBit(0)
        self.set(Register.TORQUE_ENABLE, 0)
        self.set(Register.GOAL_VELOCITY, 0)
        self.set(Register.LOCK, 1)
        self.set(Register.TORQUE_LIMIT, self.get(Register.MAX_TORQUE))
        self.set(Register.GOAL_POSITION, self.get(Register.PRESENT_POSITION))

    @property
    def torque(self) -> bool:
        """Whether it holds its goal."""
        return self.get(Register.TORQUE_ENABLE) == 1


@dataclass
class BusFaults:
    """What is wrong with the bus now. corrupt: every so many-th reply has a wrong checksum, 0 for none."""

    silent: set[int] = field(default_factory=set)
    mute: set[int] = field(default_factory=set)
    """These servos hear and do what they are told, and cannot be heard."""
    corrupt_every: int = 0
    wrapped: set[int] = field(default_factory=set)
    """These servos report positions one turn on, as one set to count turns does after it went over its end."""
    lose: dict[tuple[int, Register], int] = field(default_factory=dict)
    """So many replies to reads of a servo's register are lost; what was asked for is done all the same."""
    hold: bool = False
    """Replies stay in the adapter until `ServoBusEmulator.release`."""


class LagPlant:
    """Moves each servo towards its goal at `speed` steps a second; a velocity servo turns as it is told."""

    def __init__(self, speed: float = 3000.0) -> None:
        self._speed = speed
        self._at_s = time.monotonic()
        self._exact: dict[int, float] = {}

    def __call__(self, servos: Sequence[EmulatedServo]) -> None:
        """Bring the present registers up to now."""
        now_s = time.monotonic()
        step, self._at_s = now_s - self._at_s, now_s
        for servo in servos:
            key = servo.get(Register.ID)
            before = self._exact.get(key, float(servo.get(Register.PRESENT_POSITION)))
            after = before
            if servo.torque and servo.get(Register.OPERATING_MODE) == OperatingMode.VELOCITY:
                after = (before + servo.get(Register.GOAL_VELOCITY) * step) % STEPS_PER_TURN
                servo.set(Register.PRESENT_VELOCITY, servo.get(Register.GOAL_VELOCITY))
            elif servo.torque:
                wanted = servo.get(Register.GOAL_POSITION) - before
                after = before + max(-self._speed * step, min(self._speed * step, wanted))
                servo.set(Register.PRESENT_VELOCITY, round((after - before) / max(step, 1e-3)))
            self._exact[key] = after
            servo.set(Register.PRESENT_POSITION, round(after) % STEPS_PER_TURN)


class ServoBusEmulator:
    """Servos behind a pseudo terminal, whose name `path` points to. A thread of its own answers.

    lock: held while memory is read or written; a plant of another thread holds it, too.
    """

    def __init__(
        self,
        path: Path,
        servos: Sequence[EmulatedServo],
        plant: Callable[[Sequence[EmulatedServo]], None] | None = None,
        baud: int = 1_000_000,
    ) -> None:
        self.path = path
        self.servos = {servo.get(Register.ID): servo for servo in servos}
        self.faults = BusFaults()
        self.lock = threading.Lock()
        self.plugged = False
        self.last_write_s = -1.0
        self._plant = plant
        self._byte_s = BITS_PER_BYTE / baud
        self._replies = 0
        self._held = b""
        self._ended = threading.Event()
        self._fds: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ServoBusEmulator:
        self.plug()
        return self

    def __exit__(self, *exc: object) -> None:
        self.unplug()

    def plug(self) -> None:
        """The adapter appears, under the same name as ever."""
        master, slave = os.openpty()
        tty.setraw(slave)
        # Not the slave's own descriptor: as long as somebody held it, a hang-up would go unnoticed.
        name = os.ttyname(slave)
        self._fds = (master, slave)
        self._ended.clear()
        self.plugged = True
        temporary = self.path.with_name(self.path.name + ".new")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        temporary.symlink_to(name)
        os.replace(temporary, self.path)
        self._thread = threading.Thread(target=self._serve, name="servo bus emulator", daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """The adapter is gone, as when its plug is pulled: whoever has it open gets a hang-up."""
        self.plugged = False
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        if self._fds is not None:
            for fd in self._fds:
                os.close(fd)
            self._fds = None

    def power_cycle(self) -> None:
        """Cut the servos' power and give it back."""
        with self.lock:
            for servo in self.servos.values():
                servo.power_cycle()

    def release(self) -> None:
        """Send the replies that were held, late as they are, and hold no more."""
        with self.lock:
            held, self._held, self.faults.hold = self._held, b"", False
            if self._fds is not None:
                os.write(self._fds[0], held)

    def _serve(self) -> None:
        if self._fds is None:
            return
        master = self._fds[0]
        deframer = Deframer()
        while not self._ended.is_set():
            if not select.select([master], [], [], _POLL_S)[0]:
                continue
            try:
                data = os.read(master, 4096)
            except OSError:
                return
            came_s = time.monotonic()
            wire = 0
            for servo_id, code, parameters in deframer.feed(data):
                answer = self._answer(servo_id, code, parameters)
                wire += 6 + len(parameters) + len(answer)
                if answer:
                    self._send(master, answer, came_s + wire * self._byte_s)

    def _send(self, master: int, data: bytes, due_s: float) -> None:
        wait_s = due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        with self.lock, contextlib.suppress(OSError):
            if self.faults.hold:
                self._held += data
            else:
                os.write(master, data)

    def _answer(self, servo_id: int, code: int, parameters: bytes) -> bytes:
        with self.lock:
            if self._plant is not None:
                self._plant(list(self.servos.values()))
            if code == Instruction.SYNC_READ:
                return b"".join(self._reply(i, self._read(i, parameters[0], parameters[1])) for i in parameters[2:])
            if code == Instruction.SYNC_WRITE:
                self._sync_write(parameters)
                return b""
            if servo_id == BROADCAST or servo_id not in self.servos or servo_id in self.faults.silent:
                return b""
            if code == Instruction.READ:
                if self._lost(servo_id, parameters[0]):
                    return b""
                return self._reply(servo_id, self._read(servo_id, parameters[0], parameters[1]))
            if code == Instruction.WRITE:
                self.servos[servo_id].write(parameters[0], parameters[1:])
            return self._reply(servo_id, b"")

    def _lost(self, servo_id: int, address: int) -> bool:
        """Whether the reply to this read is one of those to lose."""
        for (who, register), left in self.faults.lose.items():
            if left and (who, register.address) == (servo_id, address):
                self.faults.lose[who, register] = left - 1
                return True
        return False

    def _sync_write(self, parameters: bytes) -> None:
        address, size = parameters[0], parameters[1]
        self.last_write_s = time.monotonic()
        for at in range(2, len(parameters), size + 1):
            servo = self.servos.get(parameters[at])
            if servo is not None and parameters[at] not in self.faults.silent:
                servo.write(address, parameters[at + 1 : at + 1 + size])

    def _read(self, servo_id: int, address: int, size: int) -> bytes | None:
        servo = self.servos.get(servo_id)
        if servo is None or servo_id in self.faults.silent:
            return None
        memory = bytes(servo.memory)
        if servo_id in self.faults.wrapped:
            at = Register.PRESENT_POSITION
            turned = at.encode(servo.get(at) + STEPS_PER_TURN)
            memory = memory[: at.address] + turned + memory[at.address + at.size :]
        return memory[address : address + size]

    def _reply(self, servo_id: int, data: bytes | None) -> bytes:
        if data is None or servo_id in self.faults.mute:
            return b""
        self._replies += 1
        raw = packet(servo_id, int(self.servos[servo_id].error), data)
        if self.faults.corrupt_every and self._replies % self.faults.corrupt_every == 0:
            raw = raw[:-1] + bytes([raw[-1] ^ 0x55])
        return raw
