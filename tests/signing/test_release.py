"""A team's release key: into the package, to what ships, to the next key, and away once it was stolen."""

from __future__ import annotations

import argparse
import runpy
import shutil
from pathlib import Path

import pytest
from signing_parts import Keys, executed, made, refused

from tether.errors import InvalidInputError
from tether.signing import cli, release, release_keys, revocations, shipped
from tether.signing.ecdsa import PrivateKey
from tether.signing.floors import Floors
from tether.signing.revocations import (
    Revocations,
    install_newer,
    install_revocations,
    read_revocations,
    revocations_path,
    write_revocations,
)
from tether.signing.statement import Reason, SignatureRefusedError
from tether.signing.trust import Purpose, install_key, trusted_keys
from tether.signing.verify import Verifier


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's source of release keys, a copy; `released` reads it as a process that starts then would."""
    copy = tmp_path / "release_keys.py"
    shutil.copy(release.SOURCE, copy)
    monkeypatch.setattr(release, "SOURCE", copy)
    return copy


def released(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_keys, "RELEASE_KEYS", runpy.run_path(str(source))["RELEASE_KEYS"])


def pinned_model(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models" / "eyes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_bytes(content)
    monkeypatch.setattr(shipped, "PINS", shipped.found())
    return folder


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["sign", *words])
    return int(arguments.run(arguments))


def make_key(tmp_path: Path, name: str) -> tuple[Path, str]:
    """A private key's path and id, made by the command."""
    path = tmp_path / name
    assert run("--make-key", str(path)) == 0
    return path, PrivateKey.load(path).public.id


def test_a_release_key_is_issued_rotated_and_retired(
    state: Path, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = source.read_text()
    (old, old_id), (new, new_id) = make_key(tmp_path, "old.key"), make_key(tmp_path, "new.key")
    folder = pinned_model(tmp_path, b"1", monkeypatch)
    manifest = folder / "manifest.json"

    assert run("--add-release-key", f"{old}.pub") == 0
    released(source, monkeypatch)
    assert run("--shipped", "--key", str(old), "--release", "1") == 0
    assert executed(Verifier(physical=True), manifest) == b"1", "a robot runs what was released"
    before = tmp_path / "before"
    shutil.copytree(folder, before)

    assert run("--add-release-key", f"{new}.pub") == 0
    released(source, monkeypatch)
    assert set(trusted_keys()) == {old_id, new_id}
    pinned_model(tmp_path, b"2", monkeypatch)
    assert run("--shipped", "--key", str(new), "--release", "2") == 0
    assert executed(Verifier(physical=True), manifest) == b"2"
    assert executed(Verifier(physical=True), before / "manifest.json") == b"1", (
        "both keys, while both are in the source"
    )

    assert run("--remove-key", old_id) == 0
    released(source, monkeypatch)
    assert set(trusted_keys()) == {new_id}
    assert executed(Verifier(physical=True), manifest) == b"2"
    assert refused(Verifier(physical=True), before / "manifest.json") is Reason.UNKNOWN_KEY
    assert run("--remove-key", new_id) == 0
    assert source.read_text() == empty


def test_a_release_goes_on_counting_and_an_older_one_is_refused(
    state: Path, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = make_key(tmp_path, "release.key")
    run("--add-release-key", f"{key}.pub")
    released(source, monkeypatch)
    for number in (1, 2):
        folder = pinned_model(tmp_path, b"%d" % number, monkeypatch)
        run("--shipped", "--key", str(key), "--release", str(number))
        executed(Verifier(physical=True), folder / "manifest.json")
        shutil.copytree(folder, tmp_path / f"release{number}")
    assert refused(Verifier(physical=True), tmp_path / "release1" / "manifest.json") is Reason.ROLLED_BACK


def test_nothing_is_released_that_would_not_verify(
    state: Path, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _ = make_key(tmp_path, "release.key")
    folder = pinned_model(tmp_path, b"1", monkeypatch)
    with pytest.raises(InvalidInputError, match="comes first"):
        run("--shipped", "--key", str(key), "--release", "1")
    run("--add-release-key", f"{key}.pub")
    released(source, monkeypatch)
    (folder / "manifest.json").write_bytes(b"not what was pinned")
    with pytest.raises(InvalidInputError, match="as pinned"):
        run("--shipped", "--key", str(key), "--release", "1")
    for words in (["--release", "1", "--name", "eyes"], []):
        with pytest.raises(InvalidInputError, match="--release"):
            run("--shipped", "--key", str(key), *words)
    assert [path.name for path in folder.iterdir()] == ["manifest.json"], "nothing is signed"


def test_a_key_of_this_machine_is_no_release_key(state: Path, tmp_path: Path, source: Path) -> None:
    key, key_id = make_key(tmp_path, "robot.key")
    run("--install-key", f"{key}.pub")
    with pytest.raises(InvalidInputError, match="a robot key of this machine"):
        run("--add-release-key", f"{key}.pub")
    assert run("--remove-key", key_id) == 0
    assert trusted_keys() == {}
    with pytest.raises(InvalidInputError, match="a key in this package"):
        run("--remove-key", key_id)
    assert run("--add-release-key", f"{key}.pub") == 0


# Revocation


def test_a_stolen_key_cannot_take_its_revocation_back(keys: Keys, tmp_path: Path, state: Path) -> None:
    robot, path = Verifier(physical=True, keys=keys.trusted), state / "revocations.json"
    theirs = made(tmp_path / "theirs", b"x", keys.robot)
    write_revocations(path, Revocations(1, {}, {keys.robot.public.id: "the laptop was stolen"}), keys.release)
    assert refused(robot, theirs) is Reason.REVOKED
    write_revocations(path, Revocations(2), keys.robot)
    assert refused(robot, theirs) is Reason.REVOCATIONS, "a list by the thief"
    write_revocations(path, Revocations(2, {"0" * 64: "test"}), keys.release)
    assert executed(robot, theirs) == b"x", "whoever holds another key may say that it was a mistake"
    write_revocations(path, Revocations(3), keys.robot)
    assert refused(robot, theirs) is Reason.REVOCATIONS, "but lists it never signs again"


def test_no_list_revokes_the_key_that_it_is_signed_with(keys: Keys, tmp_path: Path, state: Path) -> None:
    with pytest.raises(InvalidInputError, match="another key"):
        write_revocations(tmp_path / "list.json", Revocations(1, {}, {keys.robot.public.id: "old"}), keys.robot)
    assert not (tmp_path / "list.json").exists()


def test_a_list_that_was_brought_is_taken_only_from_a_robots_or_release_key_and_never_an_older_one(
    keys: Keys, tmp_path: Path, state: Path
) -> None:
    brought = tmp_path / "brought.json"
    for sequence, key, reason in ((1, keys.stranger, "test"), (1, keys.development, "test")):
        write_revocations(brought, Revocations(sequence, {"0" * 64: reason}), key)
        with pytest.raises(SignatureRefusedError):
            install_revocations(brought, keys.trusted)
    assert not revocations_path().exists()
    write_revocations(brought, Revocations(2, {"0" * 64: "second"}), keys.release)
    assert install_revocations(brought, keys.trusted).sequence == 2
    write_revocations(brought, Revocations(1, {"0" * 64: "first"}), keys.release)
    with pytest.raises(SignatureRefusedError):
        install_revocations(brought, keys.trusted)
    with Floors() as floors:
        kept = read_revocations(revocations_path(), keys.trusted, floors, physical=True)
    assert kept.sha256 == {"0" * 64: "second"}
    assert sorted(p.name for p in state.iterdir() if p.name.startswith("revocations")) == ["revocations.json"]


def test_a_list_travels_from_the_workstation_to_the_robot(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = PrivateKey.generate(), PrivateKey.generate()
    new.save(tmp_path / "new.key")
    for key in (old, new):
        install_key(key.public, Purpose.ROBOT)
    model = made(tmp_path / "m", b"x", old)
    assert run("--key", str(tmp_path / "new.key"), "--revoke", old.public.id, "--reason", "stolen") == 0
    workstation = revocations_path()
    assert str(workstation) in capsys.readouterr().out
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "robot"))
    assert executed(Verifier(physical=True), model) == b"x"
    assert run("--install-revocations", str(workstation)) == 0
    assert refused(Verifier(physical=True), model) is Reason.REVOKED


def test_a_list_whose_installation_is_cut_short_leaves_the_one_before_in_force(
    keys: Keys, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = tmp_path / "brought.json"
    write_revocations(brought, Revocations(1, {"0" * 64: "first"}), keys.release)
    install_revocations(brought, keys.trusted)
    write_revocations(brought, Revocations(2, {"0" * 64: "second"}), keys.release)

    def cut(source: Path, target: Path) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(revocations.os, "replace", cut)
        with pytest.raises(OSError):
            install_revocations(brought, keys.trusted)
    with Floors() as floors:
        assert read_revocations(revocations_path(), keys.trusted, floors, physical=True).sequence == 1


def test_a_list_that_came_along_is_taken_only_where_it_is_newer_and_heals_one_that_is_gone(
    keys: Keys, tmp_path: Path, state: Path
) -> None:
    brought = tmp_path / "brought.json"
    write_revocations(brought, Revocations(2, {"0" * 64: "second"}), keys.release)
    taken = install_newer(brought, keys.trusted)
    assert taken is not None
    assert taken.sequence == 2
    assert install_newer(brought, keys.trusted) is None
    revocations_path().unlink()
    assert install_newer(brought, keys.trusted) is not None
    write_revocations(brought, Revocations(1, {"0" * 64: "first"}), keys.release)
    assert install_newer(brought, keys.trusted) is None
