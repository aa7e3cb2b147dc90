"""Only what a trusted key signed is loaded, and what was verified is what is executed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from signing_parts import Keys, executed, made, refused

from tether.errors import InvalidInputError, TetherError
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import read_manifest
from tether.signing import policy
from tether.signing.ecdsa import PrivateKey
from tether.signing.floors import Floors
from tether.signing.revocations import Revocations, read_revocations, revocations_path, write_revocations
from tether.signing.sign import sign_file
from tether.signing.skills import load_skill
from tether.signing.statement import Kind, Reason, Signature, SignatureRefusedError, Statement, signature_path
from tether.signing.verify import Verifier, signature_attestation


@pytest.fixture
def verifier(keys: Keys, state: Path) -> Verifier:
    return Verifier(physical=False, keys=keys.trusted, state=state)


@pytest.fixture
def robot(keys: Keys, state: Path) -> Verifier:
    return Verifier(physical=True, keys=keys.trusted, state=state)


def test_what_a_trusted_key_signed_is_executed_byte_for_byte(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    assert executed(verifier, made(tmp_path / "m", b"{}", keys.release)) == b"{}"


def test_a_physical_robot_takes_release_and_robot_keys_and_refuses_development_keys(
    robot: Verifier, keys: Keys, tmp_path: Path
) -> None:
    assert executed(robot, made(tmp_path / "a", b"a", keys.release)) == b"a"
    assert executed(robot, made(tmp_path / "b", b"b", keys.robot)) == b"b"
    assert refused(robot, made(tmp_path / "c", b"c", keys.development)) is Reason.DEVELOPMENT_KEY


def test_simulation_takes_development_keys(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    assert executed(verifier, made(tmp_path / "m", b"x", keys.development)) == b"x"


def test_unsigned_missing_and_malformed_are_refused_by_name(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    path = made(tmp_path / "m", b"x", keys.release)
    signature_path(path).write_bytes(b"\xff{")
    assert refused(verifier, path) is Reason.MALFORMED
    signature_path(path).unlink()
    assert refused(verifier, path) is Reason.UNSIGNED
    assert refused(verifier, tmp_path / "nothing") is Reason.MISSING


def test_a_strangers_signature_is_refused_also_where_it_claims_a_trusted_key(
    verifier: Verifier, keys: Keys, tmp_path: Path
) -> None:
    path = made(tmp_path / "m", b"x", keys.stranger)
    assert refused(verifier, path) is Reason.UNKNOWN_KEY
    forged = Signature.from_json(signature_path(path).read_bytes())
    signature_path(path).write_bytes(dataclasses.replace(forged, key_id=keys.release.public.id).to_json())
    assert refused(verifier, path) is Reason.FORGED


def test_a_key_that_lies_beside_the_model_is_not_looked_at(
    keys: Keys, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "m", b"x", keys.stranger)
    entry = {"purpose": "release", "id": keys.stranger.public.id, "pem": keys.stranger.public.pem}
    for place in (tmp_path / "m", tmp_path, state):
        place.mkdir(exist_ok=True)
        (place / "machine_keys.json").write_text(json.dumps({"keys": [entry]}))
    monkeypatch.chdir(tmp_path / "m")
    assert refused(Verifier(physical=False), path) is Reason.UNKNOWN_KEY


@pytest.mark.parametrize(
    ("field", "value"), [("kind", "skill"), ("name", "teacher"), ("version", 9), ("sha256", "0" * 64)]
)
def test_no_field_of_a_signature_can_be_changed(
    verifier: Verifier, keys: Keys, tmp_path: Path, field: str, value: object
) -> None:
    path = made(tmp_path / "m", b"x", keys.release)
    fields = json.loads(signature_path(path).read_bytes())
    signature_path(path).write_text(json.dumps({**fields, field: value}))
    assert refused(verifier, path, Kind.SKILL if field == "kind" else Kind.MODEL) in (Reason.FORGED, Reason.CHANGED)


def test_a_signature_for_one_thing_is_none_for_another(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    path = made(tmp_path / "m", b"x", keys.release)
    assert refused(verifier, path, Kind.SKILL) is Reason.OTHER_KIND
    assert refused(verifier, path, Kind.MODEL, "teacher") is Reason.OTHER_KIND
    assert verifier.load(path, Kind.MODEL, "student").data == b"x"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), which=st.booleans())
def test_a_flipped_bit_in_content_or_signature_is_refused_or_means_the_same(
    verifier: Verifier, keys: Keys, tmp_path: Path, where: float, bit: int, which: bool
) -> None:
    path = made(tmp_path / "m", b"content of a manifest", keys.release)
    target = path if which else signature_path(path)
    before = signature_path(path).read_bytes()
    data = bytearray(target.read_bytes())
    data[int(where * len(data))] ^= 1 << bit
    target.write_bytes(data)
    try:
        signed = verifier.load(path, Kind.MODEL)
    except SignatureRefusedError:
        return
    assert not which
    assert signed.signature == Signature.from_json(before), "only space between the fields has changed"


def test_content_that_changes_after_loading_is_not_what_is_executed(
    verifier: Verifier, keys: Keys, tmp_path: Path
) -> None:
    path = made(tmp_path / "m", b"good", keys.release)
    signed = verifier.load(path, Kind.MODEL)
    path.write_bytes(b"evil")
    assert verifier.admit(signed) == b"good"
    assert refused(verifier, path) is Reason.CHANGED


def test_bytes_that_change_in_memory_before_the_first_execution_are_refused(
    verifier: Verifier, keys: Keys, tmp_path: Path
) -> None:
    signed = verifier.load(made(tmp_path / "m", b"good", keys.release), Kind.MODEL)
    with pytest.raises(SignatureRefusedError) as caught:
        verifier.admit(dataclasses.replace(signed, data=b"evil"))
    assert caught.value.reason is Reason.CHANGED


def test_each_run_verifies_before_its_first_execution(
    verifier: Verifier, keys: Keys, tmp_path: Path, state: Path
) -> None:
    signed = verifier.load(made(tmp_path / "m", b"good", keys.release), Kind.MODEL)
    verifier.admit(signed)
    revoked = Revocations(1, {signed.signature.statement.sha256: "drops what it holds"})
    write_revocations(state / "revocations.json", revoked, keys.release)
    assert verifier.admit(signed) == b"good", "this run has begun with it"
    verifier.begin_run()
    with pytest.raises(SignatureRefusedError) as caught:
        verifier.admit(signed)
    assert caught.value.reason is Reason.REVOKED
    assert "drops what it holds" in str(caught.value)


# Versions


def test_an_older_version_is_refused_once_a_newer_one_was_in_use(
    verifier: Verifier, keys: Keys, tmp_path: Path, state: Path
) -> None:
    old, new = made(tmp_path / "old", b"1", keys.release, 1), made(tmp_path / "new", b"2", keys.release, 2)
    assert executed(verifier, old) == b"1"
    assert executed(verifier, new) == b"2"
    assert refused(verifier, old) is Reason.ROLLED_BACK
    assert refused(Verifier(physical=False, keys=keys.trusted, state=state), old) is Reason.ROLLED_BACK
    assert executed(verifier, made(tmp_path / "old", b"1", keys.release, 3)) == b"1", "signed again, as a newer one"


def test_versions_of_other_things_and_other_keys_are_counted_apart(
    verifier: Verifier, keys: Keys, tmp_path: Path
) -> None:
    executed(verifier, made(tmp_path / "a", b"a", keys.release, 7))
    assert executed(verifier, made(tmp_path / "b", b"b", keys.release, 1, "teacher")) == b"b"
    assert executed(verifier, made(tmp_path / "c", b"c", keys.robot, 1)) == b"c"


def test_version_floors_put_back_are_noticed_and_stop_a_physical_robot(
    robot: Verifier, verifier: Verifier, keys: Keys, tmp_path: Path, state: Path
) -> None:
    old, new = made(tmp_path / "old", b"1", keys.release, 1), made(tmp_path / "new", b"2", keys.release, 2)
    executed(robot, old)
    (database,) = (state / "versions").glob("*.db")
    saved = tmp_path / "saved.db"
    shutil.copy(database, saved)
    executed(robot, new)
    shutil.copy(saved, database)
    assert refused(robot, old) is Reason.ROLLED_BACK, "the floor is still known from outside the database"
    (state / "versions" / "anchor").unlink()
    assert refused(robot, new) is Reason.ROLLED_BACK, "nobody knows whether the floors are the newest"
    assert executed(verifier, new) == b"2", "a simulation goes on, and says so"
    with Floors(state / "versions") as floors:
        floors.acknowledge("the card was copied")
    assert executed(robot, new) == b"2"


# Revocations


def test_contents_and_keys_can_be_revoked(verifier: Verifier, keys: Keys, tmp_path: Path, state: Path) -> None:
    a, b = made(tmp_path / "a", b"a", keys.release), made(tmp_path / "b", b"b", keys.robot)
    sha256 = Signature.from_json(signature_path(a).read_bytes()).statement.sha256
    path = state / "revocations.json"
    write_revocations(path, Revocations(1, {sha256: "bad grasps"}), keys.release)
    assert refused(verifier, a) is Reason.REVOKED
    assert executed(verifier, b) == b"b"
    write_revocations(path, Revocations(2, {}, {keys.robot.public.id: "the laptop was stolen"}), keys.release)
    assert executed(verifier, a) == b"a"
    assert refused(verifier, b) is Reason.REVOKED


def test_an_older_list_and_no_list_are_refused_once_a_newer_one_was_seen(
    verifier: Verifier, keys: Keys, tmp_path: Path, state: Path
) -> None:
    model, path = made(tmp_path / "m", b"x", keys.release), state / "revocations.json"
    assert executed(verifier, model) == b"x", "there never was a list"
    for sequence in (1, 2):
        write_revocations(path, Revocations(sequence, {"0" * 64: "test"}), keys.release)
        executed(verifier, model)
    write_revocations(path, Revocations(1), keys.release)
    assert refused(verifier, model) is Reason.REVOCATIONS
    path.unlink()
    assert refused(verifier, model) is Reason.REVOCATIONS


@pytest.mark.parametrize("damage", ["garbage", "other body", "stranger", "wrong number", "not texts"])
def test_a_list_that_does_not_verify_refuses_everything(
    verifier: Verifier, keys: Keys, tmp_path: Path, state: Path, damage: str
) -> None:
    model, path = made(tmp_path / "m", b"x", keys.release), state / "revocations.json"
    write_revocations(path, Revocations(3, {"0" * 64: "test"}), keys.stranger if damage == "stranger" else keys.release)
    whole = json.loads(path.read_text())
    if damage == "garbage":
        path.write_bytes(b"\x00" * 10)
    elif damage == "other body":
        path.write_text(json.dumps({**whole, "list": whole["list"].replace("test", "fine")}))
    elif damage == "wrong number":
        path.write_text(json.dumps({**whole, "signature": {**whole["signature"], "version": 4}}))
    elif damage == "not texts":
        path.write_text(json.dumps({**whole, "list": '{"sequence": 3, "sha256": [1], "keys": {}}'}))
    assert refused(verifier, model) is Reason.REVOCATIONS


def test_a_physical_robot_takes_no_list_from_a_development_key(
    robot: Verifier, keys: Keys, tmp_path: Path, state: Path
) -> None:
    path = state / "revocations.json"
    write_revocations(path, Revocations(1), keys.development)
    assert refused(robot, made(tmp_path / "m", b"x", keys.release)) is Reason.REVOCATIONS
    with Floors() as floors:
        assert read_revocations(revocations_path(), keys.trusted, floors, physical=False).sequence == 1


# Skills


def skill(folder: Path, source: str, keys: Keys) -> Path:
    path = folder / "find.py"
    path.write_text(source, encoding="utf-8")
    sign_file(path, Kind.SKILL, keys.release, "find", 1)
    return path


def test_a_signed_skill_runs_from_memory(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    module = load_skill(verifier, skill(tmp_path, "def run(x: int) -> int:\n    return x + 1\n", keys), "find")
    assert module.run(2) == 3
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_cached_pyc_beside_a_skill_is_not_executed(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    import py_compile

    path = skill(tmp_path, "ANSWER = 'evil'\n", keys)
    py_compile.compile(str(path))
    path = skill(tmp_path, "ANSWER = 'good'\n", keys)
    assert load_skill(verifier, path).ANSWER == "good"


def test_a_changed_skill_is_not_executed_at_all(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    path = skill(tmp_path, "pass\n", keys)
    path.write_text(f"open({str(mark)!r}, 'w')\n")
    with pytest.raises(SignatureRefusedError):
        load_skill(verifier, path)
    assert not mark.exists()


def test_a_signed_skill_that_is_no_python_is_refused(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Python source"):
        load_skill(verifier, skill(tmp_path, "def (", keys))


def test_a_pipe_in_a_files_place_is_not_waited_for(verifier: Verifier, keys: Keys, tmp_path: Path) -> None:
    path = made(tmp_path / "m", b"x", keys.release)
    signature_path(path).unlink()
    os.mkfifo(signature_path(path))
    assert refused(verifier, path) is Reason.MALFORMED
    os.mkfifo(tmp_path / "pipe")
    assert refused(verifier, tmp_path / "pipe") is Reason.MISSING


# The gate's view, and parsing


def test_the_gate_is_told_what_does_not_verify(
    keys: Keys, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tether.signing.verify.trusted_keys", lambda: keys.trusted)
    path = made(tmp_path / "m", b"x", keys.development)
    assert signature_attestation({path: Kind.MODEL}, physical=False)().scale == 1.0
    verdict = signature_attestation({path: Kind.MODEL}, physical=True)()
    assert (verdict.check, verdict.scale) == ("model_signature", 0.0)
    assert "development" in verdict.reason


@given(st.binary(max_size=300))
def test_any_bytes_are_a_signature_or_refused_by_name(data: bytes) -> None:
    try:
        Signature.from_json(data)
    except (ValueError, TetherError):
        return


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    st.sampled_from(["kind", "name", "version", "sha256", "key", "signature", "format"]),
)
def test_any_json_in_any_field_is_refused_by_name_or_read(value: object, field: str) -> None:
    key = PrivateKey.generate() if not KEYS else KEYS[0]
    KEYS.append(key)
    fields = json.loads(Signature.make(Statement(Kind.MODEL, "n", 1, "0" * 64), key).to_json())
    try:
        Signature.from_json(json.dumps({**fields, field: value}).encode())
    except (ValueError, TetherError):
        return


KEYS: list[PrivateKey] = []


@pytest.mark.parametrize(
    ("trust", "key", "good"),
    [
        ("any", "stranger", True),
        ("signed", "development", True),
        ("signed", "stranger", False),
        ("physical", "development", False),
        ("physical", "robot", True),
    ],
)
def test_a_process_executes_what_it_was_told_to_trust(
    keys: Keys, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str, key: str, good: bool
) -> None:
    monkeypatch.setattr("tether.signing.verify.trusted_keys", lambda: keys.trusted)
    monkeypatch.setenv("TETHER_TRUST", trust)
    policy._verifier.cache_clear()
    path = made(tmp_path / "m", b"{}", getattr(keys, key))
    if good:
        assert policy.read_trusted(path, Kind.MODEL) == b"{}"
        return
    with pytest.raises(ModelRefusedError) as caught:
        read_manifest(path.parent)
    assert caught.value.refusal is Refusal.SIGNATURE
    policy._verifier.cache_clear()


def test_a_trust_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TETHER_TRUST", "")
    with pytest.raises(InvalidInputError, match="TETHER_TRUST"):
        policy.read_trusted(tmp_path / "m", Kind.MODEL)
