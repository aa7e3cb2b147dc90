"""What whoever releases does: keys into the package's source and out of it, signatures for what ships."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.signing import release_keys, trust
from tether.signing.ecdsa import PrivateKey, PublicKey
from tether.signing.files import write_whole
from tether.signing.shipped import name_of, pinned
from tether.signing.sign import sign_file
from tether.signing.trust import Purpose, trusted_keys

SOURCE = Path(__file__).with_name("release_keys.py")
_MARK = "RELEASE_KEYS: tuple[str, ...] = "


def add_release_key(public: PublicKey) -> bool:
    """Put a key into the source of this package, to be committed and released; False where it is there already.

    Raises InvalidInputError where the key has another purpose on this machine or there are KEYS_MAX, OSError where the
    package cannot be written. A process that runs goes on with the keys that it has read.
    """
    known = trusted_keys().get(public.id)
    if known is not None and known.purpose is not Purpose.RELEASE:
        fault = Fault(public.id, f"a {known.purpose.value} key of this machine", "a key of its own for releases")
        raise InvalidInputError("key", [fault], "make one: `tether sign --make-key`, on the machine that releases")
    if known is not None:
        return False
    keys = [*release_keys.RELEASE_KEYS, public.pem]
    if len(keys) > trust.KEYS_MAX:
        raise InvalidInputError("key", [Fault("release keys", str(len(keys)), f"at most {trust.KEYS_MAX}")])
    _write(keys)
    return True


def remove_key(key_id: str) -> Purpose:
    """Trust a key no more: a release key in this source, others on this machine. Returns what it was for.

    Raises InvalidInputError where the package has no such key, OSError where it cannot be written.
    """
    key = trusted_keys().get(key_id)
    if key is None:
        known = ", ".join(sorted(trusted_keys())) or "none"
        raise InvalidInputError("key", [Fault("key id", key_id, f"a key in this package ({known})")])
    if key.purpose is Purpose.RELEASE:
        _write([pem for pem in release_keys.RELEASE_KEYS if PublicKey.from_pem(pem).id != key_id])
    else:
        trust.uninstall_key(key_id)
    return key.purpose


def sign_release(key: PrivateKey, version: int) -> list[Path]:
    """Sign all that is pinned, each under its path below models/; signatures go beside, to be committed and released.

    Nothing is signed unless everything is what was pinned and the key is a release key of this package, so that what is
    published verifies. Returns the signatures' paths. Raises InvalidInputError, OSError.
    """
    faults = []
    known = trusted_keys().get(key.public.id)
    if known is None or known.purpose is not Purpose.RELEASE:
        faults.append(Fault("--key", key.public.id, "a release key: `tether sign --add-release-key` comes first"))
    targets = pinned()
    for path, _, sha256 in targets:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != sha256:
            faults.append(Fault(str(path), f"SHA-256 {found}", f"{sha256}, as pinned: `tether sign --pin`"))
    if faults:
        raise InvalidInputError("release", faults)
    return [sign_file(path, kind, key, name_of(path), version) for path, kind, _ in targets]


def _write(keys: list[str]) -> None:
    head, mark, rest = SOURCE.read_text(encoding="utf-8").partition(_MARK)
    _, doc, tail = rest.rpartition('\n"""')
    # the text below the keys is the last that begins a line so; a key's own text may, too
    rows = "".join(f'    """{pem}""",\n' for pem in keys)
    body = f"(\n{rows})" if keys else "()"
    write_whole(SOURCE, f"{head}{mark}{body}{doc}{tail}".encode())
