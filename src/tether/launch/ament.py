"""Where ROS packages keep their files: the ament index, read without importing ROS.

Layout after REP 122 and ament_index_python: a prefix holds package `p` when
`<prefix>/share/ament_index/resource_index/packages/p` exists; its data are in `<prefix>/share/p`, its
executables in `<prefix>/lib/p`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tether.launch.errors import PackageNotFoundError


def search_path(env: Mapping[str, str]) -> list[Path]:
    """Return the prefixes of `AMENT_PREFIX_PATH` that exist, first one strongest."""
    entries = env.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return [Path(entry) for entry in entries if entry and Path(entry).is_dir()]


def find_package_prefix(package: str, env: Mapping[str, str]) -> Path:
    """Return the prefix `package` is installed in; raise PackageNotFoundError naming what was searched."""
    prefixes = search_path(env)
    for prefix in prefixes:
        if (prefix / "share/ament_index/resource_index/packages" / package).is_file():
            return prefix
    named = env.get("AMENT_PREFIX_PATH", "").strip(os.pathsep)
    none = f"AMENT_PREFIX_PATH names no folder that exists: {named}" if named else "AMENT_PREFIX_PATH is empty or unset"
    searched = ", ".join(map(str, prefixes)) or f"nothing: {none}"
    raise PackageNotFoundError(
        f"package '{package}' not found; searched {searched}. "
        "Build and install it, or add its prefix to AMENT_PREFIX_PATH"
    )


def find_package_share(package: str, env: Mapping[str, str]) -> Path:
    """Return `<prefix>/share/<package>`; raise PackageNotFoundError."""
    return find_package_prefix(package, env) / "share" / package


def find_executable(package: str, executable: str, env: Mapping[str, str]) -> Path:
    """Return `<prefix>/lib/<package>/<executable>`; raise PackageNotFoundError listing what is there."""
    folder = find_package_prefix(package, env) / "lib" / package
    path = folder / executable
    if path.is_file() and os.access(path, os.X_OK):
        return path
    if path.is_file():
        raise PackageNotFoundError(f"'{path}' of package '{package}' is not executable; chmod +x it")
    present = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    raise PackageNotFoundError(
        f"package '{package}' has no executable '{executable}' in '{folder}'; "
        f"it has {', '.join(present) if present else 'none'}"
    )


def find_share_file(package: str, name: str, env: Mapping[str, str]) -> Path:
    """Return the one file called `name` anywhere under the package's share folder, as `ros2 launch` does."""
    share = find_package_share(package, env)
    found = sorted(Path(folder) / name for folder, _, files in os.walk(share) if name in files)
    if len(found) == 1:
        return found[0]
    if not found:
        raise PackageNotFoundError(f"package '{package}' has no file '{name}' under '{share}'")
    places = ", ".join(map(str, found))
    raise PackageNotFoundError(f"package '{package}' has '{name}' {len(found)} times ({places}); give the path")
