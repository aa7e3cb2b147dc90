"""Findings on security: what Fast DDS was built with, who sees the graph, whose the key is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tether.doctor import security
from tether.doctor.finding import Finding, Status
from tether.enclaves import load_policy
from tether.safety.token import make_key

WITHOUT, WITH = b"\x7fELF eprosima::fastdds", b"\x7fELF eprosima dds.sec.auth.plugin"


def library(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "venv" / "lib"
    folder.mkdir(parents=True)
    (folder / "libfastrtps.so").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "environ", "status"),
    [
        (WITHOUT, {}, Status.OK),
        (WITHOUT, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}, Status.OK),
        (WITHOUT, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, Status.WARN),
        (WITHOUT, {"ROS_SECURITY_ENABLE": "true"}, Status.FAIL),
        (WITH, {"ROS_SECURITY_ENABLE": "true"}, Status.OK),
        (WITH, {}, Status.OK),
        (WITH, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, Status.WARN),
        (WITH, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "ROS_SECURITY_ENABLE": "true"}, Status.OK),
    ],
)
def test_fast_dds_without_security_is_said_and_fails_only_where_it_is_asked_for(
    make_machine: Any, tmp_path: Path, content: bytes, environ: dict[str, str], status: Status
) -> None:
    library(tmp_path, content)
    (finding,) = security.dds_security(make_machine(environ=environ))
    assert finding.status is status
    assert ("without it" in finding.found) == (content is WITHOUT)
    assert ("it is on" in finding.found) == (content is WITH and "ROS_SECURITY_ENABLE" in environ)


def test_no_fast_dds_is_a_finding_not_a_crash(make_machine: Any) -> None:
    (finding,) = security.dds_security(make_machine())
    assert finding.status is Status.WARN


def keystore(tmp_path: Path) -> Path:
    """As `ros2 security generate_artifacts` leaves one; empty files."""
    for enclave in load_policy():
        folder = tmp_path / "keystore" / "enclaves" / enclave.strip("/")
        folder.mkdir(parents=True)
        for name in ("identity_ca.cert", "cert", "key", "permissions_ca.cert"):
            (folder / f"{name}.pem").touch(0o600)
        for name in ("governance", "permissions"):
            (folder / f"{name}.p7s").touch()
    return tmp_path / "keystore"


def test_a_keystore_is_good_only_if_enforced_whole_and_for_one_user_without_the_authority(
    make_machine: Any, tmp_path: Path
) -> None:
    assert not security.enclaves(make_machine())
    folder, on = keystore(tmp_path), {"ROS_SECURITY_ENABLE": "true"}

    def found(**words: str) -> Finding:
        (finding,) = security.enclaves(make_machine(environ={**on, **words}))
        return finding

    enforced = {"ROS_SECURITY_STRATEGY": "Enforce"}
    whole = {**enforced, "ROS_SECURITY_KEYSTORE": str(folder)}
    assert found(ROS_SECURITY_KEYSTORE=str(folder)).status is Status.FAIL
    assert "STRATEGY=Enforce" in found(ROS_SECURITY_STRATEGY="Permissive").fix
    assert found(**enforced).status is Status.FAIL, "no keystore"
    assert found(**whole).status is Status.OK
    (folder / "private").mkdir()
    (folder / "private" / "ca.key.pem").touch()
    assert found(**whole).status is Status.WARN and "off the robot" in found(**whole).fix
    (folder / "enclaves/tether/driver/key.pem").chmod(0o644)
    assert found(**whole).status is Status.FAIL and "driver/key.pem" in found(**whole).found
    (folder / "enclaves/tether/driver/key.pem").unlink()
    assert "generate_artifacts" in found(**whole).fix


def test_key_that_others_may_read_fails_with_the_fix(
    make_machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys" / "key"
    monkeypatch.setenv("TETHER_KEY_FILE", str(path))
    (finding,) = security.call_key(make_machine())
    assert finding.status is Status.OK and "first start" in finding.found
    make_key(path)
    (finding,) = security.call_key(make_machine())
    assert finding.status is Status.OK
    path.chmod(0o644)
    (finding,) = security.call_key(make_machine())
    assert finding.status is Status.FAIL and "chmod 600" in finding.fix
