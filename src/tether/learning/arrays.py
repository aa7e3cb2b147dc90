"""Arrays and plain data in one npz file: written aside, then renamed; read without pickle."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.errors import Fault, InvalidInputError
from tether.files import replaced

Arrays = dict[str, NDArray[Any]]

_META = "meta.json"


def save(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write `arrays` and `meta` (what JSON can hold) whole or not at all; an older file stays until the new one is."""
    if objects := [name for name, value in arrays.items() if value.dtype.hasobject]:
        fault = Fault(", ".join(objects), "Python objects", "arrays of numbers")  # NumPy would pickle them
        raise InvalidInputError("learning state", [fault])
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(json.dumps(meta, allow_nan=False).encode(), dtype=np.uint8)
    everything: dict[str, Any] = {_META: text, **arrays}
    with replaced(path, durable=True) as file:
        np.savez(file, **everything)


def load(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and plain data of a file that `save` wrote; raises InvalidInputError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop(_META).tobytes())
    except (OSError, ValueError, KeyError, EOFError, RecursionError, zipfile.BadZipFile) as error:
        fault = Fault(str(path), str(error) or type(error).__name__, "an npz file that this module wrote")
        raise InvalidInputError(
            "learning state", [fault], "give a checkpoint or agent file of `tether train`"
        ) from error
    return arrays, meta


def part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """The arrays below `prefix/`, without it."""
    return {name[len(prefix) + 1 :]: value for name, value in arrays.items() if name.startswith(prefix + "/")}


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays with `prefix/` before their names."""
    return {f"{prefix}/{name}": value for name, value in arrays.items()}
