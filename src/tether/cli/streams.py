"""The standard streams of a command."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Give the standard streams that were closed from the start (`>&-`) the null device, for children too.

    Else the first file to be opened gets the number of one, and what libraries print to that goes into the file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
