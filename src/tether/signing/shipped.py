"""What ships with this version: pinned by hash in the package, signed for this machine at set-up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path
from tether.signing.files import write_whole
from tether.signing.pins import PINS
from tether.signing.sign import make_development_key, sign_locally
from tether.signing.statement import Kind

_PATTERNS = (("**/manifest.json", Kind.MODEL), ("skills/**/*.py", Kind.SKILL))
_PINS_FILE = Path(__file__).with_name("pins.py")


def provision(
    say: Callable[[str], None], state: Path | None = None, machine_keys: Path | None = None
) -> InvalidInputError | None:
    """Set-up's step: the development key of this machine, and signatures for what ships and fits its pin.

    Returns, and does not raise, an error that names every shipped file that is not what was pinned: those are not
    signed, and set-up need not end for them. Raises OSError, InvalidInputError (keys).
    """
    key, is_new = make_development_key(state, machine_keys)
    if is_new:
        say(f"development key {key.public.id}; a physical robot refuses what it signs")
    faults = []
    for path, kind, sha256 in pinned():
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            faults.append(Fault(str(path), error.strerror or str(error), f"SHA-256 {sha256}"))
            continue
        if found == sha256:
            sign_locally(path, kind, key, state)
        else:
            faults.append(Fault(str(path), f"SHA-256 {found}", f"{sha256}, as pinned"))
    fix = "bring the shipped file, or sign yours by hand: `tether sign FILE`"
    return InvalidInputError("shipped models and skills, not signed", faults, fix) if faults else None


def pinned() -> list[tuple[Path, Kind, str]]:
    """Path, kind and SHA-256 of everything that is pinned; empty where nothing is."""
    folder = _folder()
    return [] if folder is None else [(folder / name, Kind(kind), sha) for name, (kind, sha) in sorted(PINS.items())]


def name_of(path: Path) -> str:
    """What a pinned file is called when a release is signed: its path below models/."""
    return path.relative_to(resource_path("models") if (folder := _folder()) is None else folder).as_posix()


def found() -> dict[str, tuple[str, str]]:
    """What lies in models/ now, in the form of PINS."""
    folder = _folder()
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): (kind.value, hashlib.sha256(path.read_bytes()).hexdigest())
        for pattern, kind in _PATTERNS
        for path in sorted(folder.glob(pattern))
    }


def write_pins() -> int:
    """Pin what lies in models/ now, in the source of this package; returns how many files that are."""
    pins = found()
    text = _PINS_FILE.read_text(encoding="utf-8")
    head, mark, _ = text.partition("PINS: dict")
    rows = "".join(
        f'    "{name}": (\n        "{kind}",\n        "{sha}",\n    ),\n' for name, (kind, sha) in pins.items()
    )
    body = f"{{\n{rows}}}" if pins else "{}"
    new = f'{head}{mark}[str, tuple[str, str]] = {body}\n"""Path below models/ → (kind, SHA-256)."""\n'
    write_whole(_PINS_FILE, new.encode())
    return len(pins)


def _folder() -> Path | None:
    try:
        return resource_path("models")
    except InvalidInputError:
        return None
