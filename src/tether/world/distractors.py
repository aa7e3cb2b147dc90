"""Where cubes that are not the task's lie at the start of an episode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tether.contracts import F64
from tether.errors import Fault, InvalidInputError
from tether.world.task import DistractorSpec

_TRIES = 1000


def scattered(
    specs: Sequence[DistractorSpec], addresses: Sequence[int], cube: F64, rng: np.random.Generator
) -> Iterator[tuple[int, tuple[float, float, float], float]]:
    """Address, (x, y, yaw) in m and rad, and side of each distractor, drawn until it is apart from all before it.

    cube: (2,) m, where the task's own cube lies. Raises InvalidInputError where a task leaves too little room.
    """
    taken = [cube]
    for spec, address in zip(specs, addresses, strict=True):
        for _ in range(_TRIES):
            place = np.array([rng.uniform(*spec.x_m), rng.uniform(*spec.y_m)])
            if all(math.dist(place, other) >= spec.apart_m for other in taken):
                break
        else:
            fault = Fault("distractors", f"no room in {_TRIES} draws", f"places {spec.apart_m:g} m apart")
            raise InvalidInputError("task", [fault], "make the area larger or apart_m smaller")
        taken.append(place)
        yield address, (float(place[0]), float(place[1]), float(rng.uniform(-math.pi, math.pi))), spec.side_m
