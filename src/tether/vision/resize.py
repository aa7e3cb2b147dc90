"""Area resize: each output pixel is the mean of the input it covers, fractions of pixels included."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tether.contracts import F64, U8


class AreaResize:
    """Resizes (height, width, 3) uint8 pictures to (out_height, out_width, 3). Made once a size of picture.

    Rows and columns are two sparse products, a tenth of the time of dense ones; their sums are in a fixed order, so the
    result does not depend on a BLAS.
    """

    def __init__(self, height: int, width: int, out_height: int, out_width: int) -> None:
        from scipy import sparse  # a quarter of a second of import, for those who look at pictures only

        self._shape = (height, width, 3)
        self._out_shape = (out_height, out_width, 3)
        self._rows: Any = sparse.csr_matrix(_weights(height, out_height).astype(np.float32))
        across = np.kron(_weights(width, out_width), np.eye(3))
        self._columns: Any = sparse.csr_matrix(across.astype(np.float32))

    def __call__(self, rgb: U8) -> U8:
        """The resized picture, rounded; raises ValueError for a picture of another size."""
        if rgb.shape != self._shape:
            raise ValueError(f"picture of shape {rgb.shape}, expected {self._shape}")
        height, width, _ = self._shape
        narrow = self._rows @ rgb.reshape(height, width * 3).astype(np.float32)
        small = (self._columns @ narrow.T).T
        rounded: U8 = (small + np.float32(0.5)).astype(np.uint8)
        return np.ascontiguousarray(rounded.reshape(self._out_shape))


@lru_cache(maxsize=8)
def area_resize(height: int, width: int, out_height: int, out_width: int) -> AreaResize:
    """The resizer for one pair of sizes."""
    return AreaResize(height, width, out_height, out_width)


def _weights(size: int, out_size: int) -> F64:
    """(out_size, size) shares: how much of each output pixel each input pixel covers; rows sum to 1."""
    edges = np.arange(out_size + 1) * (size / out_size)
    first, last = edges[:-1, None], edges[1:, None]
    pixel = np.arange(size)
    covered: F64 = np.clip(np.minimum(last, pixel + 1) - np.maximum(first, pixel), 0.0, None) * (out_size / size)
    return covered
