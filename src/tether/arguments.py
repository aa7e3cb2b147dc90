"""Numbers of the command line, each with the bounds it must keep."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number from 1 up."""
    return _at_least(text, 1)


def not_negative(text: str) -> int:
    """A whole number from 0 up."""
    return _at_least(text, 0)


def _at_least(text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, at least {low}")
    return value
