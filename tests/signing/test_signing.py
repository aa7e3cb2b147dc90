"""Keys, set-up's step and the two commands."""

from __future__ import annotations

import argparse
import json
import stat
from pathlib import Path

import pytest
from signing_parts import Keys, made, refused

from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.signing import cli, cli_verify, pins, shipped, trust
from tether.signing.ecdsa import PrivateKey, PublicKey
from tether.signing.sign import development_key_path, sign_file, sign_locally
from tether.signing.statement import Kind, Reason
from tether.signing.trust import Purpose, install_key, trusted_keys
from tether.signing.verify import Verifier, verified_bytes


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    (cli_verify if words[0] == "verify" else cli).add_parser(parser.add_subparsers())
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments))


def model(tmp_path: Path, content: bytes = b"{}") -> Path:
    folder = tmp_path / "models" / "eyes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_bytes(content)
    return folder


# Keys


def test_a_private_key_is_readable_by_its_owner_only_and_refused_otherwise(tmp_path: Path) -> None:
    path, key = tmp_path / "k", PrivateKey.generate()
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PrivateKey.load(path).public.id == key.public.id
    path.chmod(0o640)
    with pytest.raises(InvalidInputError, match="600"):
        PrivateKey.load(path)


def test_other_curves_and_other_files_are_refused_as_keys(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    other = ec.generate_private_key(ec.SECP384R1())
    path = tmp_path / "k"
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(other.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(InvalidInputError, match="secp256r1"):
        PrivateKey.load(path)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    with pytest.raises(InvalidInputError, match="secp256r1"):
        PublicKey.from_pem(other.public_key().public_bytes(serialization.Encoding.PEM, public).decode())
    for junk in ("", "junk", "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(InvalidInputError):
            PublicKey.from_pem(junk)


def test_signatures_are_der_and_verify_with_another_implementation(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    r, s = decode_dss_signature(PrivateKey.generate().sign(b"x"))
    assert r > 0 and s > 0


def test_no_two_purposes_for_one_key_and_no_release_key_from_outside(keys: Keys, tmp_path: Path) -> None:
    path = tmp_path / "machine_keys.json"
    assert install_key(keys.robot.public, Purpose.ROBOT, path)
    assert not install_key(keys.robot.public, Purpose.ROBOT, path)
    with pytest.raises(InvalidInputError):
        install_key(keys.robot.public, Purpose.DEVELOPMENT, path)
    with pytest.raises(InvalidInputError):
        install_key(keys.stranger.public, Purpose.RELEASE, path)
    assert set(trusted_keys(path)) == {keys.robot.public.id}


@pytest.mark.parametrize("text", ["", "{}", '{"keys": [{}]}', '{"keys": [{"pem": "x", "purpose": "robot"}]}', "[1"])
def test_damaged_trusted_keys_are_refused_not_ignored(tmp_path: Path, text: str) -> None:
    path = tmp_path / "machine_keys.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError):
        trusted_keys(path)


# Set-up


def test_setup_makes_a_key_once_and_signs_what_fits_its_pin(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = model(tmp_path), []
    monkeypatch.setattr(shipped, "PINS", shipped.found())
    assert refused(Verifier(physical=False), folder / "manifest.json") is Reason.UNSIGNED
    shipped.provision(said.append)
    key = development_key_path()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert verified_bytes(folder / "manifest.json", Kind.MODEL, physical=False) == b"{}"
    assert refused(Verifier(physical=True), folder / "manifest.json") is Reason.DEVELOPMENT_KEY
    again: list[str] = []
    shipped.provision(again.append)
    assert (len(said), again) == (1, [])
    assert sorted(p.name for p in folder.iterdir()) == ["manifest.json"], "nothing is written beside what ships"


def test_setup_does_not_sign_what_is_not_what_was_pinned(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path)
    monkeypatch.setattr(shipped, "PINS", shipped.found())
    (folder / "manifest.json").write_bytes(b"forged")
    unsigned = shipped.provision(lambda _: None)
    assert unsigned is not None and "as pinned" in str(unsigned)
    with pytest.raises(InvalidInputError, match="as pinned"):
        run("sign", "--shipped")
    assert cli.main() == 0, "set-up goes on"
    assert refused(Verifier(physical=False), folder / "manifest.json") is Reason.UNSIGNED


def test_going_back_to_an_older_release_is_a_new_signature_by_setup(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path)
    for content in (b"old", b"new", b"old"):
        (folder / "manifest.json").write_bytes(content)
        monkeypatch.setattr(shipped, "PINS", shipped.found())
        shipped.provision(lambda _: None)
        assert verified_bytes(folder / "manifest.json", Kind.MODEL, physical=False) == content
    (folder / "manifest.json").write_bytes(b"new")
    assert refused(Verifier(physical=False), folder / "manifest.json") is Reason.ROLLED_BACK, "without set-up"


def test_every_model_and_skill_that_ships_is_pinned() -> None:
    try:
        folder = resource_path("models")
    except InvalidInputError:
        assert pins.PINS == {}
        return
    missing = {name for name in pins.PINS if not (folder / name).exists()}
    assert not missing, "pinned, and not there: `tether sign --pin`"
    assert shipped.found() == pins.PINS, "run `tether sign --pin` after a release of a model"


def test_no_private_key_is_in_the_repository() -> None:
    root = Path(__file__).resolve().parents[2]
    mark = b"-----BEGIN " + b"PRIVATE KEY"
    for folder in ("src", "config", "models", "tests", "docs", "docker", "launch", "scripts", "ros2_ws/src"):
        for path in (root / folder).rglob("*") if (root / folder).is_dir() else ():
            if path.is_file() and path.stat().st_size < 100_000:
                assert mark not in path.read_bytes(), path


def test_keys_of_a_machine_stay_out_of_git() -> None:
    ignored = (Path(trust.__file__).parent / ".gitignore").read_text().split()
    assert ignored == ["/machine_keys.json"]


# Commands


def test_sign_and_verify_for_this_machine(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path)
    monkeypatch.setattr(shipped, "PINS", {})
    assert run("verify", str(folder)) == 1
    assert run("sign", "--shipped") == 0
    assert run("sign", str(folder)) == 0
    assert run("verify", str(folder)) == 0
    assert run("verify", "--physical", str(folder)) == 1
    out = capsys.readouterr().out
    assert "unsigned" in out and "good: model" in out and "development_key" in out


def test_a_robots_owner_signs_elsewhere_and_installs_the_public_half(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, key = model(tmp_path), tmp_path / "robot.key"
    assert run("sign", "--make-key", str(key)) == 0
    assert run("sign", "--key", str(key), "--name", "eyes", "--release", "1", str(folder)) == 0
    assert run("verify", "--physical", str(folder)) == 1
    assert run("sign", "--install-key", f"{key}.pub") == 0
    assert run("verify", "--physical", str(folder)) == 0
    assert run("sign", "--key", str(key), "--revoke", json.loads((folder / "manifest.json.sig").read_text())["sha256"],
               "--reason", "drops cubes") == 0  # fmt: skip
    assert run("verify", "--physical", str(folder)) == 1
    assert "drops cubes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["sign"],
        ["sign", "--shipped", "x"],
        ["sign", "--key", "k", "x"],
        ["sign", "--revoke", "abc", "--reason", "r"],
        ["sign", "--revoke", "0" * 64],
        ["sign", "--accept-floors"],
        ["verify", "--state", "nowhere"],
    ],
)
def test_commands_that_make_no_sense_are_refused_in_words(state: Path, words: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        run(*words)


def test_verify_shows_critical_state_and_what_is_wrong_with_it(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tether.integrity.critical import INITIAL
    from tether.integrity.store import Store

    folder = tmp_path / "critical"
    with Store(folder, INITIAL, 1) as store:
        store.put({"held_object": b"cube"}, 2)
    assert run("verify", "--state", str(folder)) == 0
    assert "held_object: cube" in capsys.readouterr().out
    (folder / "anchor").unlink()
    assert run("verify", "--state", str(folder)) == 1
    assert "anchor_missing" in capsys.readouterr().out
    assert not (folder / "anchor").exists(), "looking changes nothing"


def test_an_onnx_model_with_data_in_other_files_is_not_signed(tmp_path: Path, keys: Keys) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"...\x0a\x08location\x12\x0cweights.data...")
    with pytest.raises(InvalidInputError, match="external data"):
        sign_file(path, Kind.MODEL, keys.release, "m", 1)


def test_signing_the_same_content_again_keeps_its_signature(state: Path, tmp_path: Path, keys: Keys) -> None:
    path = model(tmp_path) / "manifest.json"
    first = sign_locally(path, Kind.MODEL, keys.development)
    assert sign_locally(path, Kind.MODEL, keys.development) == first
    path.write_bytes(b"other")
    assert sign_locally(path, Kind.MODEL, keys.development).statement.version == first.statement.version + 1


def test_a_signature_beside_a_file_that_was_changed_does_not_hide_the_machines_own(
    state: Path, tmp_path: Path, keys: Keys
) -> None:
    path = made(tmp_path / "m", b"as released", keys.release)
    path.write_bytes(b"changed here")
    verifier = Verifier(physical=False, keys=keys.trusted, state=state)
    assert refused(verifier, path) is Reason.CHANGED
    sign_locally(path, Kind.MODEL, keys.development)
    assert verifier.load(path, Kind.MODEL).data == b"changed here"
