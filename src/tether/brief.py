"""Values from files of other people, shown in a message without growing, whatever they are.

Aliases of aliases in YAML ("a billion laughs") are a few bytes in a file and a few objects in memory, and without end
once they are written out.
"""

from __future__ import annotations

import reprlib

_SHOWN = 60


class _Brief(reprlib.Repr):
    """Only the first levels and items, and a beginning of what is long."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict, self.maxset = 3, 8, 8, 8, 8
        self.maxstring = self.maxlong = self.maxother = _SHOWN

    def repr_int(self, x: int, level: int) -> str:
        """Python writes out no number of thousands of digits."""
        return super().repr_int(x, level) if x.bit_length() <= 4096 else f"a whole number of {x.bit_length()} bits"


_BRIEF = _Brief()


def brief(value: object) -> str:
    """A value in at most 60 characters, for a message."""
    text = _BRIEF.repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
