"""A workstation and a robot on this machine, each with keys, state and folders of its own; the ways between them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # test folders are no packages; deploy_parts is shared by their modules

from deploy_parts import Robot, Sshd, Workstation

from tether.resources import resource_path
from tether.signing import trust
from tether.signing.ecdsa import PrivateKey
from tether.signing.trust import Purpose, install_key


@pytest.fixture(scope="session")
def robot_key() -> PrivateKey:
    return PrivateKey.generate()


@pytest.fixture
def workstation(tmp_path: Path, robot_key: PrivateKey, monkeypatch: pytest.MonkeyPatch) -> Workstation:
    """This process: it trusts the robot's key, and has the shipped configuration and one signed model to send."""
    folder = tmp_path / "workstation"
    folder.mkdir()
    monkeypatch.delenv("TETHER_RESOURCES", raising=False)
    monkeypatch.setenv("TETHER_STATE", str(folder / "state"))
    monkeypatch.setattr(trust, "MACHINE_KEYS", folder / "machine_keys.json")
    install_key(robot_key.public, Purpose.ROBOT)
    shutil.copytree(resource_path("config"), folder / "config")
    shutil.copytree(resource_path("models", "teacher"), folder / "models" / "teacher")
    station = Workstation(folder, robot_key)
    station.sign(1)
    return station


@pytest.fixture
def robot(tmp_path: Path, robot_key: PrivateKey) -> Robot:
    """A robot that trusts its key: a `tether` command with a state and machine keys of its own."""
    folder = tmp_path / "robot"
    folder.mkdir()
    install_key(robot_key.public, Purpose.ROBOT, folder / "machine_keys.json")
    (folder / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
        from pathlib import Path
        from tether.signing import trust
        trust.MACHINE_KEYS = Path({str(folder / "machine_keys.json")!r})
        """)
    )
    source = Path(__file__).resolve().parents[2] / "src"
    command = folder / "tether"
    command.write_text(
        "#!/bin/sh\n"
        f"export PYTHONPATH='{folder}:{source}' TETHER_STATE='{folder}/state' OMP_NUM_THREADS=1\n"
        f"""exec '{sys.executable}' -c 'import sys; from tether.cli import main; sys.exit(main())' "$@"\n"""
    )
    command.chmod(0o755)
    # Instead of ssh: the same command line, read by a shell as sshd has it read.
    shell = folder / "ssh"
    shell.write_text('#!/bin/sh\nfor last in "$@"; do :; done\nexec sh -c "$last"\n')
    shell.chmod(0o755)
    return Robot(folder)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A real sshd on a free port of the loopback address, with keys made for this test."""
    server = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if server is None or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("needs sshd, ssh and ssh-keygen: apt-get install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd confines its unprivileged half
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, timeout=30)
    shutil.copy(folder / "client.pub", folder / "authorized")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    host_key = (folder / "host.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key[0]} {host_key[1]}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([server, "-D", "-e", "-f", str(config)], stderr=log, stdin=subprocess.DEVNULL)
        try:
            _wait_for(port, process, folder / "log")
            yield Sshd(folder, port)
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail(f"sshd did not come up:\n{log.read_text()}")
