"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` once the block has ended well; until then an older one stays.

    What is written lies in `path` with `.part` behind its name; it is left there where the block raises, and the next
    writer begins it anew. durable: on the disk, too, before it takes the place.
    """
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        yield file
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(partial, path)
