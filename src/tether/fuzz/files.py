"""Files that the gate reads, damaged: its settings, keys, counters and tokens, its critical state, signatures.

Each may be refused with TetherError; nothing else may come out, and nothing damaged may be taken for a good token or
signature.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tether.assembly import robot
from tether.errors import TetherError
from tether.fuzz.damage import damaged
from tether.integrity.attest import state_attestation
from tether.integrity.critical import INITIAL
from tether.integrity.keeper import Keeper
from tether.resources import resource_path
from tether.safety.gate_model import GateModel
from tether.safety.settings import load_safety
from tether.safety.token import TokenSigner, TokenVerifier, make_key
from tether.signing.ecdsa import PrivateKey
from tether.signing.sign import sign_file
from tether.signing.statement import Kind, signature_path
from tether.signing.trust import Purpose, TrustedKey
from tether.signing.verify import Verifier

_REASON = {"reason": "cause is gone"}
_END_S = 60.0


class GateFiles:
    """Good files of a gate in `folder`, and what becomes of damaged copies of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = resource_path("config", "safety.yaml").read_bytes()
        self._key = folder / "key"
        make_key(self._key)
        self._key_bytes = self._key.read_bytes()
        self._state = folder / "state"
        with Keeper(self._state, INITIAL, time.time_ns()) as keeper:
            keeper.submit({"mode": b"ARMED"}, time.time_ns())
            keeper.settle(_END_S)
        self._model = folder / "manifest.json"
        self._model.write_bytes(b'{"name": "a model"}')
        private = PrivateKey.generate()
        self._trusted = {private.public.id: TrustedKey(private.public, Purpose.RELEASE)}
        self._signature = sign_file(self._model, Kind.MODEL, private, "a model", 1).read_bytes()
        self._kinds: dict[str, Callable[[random.Random], None]] = {
            "safety.yaml": self._read_settings,
            "key": self._read_key,
            "counter": self._read_counter,
            "token": self._check_token,
            "critical state": self._open_state,
            "signature": self._verify,
        }

    def damage(self, rng: random.Random, cases: int) -> tuple[Counter[str], Counter[str], list[str]]:
        """So many cases: kind → how many, kind → how many were refused, and what should not have been.

        Which kinds, and how they are damaged, follows from `rng`; keys, signatures and times are new each time.
        """
        counts: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        findings = []
        for _ in range(cases):
            kind, case = rng.choice(list(self._kinds)), random.Random(rng.getrandbits(64))
            counts[kind] += 1
            try:
                self._kinds[kind](case)
            except TetherError:
                refused[kind] += 1
            except Exception as error:  # noqa: BLE001 - that nothing else escapes is what is looked for
                findings.append(f"{kind}: {type(error).__name__}: {error}"[:2000])
        return counts, refused, findings

    def _read_settings(self, rng: random.Random) -> None:
        path = self._folder / "safety.yaml"
        path.write_bytes(damaged(self._settings, rng))
        GateModel.build(robot(), load_safety(path), physical=True)

    def _read_key(self, rng: random.Random) -> None:
        path = self._folder / "damaged_key"
        path.write_bytes(damaged(self._key_bytes, rng))
        path.chmod(0o600)
        TokenVerifier(path, "gate")

    def _read_counter(self, rng: random.Random) -> None:
        kept = self._key.with_name("key.gate.accepted")
        kept.write_bytes(damaged(b"%020d\n" % (time.time_ns() // 1000), rng))
        try:
            TokenVerifier(self._key, "gate").check("reset_stop", _REASON, self._token(), 0)
        finally:
            kept.unlink()

    def _check_token(self, rng: random.Random) -> None:
        good = self._token()
        told = damaged(good.encode(), rng).decode("utf-8", rng.choice(("replace", "ignore", "surrogateescape")))
        TokenVerifier(self._key, "other").check("reset_stop", _REASON, told, 0)
        if told != good:
            raise AssertionError(f"a damaged token was taken: {told!r} for {good!r}")

    def _token(self) -> str:
        return TokenSigner(self._key).token("reset_stop", _REASON)

    def _open_state(self, rng: random.Random) -> None:
        folder = self._folder / "damaged_state"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._state, folder)
        path = rng.choice(sorted(path for path in folder.iterdir() if path.is_file()))
        path.write_bytes(damaged(path.read_bytes(), rng))
        keeper = Keeper(folder, INITIAL, time.time_ns())
        try:
            state_attestation(keeper)()
            keeper.submit({"mode": b"STOP"}, time.time_ns())
        finally:
            keeper.close(_END_S)

    def _verify(self, rng: random.Random) -> None:
        told, model = self._signature, self._model.read_bytes()
        if rng.random() < 0.5:
            told = damaged(told, rng)
        else:
            model = damaged(model, rng)
        path = self._folder / "damaged.json"
        path.write_bytes(model)
        signature_path(path).write_bytes(told)
        verifier = Verifier(False, self._trusted, self._folder / "user")
        verifier.admit(verifier.load(path, Kind.MODEL))
        if model != self._model.read_bytes():
            raise AssertionError("a changed model was taken for the signed one")
