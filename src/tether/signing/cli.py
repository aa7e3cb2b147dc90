"""`tether sign`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tether.arguments import positive
from tether.errors import Fault, InvalidInputError, TetherError
from tether.signing import release, shipped
from tether.signing.ecdsa import PrivateKey, PublicKey
from tether.signing.floors import Floors
from tether.signing.revocations import (
    Revocations,
    install_revocations,
    read_revocations,
    revocations_path,
    write_revocations,
)
from tether.signing.sign import development_key_path, sign_file, sign_locally
from tether.signing.statement import SUFFIX, Kind
from tether.signing.trust import Purpose, install_key, trusted_keys

_MANIFEST = "manifest.json"


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "sign",
        help="sign models and skills",
        description="Without --key: sign for this machine, with its development key. With --key: sign for others; the "
        "signature goes beside the file. A folder stands for the manifest.json in it. docs/integrity.md has keys.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="file or model folder to sign")
    parser.add_argument("--key", type=Path, help="private key to sign with (PEM, permissions 600)")
    parser.add_argument("--name", help="what it is; needed with --key, the same for all versions of it")
    parser.add_argument("--release", type=positive, metavar="N", help="its version, counting up; needed with --key")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--shipped",
        action="store_true",
        help="make this machine's key and sign what ships (set-up's step); with --key and --release: sign a release",
    )
    what.add_argument("--pin", action="store_true", help="pin what lies in models/ in the source, for a release")
    what.add_argument("--make-key", type=Path, metavar="OUT", help="make a key for a robot; public half in OUT.pub")
    what.add_argument("--install-key", type=Path, metavar="PUB", help="trust a robot's key on this machine")
    what.add_argument("--add-release-key", type=Path, metavar="PUB", help="put a release key into this source")
    what.add_argument("--remove-key", metavar="ID", help="trust a key no more, in this source or on this machine")
    what.add_argument("--install-revocations", type=Path, metavar="LIST", help="take a list that was signed elsewhere")
    what.add_argument("--revoke", metavar="ID", help="SHA-256 or key id that is not to be executed; needs --reason")
    what.add_argument(
        "--accept-floors", action="store_true", help="take version floors that may be old; needs --reason"
    )
    parser.add_argument("--reason", help="why")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked; faults come as TetherError, and as text from OSError."""
    try:
        _chosen(arguments)(arguments)
    except OSError as error:
        fault = Fault(str(error.filename or "file"), error.strerror or str(error), "a file to be read or written")
        raise InvalidInputError("sign", [fault], "check the path, its permissions and the free space") from error
    return 0


def _chosen(arguments: argparse.Namespace) -> Callable[[argparse.Namespace], None]:
    for name, call in (
        ("shipped", _shipped),
        ("pin", _pin),
        ("make_key", _make_key),
        ("install_key", _install_key),
        ("add_release_key", _add_release_key),
        ("remove_key", _remove_key),
        ("install_revocations", _install_revocations),
        ("revoke", _revoke),
        ("accept_floors", _accept_floors),
    ):
        if getattr(arguments, name):
            if arguments.files:
                raise InvalidInputError("sign", [Fault("FILE", str(arguments.files[0]), f"none beside --{name}")])
            return call
    return _sign


def _sign(arguments: argparse.Namespace) -> None:
    if not arguments.files:
        raise InvalidInputError("sign", [Fault("FILE", "none", "one or more files")], "see `tether sign --help`")
    targets = [target(path) for path in arguments.files]
    if arguments.key is None:
        key = PrivateKey.load(development_key_path())
        for path, kind in targets:
            statement = sign_locally(path, kind, key).statement
            _say(f"{path}: signed for this machine, version {statement.version}")
        return
    if arguments.name is None or arguments.release is None or len(targets) != 1:
        found = f"{len(targets)} files, name {arguments.name!r}, release {arguments.release!r}"
        raise InvalidInputError("sign", [Fault("--key", found, "one file, its --name and its --release")])
    (path, kind) = targets[0]
    written = sign_file(path, kind, PrivateKey.load(arguments.key), arguments.name, arguments.release)
    _say(f"{path}: signed, {written}")


def _shipped(arguments: argparse.Namespace) -> None:
    if arguments.key is not None:
        if arguments.release is None or arguments.name is not None:
            found = f"name {arguments.name!r}, release {arguments.release!r}"
            raise InvalidInputError("sign", [Fault("--shipped --key", found, "its --release, and no --name")])
        written = release.sign_release(PrivateKey.load(arguments.key), arguments.release)
        _say(f"release {arguments.release}: {len(written)} files signed; commit their {SUFFIX} files")
        return
    unsigned = shipped.provision(_say)
    if unsigned is not None:
        raise unsigned


def _pin(arguments: argparse.Namespace) -> None:
    _say(f"pinned {shipped.write_pins()} files")


def _make_key(arguments: argparse.Namespace) -> None:
    path: Path = arguments.make_key
    public = path.with_name(path.name + ".pub")
    taken = [str(p) for p in (path, public) if p.exists()]
    if taken:
        raise InvalidInputError("sign", [Fault("--make-key", f"{taken[0]}, which exists", "a new file")])
    key = PrivateKey.generate()
    key.save(path)
    public.write_text(key.public.pem, encoding="utf-8")
    _say(f"key {key.public.id}: keep {path} off the robot; on it, `tether sign --install-key {public}`")


def _install_key(arguments: argparse.Namespace) -> None:
    path: Path = arguments.install_key
    public = PublicKey.from_pem(path.read_text(encoding="utf-8"), str(path))
    new = install_key(public, Purpose.ROBOT)
    _say(f"key {public.id} {'is trusted now' if new else 'was trusted already'}")


def _add_release_key(arguments: argparse.Namespace) -> None:
    path: Path = arguments.add_release_key
    public = PublicKey.from_pem(path.read_text(encoding="utf-8"), str(path))
    new = release.add_release_key(public)
    _say(f"key {public.id} {'is a release key now' if new else 'was one already'}: {release.SOURCE}")


def _remove_key(arguments: argparse.Namespace) -> None:
    purpose = release.remove_key(arguments.remove_key)
    _say(f"{purpose.value} key {arguments.remove_key} is trusted no more")


def _install_revocations(arguments: argparse.Namespace) -> None:
    found = install_revocations(arguments.install_revocations, trusted_keys())
    _say(f"list {found.sequence} revokes {len(found.sha256)} contents and {len(found.key_ids)} keys")


def _revoke(arguments: argparse.Namespace) -> None:
    what, reason = str(arguments.revoke), (arguments.reason or "").strip()
    if len(what) not in (32, 64) or set(what) - set("0123456789abcdef") or not reason:
        found = f"{what!r}, reason {reason!r}"
        raise InvalidInputError("sign", [Fault("--revoke", found, "a SHA-256 or a key's id, with --reason")])
    key = PrivateKey.load(arguments.key or development_key_path())
    path = revocations_path()
    with Floors() as floors:
        old = read_revocations(path, trusted_keys(), floors, physical=False)
    more = {what: reason}
    contents, keys = (more, {}) if len(what) == 64 else ({}, more)
    new = Revocations(old.sequence + 1, {**old.sha256, **contents}, {**old.key_ids, **keys})
    write_revocations(path, new, key)
    _say(f"list {new.sequence} revokes {len(new.sha256)} contents and {len(new.key_ids)} keys: {path}")


def _accept_floors(arguments: argparse.Namespace) -> None:
    with Floors() as floors:
        floors.acknowledge(arguments.reason or "")
    _say("version floors accepted")


def target(path: Path) -> tuple[Path, Kind]:
    """What to sign or verify, and as what."""
    if path.is_dir():
        return path / _MANIFEST, Kind.MODEL
    return path, Kind.SKILL if path.suffix == ".py" else Kind.MODEL


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> int:
    """Set-up's step, without the rest of the command line: `python -m tether.signing.cli`.

    Status 1 where this machine has no key to sign with. What is not what was pinned is named and left unsigned.
    """
    try:
        unsigned = shipped.provision(_say)
    except (TetherError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if unsigned is not None:
        _say(str(unsigned))
    return 0


if __name__ == "__main__":
    sys.exit(main())
