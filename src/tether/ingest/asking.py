"""How hard a decision asks the eyes to look: thresholds and the size of the picture, in force from stamp to stamp."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from tether.contracts import F64, Primitive
from tether.skills import SkillTable

_KEPT_NS = 10_000_000_000
"""Pictures older than this are refused as late; what was asked before is forgotten."""


@dataclass(frozen=True)
class LookHow:
    """How hard to look. None, each by itself: as the eyes do by themselves.

    confidence: least confidence of a detection. iou: overlap from which two boxes are one object. image_size: px, the
    width that a wider picture is shrunk to before it is looked at.
    """

    confidence: float | None = None
    iou: float | None = None
    image_size: int | None = None


OWN = LookHow()
"""As the eyes do by themselves."""


def how_of(skills: SkillTable, primitive: int, params: F64) -> LookHow:
    """What a decision asks for: the parameters of `look` that are not at their defaults, nothing for other primitives.

    Raises InvalidInputError for parameters that do not fit the table.
    """
    if primitive != Primitive.LOOK:
        return OWN
    spec, checked = skills[Primitive.LOOK], skills.checked(Primitive.LOOK, params)

    def asked(name: str) -> float | None:
        at = spec.index(name)
        return None if checked[at] == spec.default[at] else float(checked[at])

    size = asked("image_size")
    return LookHow(asked("confidence"), asked("iou"), None if size is None else round(size))


class Asked:
    """What was asked for, by stamp: a decision's wish holds for pictures stamped after it, until the next one's."""

    def __init__(self, changes: Iterable[tuple[int, LookHow]] = ()) -> None:
        """changes: (stamp after which it holds, what), in any order."""
        self._changes = sorted(changes, key=lambda change: change[0])

    @property
    def newest(self) -> LookHow:
        """What holds for pictures that are still to come."""
        return self._changes[-1][1] if self._changes else OWN

    def ask(self, since_ns: int, how: LookHow) -> bool:
        """From now on, for pictures stamped after `since_ns`, which does not go back; whether that is a change."""
        if how == self.newest:
            return False
        self._changes.append((since_ns, how))
        while len(self._changes) > 1 and self._changes[1][0] < since_ns - _KEPT_NS:
            del self._changes[0]
        return True

    def at(self, stamp_ns: int) -> LookHow:
        """How to look at the picture of `stamp_ns`."""
        i = bisect_left(self._changes, stamp_ns, key=lambda change: change[0])
        return self._changes[i - 1][1] if i else OWN

    def forget(self) -> None:
        """Nothing was asked for."""
        self._changes.clear()
