"""What this machine has found out about runtimes: trials, in one file of the user's cache, valid for one machine."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from tether import __version__
from tether.config import bounded, parse
from tether.errors import InvalidInputError
from tether.files import replaced
from tether.runtimes.interface import RuntimeName

_LOG = logging.getLogger(__name__)
FORMAT = 1
_LIBRARIES = ("onnxruntime", "onnxruntime-gpu", "openvino", "tensorrt", "torch", "onnx", "numpy")
_GPU_FOLDER = Path("/proc/driver/nvidia")


@dataclass(frozen=True)
class Trial:
    """How a runtime fared with a model, in a process of its own.

    fault: why it may not run this model here, empty where it may. label: as decisions would record it. deviation:
    largest relative RMS difference of an output from the reference's. median_ms, reference_ms: of one run, of both in
    turn. Figures of a trial that failed are 0.
    """

    runtime: RuntimeName
    fault: str = ""
    label: str = ""
    deviation: float = bounded(0.0, None, default=0.0)
    median_ms: float = bounded(0.0, None, default=0.0)
    reference_ms: float = bounded(0.0, None, default=0.0)

    @property
    def ok(self) -> bool:
        """Whether it ran."""
        return not self.fault


@dataclass(frozen=True)
class Book:
    """Content of the file. trials: `key` → trial."""

    format: int = bounded(FORMAT, FORMAT)
    fingerprint: str = ""
    trials: dict[str, Trial] = field(default_factory=dict)


def key(sha256: str, runtime: RuntimeName, threads: int) -> str:
    """Name of a trial: of a model's bytes, on a runtime, with so many threads."""
    return f"{sha256} {runtime.value} {threads}"


def cache_folder() -> Path:
    """Where this user keeps what can be made again: $XDG_CACHE_HOME/tether, else ~/.cache/tether. It need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tether"


def book_path() -> Path:
    """The file of trials."""
    return cache_folder() / "runtimes.json"


def machine_fingerprint() -> str:
    """Hash of what a trial depends on besides the model: processor, GPU driver, Python, and versions of libraries."""
    parts = [
        platform.machine(),
        _cpu(),
        str(os.cpu_count()),
        platform.python_version(),
        sys.prefix,
        __version__,
        *(f"{name} {_version(name)}" for name in _LIBRARIES),
        *_gpus(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_book() -> Book:
    """What is known here; an empty book where there is none, it is damaged, or another machine wrote it."""
    empty = Book(FORMAT, machine_fingerprint())
    path = book_path()
    try:
        book = parse(json.loads(path.read_text(encoding="utf-8")), Book, str(path))
    except FileNotFoundError:
        return empty
    except (OSError, ValueError, RecursionError, InvalidInputError) as error:
        _LOG.warning("%s is unreadable and is begun anew: %s", path, error)
        return empty
    return book if book.fingerprint == empty.fingerprint else empty


def remember(name: str, trial: Trial) -> None:
    """Add one trial; the file appears whole or not at all. Call it with `locked` held."""
    book = read_book()
    changed = dataclasses.replace(book, trials={**book.trials, name: trial})
    path = book_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path, durable=True) as file:
        file.write((json.dumps(dataclasses.asdict(changed), indent=1, allow_nan=False) + "\n").encode())


@contextmanager
def locked() -> Iterator[None]:
    """One process at a time tries runtimes: the others wait and find what it found, so all choose alike."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "runtimes.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    wanted = ("model name", "Model", "flags", "Features")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(wanted)}))


def _gpus() -> list[str]:
    """Driver and models of NVIDIA GPUs, as the driver says; no library is loaded for it."""
    try:
        version = (_GPU_FOLDER / "version").read_text(encoding="utf-8")
        cards = sorted(_GPU_FOLDER.glob("gpus/*/information"))
        return [version, *(card.read_text(encoding="utf-8") for card in cards)]
    except OSError:
        return []


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "-"
