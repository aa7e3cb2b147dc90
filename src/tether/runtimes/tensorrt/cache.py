"""Engines on disk, each with a sidecar that says what it was built from and for; whatever does not fit is a miss."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tether.config import bounded, parse
from tether.errors import InvalidInputError
from tether.files import replaced
from tether.models.store import Model
from tether.runtimes.tensorrt.library import Device
from tether.signing.files import private_folder

FORMAT = 1
_BYTES_MAX = 1 << 31


@dataclass(frozen=True)
class Stamp:
    """All that an engine depends on. precision: as the model's manifest names it; networks are strongly typed."""

    gpu: str
    compute_capability: str
    tensorrt: str
    cuda: str
    precision: str
    onnx_sha256: str

    @staticmethod
    def of(device: Device, model: Model) -> Stamp:
        """Of an engine that is built here and now."""
        manifest = model.manifest
        precision = manifest.trained_on.get("precision", "as in the file")
        return Stamp(**dataclasses.asdict(device), precision=precision, onnx_sha256=manifest.sha256)


@dataclass(frozen=True)
class Sidecar:
    """What lies beside an engine."""

    stamp: Stamp
    engine_sha256: str
    engine_bytes: int = bounded(1, _BYTES_MAX)
    format: int = bounded(FORMAT, FORMAT, default=FORMAT)


@dataclass(frozen=True)
class Miss:
    """Why there is no engine to use."""

    reason: str


class EngineCache:
    """Engines in one folder that only its owner can enter: loading an engine is running code."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, stamp: Stamp) -> bytes | Miss:
        """The engine for `stamp`, whole and built for exactly this; otherwise the reason why not."""
        engine, sidecar = self._paths(stamp)
        try:
            about = parse(json.loads(sidecar.read_text(encoding="utf-8")), Sidecar, str(sidecar))
            plan = engine.read_bytes()
        except FileNotFoundError:
            return Miss("no engine was built yet")
        except (OSError, ValueError, RecursionError, InvalidInputError) as error:
            return Miss(f"its sidecar is unreadable: {' '.join(str(error).split())[:200]}")
        wrong = [
            f"{name} {found!r}, here {expected!r}"
            for (name, expected), found in zip(
                dataclasses.asdict(stamp).items(), dataclasses.astuple(about.stamp), strict=True
            )
            if found != expected
        ]
        if wrong:
            return Miss(f"the engine is for {'; '.join(wrong)}")
        if len(plan) != about.engine_bytes or hashlib.sha256(plan).hexdigest() != about.engine_sha256:
            return Miss(f"the engine is damaged: {len(plan)} bytes, {about.engine_bytes} were written")
        return plan

    def keep(self, stamp: Stamp, plan: bytes) -> None:
        """Write engine and sidecar, each whole or not at all, the sidecar last: in between, `find` misses."""
        private_folder(self._folder)
        engine, sidecar = self._paths(stamp)
        about = Sidecar(stamp, hashlib.sha256(plan).hexdigest(), len(plan))
        text = json.dumps(dataclasses.asdict(about), indent=2) + "\n"
        for path, data in ((engine, plan), (sidecar, text.encode())):
            with replaced(path, durable=True) as file:
                file.write(data)

    def discard(self, stamp: Stamp) -> None:
        """Forget an engine that proved useless."""
        for path in self._paths(stamp):
            path.unlink(missing_ok=True)

    def _paths(self, stamp: Stamp) -> tuple[Path, Path]:
        name = stamp.onnx_sha256[:32]
        return self._folder / f"{name}.engine", self._folder / f"{name}.json"
