"""Ways to tell a value between two samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar

from tether.rotations import slerp

T = TypeVar("T")


class Interpolator(Protocol[T]):
    """Value at `share` (0 to 1) of the time from the sample `before` to the sample `after`."""

    def __call__(self, before: T, after: T, share: float) -> T:
        """Must not change its arguments."""


def hold(before: T, after: T, share: float) -> T:
    """The value before, for what jumps: a mode, an id, a picture."""
    return before


def nearest(before: T, after: T, share: float) -> T:
    """The nearer of the two, the earlier one where both are as near."""
    return before if share <= 0.5 else after


def linear(before: Any, after: Any, share: float) -> Any:
    """Straight line between numbers or arrays; meets both ends exactly."""
    return before * (1.0 - share) + after * share


def rotation(before: Any, after: Any, share: float) -> Any:
    """Constant angular velocity the short way between quaternions x, y, z, w; None where one is missing."""
    if before is None or after is None:
        return None
    return slerp(before, after, share)


def by_field(kind: type[T], interpolators: Mapping[str, Interpolator[Any]]) -> Interpolator[T]:
    """Interpolator of the frozen dataclass `kind`: named fields each by their own, the others held.

    Raises ValueError for a field that `kind` does not have.
    """
    unknown = sorted(set(interpolators) - {f.name for f in fields(kind)})  # type: ignore[arg-type]
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")

    def interpolate(before: T, after: T, share: float) -> T:
        made = {
            name: between(getattr(before, name), getattr(after, name), share)
            for name, between in interpolators.items()
        }
        return replace(before, **made)  # type: ignore[type-var]

    return interpolate
