"""fetch through the live graph with a memory: begun, learnt and kept as in the core loop, safe where an agent dies."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyoxigraph", reason="needs the extra agent")

from graph_tools import Listener, processes_in, wait_for

from tether import topics
from tether.agent.domain import Domain, load_domain
from tether.agent.evaluation import Ran, Setting, episodes
from tether.agent.graph_run import GraphRun, run_graph
from tether.agent.injection import Mishap
from tether.agent.machine import Machine, pruned
from tether.check import check_bag
from tether.cli import main
from tether.eval.graph import GraphRunError
from tether.memory.ledger import Ledger
from tether.memory.link import MemoryServer
from tether.memory.long_term import LongTermMemory
from tether.signing.ecdsa import PrivateKey
from tether.signing.trust import Purpose, TrustedKey

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(1500)]

KEY = PrivateKey.generate()
KEYS = {KEY.public.id: TrustedKey(KEY.public, Purpose.DEVELOPMENT)}
DOMAIN = load_domain()
CLASSIC = Setting("fetch", "fetch", "real", "classic", False, (Mishap.NONE, Mishap.SLIP, Mishap.WORKER_KILLED))


def opened(folder: Path) -> LongTermMemory:
    """A test's own memory, whose clock of the wall counts from one number."""
    stamps = itertools.count(1_700_000_000)
    ledger = Ledger(folder / "memory", KEY, KEYS, folder / "state")
    return LongTermMemory(folder, DOMAIN, commit="c0ffee", wall_ns=lambda: next(stamps), ledger=ledger)


def ways(domain: Domain, *excluded: str) -> dict[str, str]:
    return dict(pruned(domain, Machine(4000, camera=True, fp16=False, gpu=False), excluded=excluded).ways)


def through_the_graph(run: GraphRun, folder: Path) -> list[Ran]:
    with opened(folder) as memory, MemoryServer(memory, DOMAIN, folder / "socket") as server:
        return run_graph(replace(run, memory=server.path), lambda one: None)


def kept(folder: Path) -> list[tuple[str, Any, Any]]:
    """All entries: kind, body, provenance."""
    with opened(folder) as memory:
        return [(entry.kind, dict(entry.body), dict(entry.provenance)) for entry in memory.ledger.entries]


def alike(folder: Path, ran: Sequence[Ran]) -> list[tuple[str, Any, Any]]:
    """The entries with what differs between core and graph taken out: the core's task ids tell the mishap, too, and
    its clock begins anew with each episode."""
    entries = kept(folder)
    begun_ns: dict[str, int] = {}
    for _, body, provenance in entries:
        for fields in (body, provenance):
            for one in ran:
                if "run" in fields:
                    fields["run"] = fields["run"].replace(f"fetch-{one.mishap}-{one.seed}@", f"fetch-{one.seed}@")
        if "run" in body:
            begin_ns = begun_ns.setdefault(body["run"], body["stamp_ns"])
            body["stamp_ns"] -= begin_ns
            for fact in body["facts"]:
                fact["stamp_ns"] -= begin_ns
    return entries


def named(ran: Sequence[Ran]) -> list[Ran]:
    """Failures without what follows their names, which tells process ids."""
    return [replace(one, failure=None if one.failure is None else one.failure.partition(" (")[0]) for one in ran]


@pytest.mark.usefixtures("domain")
def test_the_graph_begins_and_learns_as_the_core_loop_and_its_recording_is_rebuilt(tmp_path: Path) -> None:
    seeds = range(4)
    with opened(tmp_path / "core") as memory:
        core = list(episodes(CLASSIC, DOMAIN, ways(DOMAIN, "student"), seeds, None, memory))
    (tmp_path / "graph").mkdir()
    run = GraphRun(CLASSIC, seeds, lockstep=True, bag=tmp_path / "bag")
    ran = through_the_graph(run, tmp_path / "graph")

    assert named(ran) == named(core)
    assert [one.recalled is not None for one in ran] == [False, True, True, True]
    assert alike(tmp_path / "graph", ran) == alike(tmp_path / "core", core)
    report = check_bag(tmp_path / "bag")
    assert report.identical, report.as_table()


def test_an_agent_that_is_killed_loses_and_doubles_nothing_and_the_next_one_goes_on(
    domain: int, tmp_path: Path
) -> None:
    setting = replace(CLASSIC, mishaps=(Mishap.NONE,))
    run = GraphRun(setting, range(5), lockstep=True)
    failed: list[str] = []

    def go() -> None:
        try:
            through_the_graph(run, tmp_path)
        except GraphRunError as error:
            failed.append(str(error))

    with Listener(domain, heard=[topics.SKILL_ORDER]) as listener:
        thread = threading.Thread(target=go)
        thread.start()
        wait_for(
            "the second task", lambda: any("fetch-1/" in h.msg.call_id for h in listener.heard(topics.SKILL_ORDER)), 300
        )
        (pid,) = [int(line.split()[0]) for line in processes_in(domain) if line.split()[1] == "agent"]
        os.kill(pid, signal.SIGKILL)
        thread.join(300.0)
        assert not thread.is_alive()
    assert "agent" in failed[0]

    def runs() -> Counter[str]:
        return Counter(body["run"].partition("@")[0] for kind, body, _ in kept(tmp_path) if kind == "state")

    (first,) = runs().items()
    assert first[0] == "fetch-0" and first[1] == 6, "the task that had ended is kept, whole and once"
    (again,) = through_the_graph(replace(run, seeds=range(1, 2)), tmp_path)
    assert again.success and again.recalled is not None, "it begins with what the killed agent had learnt"
    assert runs() == {"fetch-0": 6, "fetch-1": 5}


def test_a_memory_that_is_in_use_or_not_to_be_believed_is_refused_before_anything_is_started(
    domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "state"))
    command = ["agent", "run", "fetch", "--graph", "--policy", "classic", "--memory", str(tmp_path / "memory")]
    with opened(tmp_path):
        monkeypatch.setattr("tether.memory.ledger._own_key", lambda state: KEY)
        assert main(command) == 2
        assert "in use by another process" in capsys.readouterr().err
    (tmp_path / "memory" / "ledger.jsonl").write_text("{}\n")
    assert main(command) == 2
    assert "memory refused (malformed)" in capsys.readouterr().err
    assert main([*command[:-2], "--neo4j", "bolt://localhost"]) == 2
    assert "no --memory" in capsys.readouterr().err
    assert processes_in(domain) == []
