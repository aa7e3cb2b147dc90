"""Numbers of messages, judged where they enter: what is not finite or does not fit is refused by the field's name."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np

from tether.contracts import F32, F64


def floats(values: Any) -> F64:
    """Values as an array of float64, not copied where they are one."""
    return np.asarray(values, np.float64)


def finite(field: str, values: Any) -> F64:
    """As `floats`; ValueError names `field` and the first value that is NaN or infinite."""
    array = floats(values)
    _require_finite(field, array)
    return array


def finite_singles(field: str, values: Any) -> F32:
    """As `finite`, in float32."""
    array = np.asarray(values, np.float32)
    _require_finite(field, array)
    return array


def of_length(field: str, values: F64, names: Sized) -> F64:
    """`values` where there is one for each of `names`; ValueError names `field` otherwise."""
    if len(values) != len(names):
        raise ValueError(f"{field}: {len(values)} values, expected {len(names)}, one for each name")
    return values


def _require_finite(field: str, array: F64 | F32) -> None:
    good = np.isfinite(array)
    if not good.all():
        at = int(np.argmin(good.reshape(-1)))
        raise ValueError(f"{field}[{at}] is {array.reshape(-1)[at]}, expected a finite number")
