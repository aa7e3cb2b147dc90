"""The standard streams of a command."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Make stdin, stdout and stderr fit for a command, whatever they are; before anything is opened or written."""
    open_closed_streams()
    escape_what_cannot_be_encoded()


def escape_what_cannot_be_encoded() -> None:
    """Let stdout and stderr write a character that their encoding does not have as its escape.

    Else the first one ends the command: `…` where the locale is not UTF-8, a file name that is none anywhere.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
