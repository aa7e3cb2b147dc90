"""What every step shares: errors, progress lines, the lock, stamps and running commands."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SILENCE_S = 30.0
GUARD_OF_WHEELS = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"


class SetupError(RuntimeError):
    """Set-up cannot go on; the text says what, expected, found and the fix."""


def say(text: str) -> None:
    """One progress line."""
    sys.stdout.write(f"[setup] {text}\n")
    sys.stdout.flush()


def digest(*parts: str | bytes) -> str:
    """Hash of the parts, each delimited by its length."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(f"{len(data)}:".encode())
        sha.update(data)
    return sha.hexdigest()[:24]


def digest_files(root: Path, files: Iterable[Path]) -> str:
    """Hash of the names (relative to root) and contents of files."""
    parts: list[str | bytes] = []
    for path in sorted(files):
        parts += [str(path.relative_to(root)), path.read_bytes()]
    return digest(*parts)


def write_atomic(path: Path, text: str) -> None:
    """Replace a file in one go, so that an interrupt leaves the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    with contextlib.suppress(FileNotFoundError):
        part.chmod(path.stat().st_mode)
    os.replace(part, path)


@dataclass
class Context:
    """Where things are and how commands run.

    root: the checkout. venv: its virtual environment. ros_prefix: an installed ROS 2, or None for wheels.
    build_base: see `build`.
    """

    root: Path
    venv: Path
    ros_prefix: Path | None = None
    lock_fd: int | None = None
    verbose: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    build_base: Path | None = None

    @property
    def build(self) -> Path:
        """Folder that messages are built in; two venvs with two Pythons cannot share one."""
        return self.build_base or self.root / "ros2_ws" / "build"

    @property
    def python(self) -> Path:
        """The venv's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def state(self) -> Path:
        """Folder of stamps and logs; it goes away with the venv that it describes."""
        return self.venv / ".tether-setup"

    def site_packages(self) -> Path:
        """The venv's folder of Python packages."""
        found = sorted(self.venv.glob("lib/python3.*/site-packages"))
        if len(found) != 1:
            raise SetupError(
                f"{self.venv}/lib: expected one python3.*/site-packages, found {len(found)}; fix: make clean"
            )
        return found[0]

    def child_env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Environment for the venv's programs, free of another Python's or ROS's search paths."""
        env = dict(os.environ)
        for name in ("PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", GUARD_OF_WHEELS):
            env.pop(name, None)
        env["PATH"] = f"{self.venv / 'bin'}:{env.get('PATH', os.defpath)}"
        env.update(extra or {})
        return env

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Run a command, its output in a log file; on failure show the log's end and raise."""
        with self.alongside(name, command, env, cwd):
            pass

    def _ended(self, child: subprocess.Popen[bytes], log: Path) -> int:
        """The exit status; that it goes on, and where to look, is said twice a minute."""
        began_s = time.monotonic()
        while True:
            try:
                return child.wait(SILENCE_S)
            except subprocess.TimeoutExpired:
                say(f"  still at it after {time.monotonic() - began_s:.0f} s; its output: {log}")

    @contextlib.contextmanager
    def alongside(
        self,
        name: str,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Iterator[None]:
        """As `run`, with the body going on meanwhile; its end waits for the command, its exception ends the command and
        what that has started.

        The set-up lock is handed down, so that it stays held while an orphan of a killed set-up still writes.
        """
        log = self.state / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        words = [str(word) for word in command]
        with log.open("w", encoding="utf-8") as out:
            out.write("$ " + " ".join(words) + "\n")
            out.flush()
            child = subprocess.Popen(
                words,
                cwd=cwd or self.root,
                env=dict(env) if env is not None else self.child_env(),
                stdin=subprocess.DEVNULL,
                stdout=None if self.verbose else out,
                stderr=None if self.verbose else subprocess.STDOUT,
                pass_fds=() if self.lock_fd is None else (self.lock_fd,),
                start_new_session=True,
            )
            try:
                yield
                code = self._ended(child, log)
            except BaseException:
                with contextlib.suppress(OSError):  # it has ended, or is root's
                    os.killpg(child.pid, signal.SIGTERM)
                child.wait()
                raise
        if code != 0:
            tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            raise SetupError(f"step '{name}' failed with exit status {code}; the end of {log}:\n{tail}")

    def works(
        self, command: Sequence[str | Path], env: Mapping[str, str] | None = None, timeout_s: float = 60.0
    ) -> bool:
        """Whether a short command exits with 0."""
        try:
            done = subprocess.run(
                [str(word) for word in command],
                env=dict(env) if env is not None else self.child_env(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=timeout_s,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def stamped(self, step: str, key: str) -> bool:
        """Whether this step was finished for this key; remembers the key for the steps built on it."""
        self.keys[step] = key
        try:
            stamp = json.loads((self.state / f"{step}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(stamp, dict) and stamp.get("key") == key

    def stamp(self, step: str, **facts: str) -> None:
        """Record that the step is finished; the last thing a step does."""
        write_atomic(self.state / f"{step}.json", json.dumps({"key": self.keys[step], **facts}, indent=1) + "\n")

    def unstamp(self, step: str) -> None:
        """Forget a step before redoing it, so that an interrupt leaves it undone."""
        (self.state / f"{step}.json").unlink(missing_ok=True)


@contextlib.contextmanager
def setup_lock(path: Path, timeout_s: float = 1800.0) -> Iterator[int]:
    """Hold the set-up's lock; a second set-up waits for the first, at most `timeout_s`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + timeout_s
        waiting = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(fd, 64, 0).decode(errors="replace").strip() or "unknown"
                if not waiting:
                    say(f"another set-up (process {holder}) holds {path.name}; waiting for it")
                    waiting = True
                if time.monotonic() > deadline:
                    raise SetupError(
                        f"process {holder} has held {path} for {timeout_s:.0f} s; fix: end it and retry"
                    ) from None
                time.sleep(0.2)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield fd
    finally:
        os.close(fd)
