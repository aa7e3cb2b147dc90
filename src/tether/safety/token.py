"""Calls that only somebody with the robot's key may make: an HMAC over what is asked for, good once.

A token is `1:COUNTER:HMAC` with HMAC-SHA256 over the interface's name, every field of the request and the counter. The
counter only ever grows, on the caller's side by a file beside the key, on the receiver's by the last one it accepted,
which it keeps beside the key too: a token that was overheard is worth nothing, also after a restart. No clock plays a
part but as a lower bound for a caller that has lost its file.

The key is a file of 32 random bytes in hex that only its owner may read. What processes of one run say to each other
(rewards) goes by a key that the receiver makes anew for the run: what was overheard in an earlier one is worth nothing,
so counters need not be kept, and nothing waits for a disk.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tether.errors import Fault, InvalidInputError

KEY_VARIABLE = "TETHER_KEY_FILE"
_KEY_BYTES = 32
_COUNTER_MAX = 1 << 63
_TOKEN_MAX = 128
_REFUSED_MAX = 10
_REFUSED_NS = 10_000_000_000


def key_file() -> Path:
    """Where the key is: $TETHER_KEY_FILE, else ~/.config/tether/key."""
    chosen = os.environ.get(KEY_VARIABLE, "").strip()
    return Path(chosen) if chosen else Path.home() / ".config" / "tether" / "key"


def run_key_file() -> Path:
    """Where the key of a run is: beside the robot's key, by the domain that the run has for itself on this machine."""
    robot = key_file()
    return robot.with_name(f"{robot.name}.run{os.environ.get('ROS_DOMAIN_ID', '').strip() or '0'}")


def make_run_key(path: Path) -> None:
    """Write a new key in place of the one of an earlier run. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.unlink(missing_ok=True)
    make_key(partial)
    os.replace(partial, path)


def make_key(path: Path) -> None:
    """Write a new key where there is none; what is there stays. The folder is made for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_KEY_BYTES) + "\n")


def read_key(path: Path) -> bytes:
    """The key; raises InvalidInputError where others may read or write it, or where it is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "a file with the robot's key") from None
    # What is asked of the file is asked of the one that was opened: there is no time in which it could be swapped.
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refused(path, "no file", "a file with the robot's key")
        if status.st_uid not in (os.geteuid(), 0):
            raise _refused(path, f"owned by user {status.st_uid}", f"owned by user {os.geteuid()} or root")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise _refused(path, f"mode {stat.S_IMODE(status.st_mode):04o}", "mode 0600", f"chmod 600 {path}")
        text = os.read(descriptor, 2 * _KEY_BYTES + 2)
    finally:
        os.close(descriptor)
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise _refused(path, "something else", f"{_KEY_BYTES} bytes in hex", "remove it and let it be made anew")
    return key


def make_token(key: bytes, interface: str, fields: Mapping[str, str | int], counter: int) -> str:
    """The token of one call; counter: more than that of any call before."""
    return f"1:{counter}:{_mac(key, interface, fields, counter)}"


class RunSigner:
    """The caller's side with the key of a run. The counter goes by the steady clock: it grows across restarts, too."""

    def __init__(self, path: Path) -> None:
        """The key need not be there yet, and may be made anew: it is read for every token."""
        self._path = path
        self._last = 0

    def token(self, interface: str, fields: Mapping[str, str | int]) -> str:
        """A token for one message. Raises InvalidInputError as `read_key`."""
        key = read_key(self._path)
        self._last = max(self._last + 1, time.monotonic_ns() // 1000)
        return make_token(key, interface, fields, self._last)


class TokenSigner:
    """The caller's side. Safe for several processes that share one key file."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidInputError as `read_key`."""
        self._key = read_key(path)
        self._counter = path.with_name(path.name + ".counter")

    def token(self, interface: str, fields: Mapping[str, str | int]) -> str:
        """A token for one call. Raises OSError where the counter cannot be kept."""
        with _locked(self._counter) as descriptor:
            last = _number(os.read(descriptor, 32))
            counter = max(last + 1, time.time_ns() // 1000)
            os.pwrite(descriptor, f"{counter:020d}\n".encode("ascii"), 0)
        return make_token(self._key, interface, fields, counter)


class TokenVerifier:
    """The receiver's side. Every refusal says why; after ten within 10 s further calls are refused unread."""

    def __init__(self, path: Path, name: str | None) -> None:
        """name: of the receiver, since each keeps its own last counter; None: in memory, for the key of a run.

        Raises InvalidInputError as `read_key`.
        """
        self._key = read_key(path)
        self._kept = None if name is None else path.with_name(f"{path.name}.{name}.accepted")
        self._last = 0
        if self._kept is not None:
            with contextlib.suppress(FileNotFoundError):
                self._last = _number(self._kept.read_bytes()[:32])
        self._refused_ns: list[int] = []

    def check(self, interface: str, fields: Mapping[str, str | int], token: str, now_ns: int) -> None:
        """Accept a call, once; raises InvalidInputError with the reason otherwise. now_ns: steady."""
        self._refused_ns = [at for at in self._refused_ns if now_ns - at < _REFUSED_NS]
        if len(self._refused_ns) >= _REFUSED_MAX:
            fault = Fault("calls", f"{_REFUSED_MAX} refused within 10 s", "fewer")
            raise InvalidInputError(interface, [fault], "wait 10 s")
        reason = self._reason(interface, fields, token)
        if reason is not None:
            self._refused_ns.append(now_ns)
            raise InvalidInputError(interface, [reason], f"make the token with the robot's key ({KEY_VARIABLE})")
        counter = int(token.split(":")[1])
        if self._kept is not None:
            try:
                _keep(self._kept, counter)
            except OSError as error:
                fault = Fault(str(self._kept), str(error), "a file that can be written, so that no token is good twice")
                raise InvalidInputError(interface, [fault], "make room on the disk") from error
        self._last = counter

    def _reason(self, interface: str, fields: Mapping[str, str | int], token: str) -> Fault | None:
        readable = isinstance(token, str) and len(token) <= _TOKEN_MAX and token.isascii()
        parts = token.split(":") if readable else []
        if len(parts) != 3 or parts[0] != "1" or not parts[1].isdigit():
            return Fault("token", "none" if not token else "something else", "1:COUNTER:HMAC")
        counter = int(parts[1])
        if not hmac.compare_digest(_mac(self._key, interface, fields, counter), parts[2]):
            return Fault("token", "not made for this call with this robot's key", "the HMAC of interface and fields")
        if not self._last < counter < _COUNTER_MAX:
            return Fault("token", f"counter {counter}", f"more than {self._last}, the last one accepted")
        return None


def _keep(path: Path, counter: int) -> None:
    partial = path.with_name(path.name + ".part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{counter:020d}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _mac(key: bytes, interface: str, fields: Mapping[str, str | int], counter: int) -> str:
    # JSON keeps fields apart whatever they hold: no two requests have the same text.
    text = json.dumps([interface, sorted(fields.items()), counter], ensure_ascii=True)
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()


def _number(text: bytes) -> int:
    """A counter as it was kept; what cannot be read is as if there had been none."""
    cleaned = text.strip()
    return int(cleaned) if cleaned.isdigit() else 0


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _refused(path: Path, found: str, expected: str, fix: str = "") -> InvalidInputError:
    return InvalidInputError("key", [Fault(str(path), found, expected)], fix or f"name the right one in {KEY_VARIABLE}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a token for one call: `python -m tether.safety.token reset_stop reason='cause is gone'`."""
    parser = argparse.ArgumentParser(prog="python -m tether.safety.token", description=main.__doc__)
    parser.add_argument("interface", help="arm, reset_stop, swap_model")
    parser.add_argument("fields", nargs="*", metavar="NAME=VALUE", help="every field of the request but the token")
    options = parser.parse_args(arguments)
    fields = dict(field.partition("=")[::2] for field in options.fields)
    try:
        sys.stdout.write(TokenSigner(key_file()).token(options.interface, fields) + "\n")
    except (InvalidInputError, OSError) as error:
        sys.stderr.write(f"token: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
