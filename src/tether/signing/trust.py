"""Whose signatures count: keys in this package, and nowhere else.

Release keys stand in the source, in `release_keys.py`. Keys of the machine (its development key, the owner's key for a
robot) are put into the installed package at set-up, as `machine_keys.json` beside this module; it is looked for there
only: neither next to what is to be verified, nor in the working folder, nor in the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.signing import release_keys
from tether.signing.ecdsa import PublicKey
from tether.signing.files import read_regular, write_whole

MACHINE_KEYS = Path(__file__).with_name("machine_keys.json")
KEYS_MAX = 16
_FILE_MAX = 2**20


class Purpose(str, Enum):
    """What a key is for."""

    RELEASE = "release"
    """Signs what the project ships."""
    ROBOT = "robot"
    """The owner's: signs what a physical robot may execute."""
    DEVELOPMENT = "development"
    """Made at set-up on a machine for that machine; refused on a physical robot."""


@dataclass(frozen=True)
class TrustedKey:
    """A public key and what it is for."""

    public: PublicKey
    purpose: Purpose


def trusted_keys(machine_keys: Path | None = None) -> dict[str, TrustedKey]:
    """Key id → key, of all keys in this package. InvalidInputError where the machine's are damaged."""
    keys = [TrustedKey(PublicKey.from_pem(pem, "release key"), Purpose.RELEASE) for pem in release_keys.RELEASE_KEYS]
    keys += _read(MACHINE_KEYS if machine_keys is None else machine_keys)
    return {key.public.id: key for key in keys}


def install_key(public: PublicKey, purpose: Purpose, machine_keys: Path | None = None) -> bool:
    """Put a key of this machine into the installed package; False where it is there already.

    Of the development keys the newest KEYS_MAX are kept. Raises InvalidInputError for a release key (those are
    source) or where one key would have two purposes, OSError where the package cannot be written.
    """
    path = MACHINE_KEYS if machine_keys is None else machine_keys
    if purpose is Purpose.RELEASE:
        raise InvalidInputError("key", [Fault("purpose", purpose.value, "development or robot")])
    keys = _read(path)
    for key in keys:
        if key.public.id == public.id:
            if key.purpose is not purpose:
                raise InvalidInputError("key", [Fault(public.id, purpose.value, f"{key.purpose.value}, as installed")])
            return False
    others = [key for key in keys if key.purpose is not Purpose.DEVELOPMENT]
    development = [key for key in keys if key.purpose is Purpose.DEVELOPMENT]
    (development if purpose is Purpose.DEVELOPMENT else others).append(TrustedKey(public, purpose))
    if len(others) > KEYS_MAX:
        raise InvalidInputError("key", [Fault("robot keys", str(len(others)), f"at most {KEYS_MAX}")])
    _write(path, [*others, *development[-KEYS_MAX:]])
    return True


def uninstall_key(key_id: str, machine_keys: Path | None = None) -> None:
    """Take a key of this machine out of the installed package; one that is not there changes nothing."""
    path = MACHINE_KEYS if machine_keys is None else machine_keys
    keys = _read(path)
    if any(key.public.id == key_id for key in keys):
        _write(path, [key for key in keys if key.public.id != key_id])


def purposes(keys: Mapping[str, TrustedKey]) -> set[Purpose]:
    """What the given keys are for."""
    return {key.purpose for key in keys.values()}


def _read(path: Path) -> list[TrustedKey]:
    try:
        data = json.loads(read_regular(path, _FILE_MAX))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    try:
        return [
            TrustedKey(PublicKey.from_pem(entry["pem"], str(path)), Purpose(entry["purpose"])) for entry in data["keys"]
        ]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _damaged(path, repr(error)) from None


def _write(path: Path, keys: Iterable[TrustedKey]) -> None:
    data = {"keys": [{"purpose": key.purpose.value, "id": key.public.id, "pem": key.public.pem} for key in keys]}
    write_whole(path, (json.dumps(data, indent=1) + "\n").encode())


def _damaged(path: Path, found: str) -> InvalidInputError:
    fault = Fault(str(path), found[:200], "the keys that set-up wrote")
    return InvalidInputError("trusted keys", [fault], "remove the file and run `make setup`")
