"""Finding what a description points at: ROS packages and mesh files, without a ROS installation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tether.robot.xmltree import UnreadableError, parse_xml, read_xml_text


@dataclass(frozen=True)
class Resolution:
    """Where a URI points. path: the file, or None if it was not found; why: the reason then."""

    path: Path | None
    why: str = ""
    case_differs: bool = False


@dataclass(frozen=True)
class ResourceFinder:
    """Looks for packages and files of a description.

    folder: where the description lies; relative paths start there. package_paths: folders searched first,
    each either a package itself or a folder of packages (also `share/` below it, as installed by colcon).
    """

    folder: Path
    package_paths: tuple[Path, ...] = ()

    @classmethod
    def beside(cls, description: Path, package_paths: Sequence[Path] = ()) -> ResourceFinder:
        """Return a finder for a file. ROS_PACKAGE_PATH and AMENT_PREFIX_PATH come after `package_paths`."""
        inherited = [
            Path(entry)
            for variable in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH")
            for entry in os.environ.get(variable, "").split(os.pathsep)
            if entry
        ]
        return cls(description.absolute().parent, (*map(Path, package_paths), *inherited))

    def package(self, name: str) -> Path | None:
        """Return the folder of a package: from the search paths, else the one around the description."""
        for folder in self.package_paths:
            if folder.name == name and folder.is_dir() and (folder / "package.xml").is_file():
                return folder
            for candidate in (folder / name, folder / "share" / name):
                if candidate.is_dir():
                    return candidate
            if folder.is_dir() and _package_name(folder) == name:
                return folder
        for folder in (self.folder, *self.folder.parents):
            # A package's folder is recognised by its manifest, or by bearing the package's name (no manifest
            # shipped).
            if _package_name(folder) == name or folder.name == name:
                return folder
        return None

    def resolve(self, uri: str) -> Resolution:
        """Resolve `package://`, `model://`, `file://` or a relative path to a file; letter case counts."""
        scheme, found, rest = uri.partition("://")
        if not found:
            return _existing(self.folder / uri, uri)
        scheme = scheme.lower()
        if scheme == "file":
            # file://host/path is not a thing here; file:///path and the common file://relative both occur.
            path = Path(unquote(rest))
            return _existing(path if path.is_absolute() else self.folder / path, uri)
        if scheme in ("package", "model"):
            name, _, inside = rest.partition("/")
            if not name or not inside:
                return Resolution(None, f"{scheme}:// without package and file ({scheme}://NAME/path)")
            folder = self.package(name)
            if folder is None:
                what = "package" if scheme == "package" else "model"
                return Resolution(None, f"{what} {name!r} was not found (give its folder with --package-path)")
            return _existing(folder / unquote(inside), uri)
        if scheme in ("http", "https"):
            return Resolution(None, "a network address, which is not fetched")
        return Resolution(None, f"unknown scheme {scheme!r} (package://, model://, file:// or a relative path)")


def _package_name(folder: Path) -> str | None:
    manifest = folder / "package.xml"
    try:
        if not manifest.is_file():
            return None
        name = parse_xml(read_xml_text(manifest).text).first("name")
    except (UnreadableError, OSError):
        return None
    return name.text.strip() if name is not None else None


def _existing(path: Path, uri: str) -> Resolution:
    if "\\" in uri:
        return Resolution(None, "backslashes do not separate folders outside Windows")
    try:
        if path.is_file():
            return Resolution(path)
        if path.is_dir():
            return Resolution(None, f"{path.name!r} is a folder, not a file")
        if path.exists():
            return Resolution(None, f"{path.name!r} is a pipe, a socket or a device, not a file")
        other = _other_case(path)
    except (OSError, ValueError) as failure:
        return Resolution(None, f"cannot be looked up: {failure}")
    if other is not None:
        return Resolution(None, f"no such file, but {other!r} is there: letter case differs", case_differs=True)
    return Resolution(None, "no such file")


def _other_case(path: Path) -> str | None:
    """Return the end of a path as it is really spelled; None if there is nothing like it."""
    here = (path.anchor and Path(path.anchor)) or Path()
    spelled: list[str] = []
    differs = False
    for part in path.parts[1:] if path.anchor else path.parts:
        if (here / part).exists():
            here = here / part
        else:
            names = os.listdir(here) if here.is_dir() else []
            match = next((name for name in names if name.lower() == part.lower()), None)
            if match is None:
                return None
            here, differs = here / match, True
        spelled.append(here.name)
        if not differs:
            spelled.clear()
    return "/".join(spelled) if differs else None
