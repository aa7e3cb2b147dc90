"""Arrays that more than one reader holds."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.generic)


def read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    """`array` itself, no longer to be written to: for one that is kept and handed to more than one caller."""
    array.flags.writeable = False
    return array
