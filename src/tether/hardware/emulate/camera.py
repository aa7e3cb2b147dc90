"""A camera behind a socket: pictures with the time of their exposure, whoever made them."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np

from tether.contracts import U8
from tether.hardware.camera import CameraError, Frame
from tether.hardware.emulate.unix_socket import Listener

_HEAD = struct.Struct("<qHH")
_SEND_S = 30.0
"""A client that a busy machine does not let read misses pictures; only one that never reads again is given up."""
_BUFFERS = 4


class CameraServer:
    """Offers pictures on the socket `path`, to one client at a time. A client that is slow misses pictures."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._client: socket.socket | None = None
        self._frames: list[tuple[int, U8]] = []
        self._changed = threading.Condition()
        self._ended = False
        self.stalled = False
        self._listener = Listener(path, self._take, "camera emulator")
        threading.Thread(target=self._send, name="camera emulator", daemon=True).start()

    def show(self, stamp_ns: int, rgb: U8) -> None:
        """The next picture. stamp_ns: time.monotonic_ns. rgb: (height, width, 3) uint8, not to be changed again."""
        if self.stalled:
            return
        with self._changed:
            self._frames.append((stamp_ns, rgb))
            del self._frames[:-_BUFFERS]
            self._changed.notify()

    @property
    def connected(self) -> bool:
        """Whether a client has opened the camera."""
        with self._lock:
            return self._client is not None

    def close(self) -> None:
        """The camera is gone."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._listener.close()
        self._drop(None)

    def _take(self, client: socket.socket) -> None:
        client.settimeout(_SEND_S)
        self._drop(client)

    def _send(self) -> None:
        while True:
            with self._changed:
                while not self._frames and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                stamp_ns, rgb = self._frames.pop(0)
            with self._lock:
                client = self._client
            if client is None:
                continue
            height, width, _ = rgb.shape
            try:
                client.sendall(_HEAD.pack(stamp_ns, width, height) + rgb.tobytes())
            except OSError:
                self._drop(None)

    def _drop(self, new: socket.socket | None) -> None:
        with self._lock:
            old, self._client = self._client, new
        if old is not None:
            old.close()


class SocketCamera:
    """See `tether.hardware.camera.Source`: the client's end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._buffer = bytearray()

    def open(self) -> None:
        """See `Source`."""
        self.close()
        self._buffer.clear()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(self._path)
        except OSError as error:
            raise CameraError(f"camera {self._path}: {error.strerror}") from error

    def read(self, deadline_s: float) -> Frame | None:
        """See `Source`."""
        head = self._take(_HEAD.size, deadline_s)
        if head is None:
            return None
        stamp_ns, width, height = _HEAD.unpack(head)
        size = width * height * 3
        # The head has come, so the rest is on its way: half a picture is not left lying.
        data = self._take(size, time.monotonic() + _SEND_S)
        if data is None:
            raise CameraError(f"camera {self._path}: a picture ended in the middle")
        return Frame(stamp_ns, np.frombuffer(data, np.uint8).reshape(height, width, 3))

    def close(self) -> None:
        """See `Source`."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def _take(self, size: int, deadline_s: float) -> bytes | None:
        """Exactly `size` bytes; None, with what came kept, where they do not come in time."""
        connection = self._socket
        while len(self._buffer) < size:
            if connection is None:
                raise CameraError(f"camera {self._path}: not open")
            if not select.select([connection], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                return None
            try:
                part = connection.recv(1 << 18)
            except OSError as error:
                raise CameraError(f"camera {self._path}: {error.strerror}") from error
            if not part:
                raise CameraError(f"camera {self._path}: unplugged")
            self._buffer += part
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data
