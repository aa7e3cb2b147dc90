"""Forget incompletely installed packages, so that pip installs them again; print their names.

Run by the venv's Python. pip writes RECORD last: a package without it, or lacking a file that it lists, or
with one of another size, was interrupted.
"""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from importlib.metadata import PathDistribution
from pathlib import Path


def incomplete(info: Path) -> bool:
    """Whether this .dist-info folder belongs to a package that is not wholly there."""
    if not (info / "RECORD").is_file() or not (info / "METADATA").is_file():
        return True
    for file in PathDistribution(info).files or []:
        path = Path(str(file.locate()))
        if path.suffix == ".pyc":
            continue
        altered_by_setup = path.suffix == ".cmake"
        if not path.exists():
            return True
        sized = file.size is not None and file.hash is not None and not altered_by_setup
        if sized and path.stat().st_size != file.size:
            return True
    return False


def main() -> int:
    """Look through site-packages and take the broken ones' metadata away."""
    site = Path(sysconfig.get_path("purelib"))
    for leftover in site.glob("~*"):
        shutil.rmtree(leftover, ignore_errors=True)
    broken = [info for info in sorted(site.glob("*.dist-info")) if incomplete(info)]
    for info in broken:
        shutil.rmtree(info)
    sys.stdout.write(json.dumps([info.name.removesuffix(".dist-info") for info in broken]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
