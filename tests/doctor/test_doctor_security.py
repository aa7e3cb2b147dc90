"""Findings on security: what Fast DDS was built with, who sees the graph, whose the key is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tether.doctor import security
from tether.doctor.finding import Status
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
        (WITH, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, Status.OK),
    ],
)
def test_fast_dds_without_security_is_said_and_fails_only_where_it_is_asked_for(
    make_machine: Any, tmp_path: Path, content: bytes, environ: dict[str, str], status: Status
) -> None:
    library(tmp_path, content)
    (finding,) = security.dds_security(make_machine(environ=environ))
    assert finding.status is status
    assert ("without it" in finding.found) == (content is WITHOUT)


def test_no_fast_dds_is_a_finding_not_a_crash(make_machine: Any) -> None:
    (finding,) = security.dds_security(make_machine())
    assert finding.status is Status.WARN


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
