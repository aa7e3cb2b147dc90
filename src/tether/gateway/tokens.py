"""Who may ask the gateway: bearer tokens, one file each, named as the client and readable by its owner only."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.signing.files import private_folder, read_with_mode, write_whole

CLIENT = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_TOKEN_MIN = 32


def make_token(folder: Path, client: str) -> str:
    """A new token for a client, in place of an older one; returns it."""
    if not CLIENT.match(client):
        fault = Fault("client", repr(client)[:60], "a lower case letter, then at most 31 of a-z, 0-9, - and _")
        raise InvalidInputError("token", [fault])
    token = secrets.token_urlsafe(32)
    write_whole(private_folder(folder) / f"{client}.token", (token + "\n").encode(), mode=0o600)
    return token


class Tokens:
    """The tokens of a folder. InvalidInputError where there is none, or one that others may read."""

    def __init__(self, folder: Path) -> None:
        self._clients: dict[bytes, str] = {}
        faults = []
        for path in sorted(folder.glob("*.token")):
            data, mode = read_with_mode(path, 4096)
            token = data.strip()
            if mode & 0o077:
                faults.append(Fault(str(path), f"permissions {mode:o}", "600"))
            if len(token) < _TOKEN_MIN or not CLIENT.match(path.stem):
                faults.append(Fault(str(path), f"{len(token)} characters", f"a client's token, at least {_TOKEN_MIN}"))
            self._clients[_digest(token)] = path.stem
        if not self._clients:
            faults.append(Fault(str(folder), "no token", "at least one"))
        if faults:
            raise InvalidInputError("gateway tokens", faults, "make one with `tether gateway --make-token NAME`")

    def client(self, token: str) -> str | None:
        """Whose token this is; None where it is nobody's. Takes the same time whichever it is."""
        asked, found = _digest(token.encode(errors="replace")), None
        for known, client in self._clients.items():
            if hmac.compare_digest(asked, known):
                found = client
        return found


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
