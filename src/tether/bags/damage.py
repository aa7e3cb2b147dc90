"""What the parsers under the readers raise when they meet damaged bytes, and how that is put into words."""

from __future__ import annotations

import sqlite3
import struct
import sys

import zstandard
from mcap.exceptions import McapError
from rosbags.rosbag1 import ReaderError as Ros1ReaderError
from rosbags.rosbag2 import ReaderError as Ros2ReaderError
from rosbags.serde import SerdeError
from rosbags.typesys import TypesysError

from tether.errors import Fault, InvalidInputError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError as BundledZstdError
else:
    from backports.zstd import ZstdError as BundledZstdError

DAMAGE: tuple[type[Exception], ...] = (
    McapError,
    Ros1ReaderError,
    Ros2ReaderError,
    SerdeError,
    TypesysError,
    zstandard.ZstdError,
    BundledZstdError,
    sqlite3.Error,
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
)
"""The libraries do not wrap what their own code trips over, so a damaged length can surface as nearly
anything.

`tests/bags/test_damaged_bags.py` cuts and flips bytes of every kind of bag to find what is missing here.
"""


def short_reason(error: Exception) -> str:
    """One line of an error met in damaged bytes; its kind where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__


def no_record(name: str, size: int, error: Exception) -> InvalidInputError:
    """The refusal of a file that begins as a bag does and has not one readable record."""
    fault = Fault(name, f"{size} bytes without a readable record ({short_reason(error)})", "a bag's records")
    return InvalidInputError("bag", [fault], "nothing in it can be read")
