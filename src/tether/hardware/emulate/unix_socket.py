"""A Unix socket that an emulated device listens on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path


class Listener:
    """Hands every client of the socket `path` to `take`, in a thread of its own named `name`, until it is closed."""

    def __init__(self, path: Path, take: Callable[[socket.socket], None], name: str) -> None:
        self._path, self._take = path, take
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._accept, name=name, daemon=True).start()

    def close(self) -> None:
        """Take no more clients; the path is gone."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._take(client)
