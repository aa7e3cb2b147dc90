"""What stands for smbus2: `SMBus` and `i2c_msg` with the same face, whose bus is a socket with emulated devices behind.

`I2cServer` is the bus: it offers devices to other processes. Errors of a device travel as their errno, as the kernel's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tether.hardware.emulate.unix_socket import Listener

_ASK = struct.Struct("<BHH")
_ANSWER = struct.Struct("<hH")


class Device(Protocol):
    """A device on the bus."""

    def transfer(self, written: bytes, size: int) -> bytes:
        """Take `written`, then give `size` bytes, in one transfer. OSError as the kernel would raise it."""


class i2c_msg:  # noqa: N801 - the name that smbus2 gives it
    """One half of a transfer: bytes to write, or room for bytes to read."""

    def __init__(self, address: int, data: bytes, size: int) -> None:
        self.address, self.data, self.size = address, data, size

    @staticmethod
    def write(address: int, data: Sequence[int]) -> i2c_msg:
        """Bytes to write."""
        return i2c_msg(address, bytes(data), 0)

    @staticmethod
    def read(address: int, length: int) -> i2c_msg:
        """Room for `length` bytes."""
        return i2c_msg(address, b"", length)

    def __bytes__(self) -> bytes:
        return self.data

    def __iter__(self) -> Iterator[int]:
        return iter(self.data)


class SMBus:
    """The bus behind a socket, as a client sees it."""

    def __init__(self, bus: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(bus))
        except OSError:
            self._socket.close()
            raise

    def i2c_rdwr(self, *messages: i2c_msg) -> None:
        """One transfer: what is written, then what is read."""
        address = messages[0].address
        written = b"".join(message.data for message in messages if not message.size)
        wanted = [message for message in messages if message.size]
        size = sum(message.size for message in wanted)
        self._socket.sendall(_ASK.pack(address, len(written), size) + written)
        code, length = _ANSWER.unpack(_exactly(self._socket, _ANSWER.size))
        data = _exactly(self._socket, length)
        if code:
            raise OSError(code, os.strerror(code))
        for message in wanted:
            message.data, data = data[: message.size], data[message.size :]

    def close(self) -> None:
        """Give the bus up."""
        self._socket.close()


class I2cServer:
    """Offers devices on the socket `path`, a thread a client."""

    def __init__(self, path: Path, devices: Mapping[int, Device]) -> None:
        self._devices = devices
        self._clients: list[socket.socket] = []
        self._listener = Listener(path, self._take, "i2c emulator")

    def close(self) -> None:
        """The bus is gone."""
        self._listener.close()
        for client in list(self._clients):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            client.close()

    def _take(self, client: socket.socket) -> None:
        self._clients.append(client)
        threading.Thread(target=self._serve, args=(client,), name="i2c client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while True:
                address, length, size = _ASK.unpack(_exactly(client, _ASK.size))
                written = _exactly(client, length)
                code, data = self._transfer(address, written, size)
                client.sendall(_ANSWER.pack(code, len(data)) + data)
        with contextlib.suppress(ValueError):
            self._clients.remove(client)

    def _transfer(self, address: int, written: bytes, size: int) -> tuple[int, bytes]:
        device = self._devices.get(address)
        if device is None:
            return errno.EREMOTEIO, b""
        try:
            return 0, device.transfer(written, size)
        except OSError as error:
            return error.errno or errno.EIO, b""


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise OSError(errno.ENODEV, "the bus is gone")
        data += part
    return data
