"""The gateway in front of a live graph: calls, cancellation, a gateway that is killed, a task's trace in one query."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from graph_tools import processes_in, wait_for

from tether.bench.gateway_process import GatewayProcess
from tether.gateway.cli import GRAPH_SERVICES
from tether.launch.reader import read
from tether.launch.runner import Runner
from tether.memory.redis_server import find_server
from tether.resources import resource_path

pytest.importorskip("redis", reason="needs the extra agent")
pytest.importorskip("fastapi", reason="needs the extra agent")
pytest.importorskip("uvicorn", reason="needs the extra agent")
httpx = pytest.importorskip("httpx", reason="needs the extra agent")
pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_S = 300.0
TASK = "errand"
STEPS = ["find", "approach", "pick", "carry", "place"]


class Client:
    """Somebody who calls skills over HTTP."""

    def __init__(self, gateway: GatewayProcess) -> None:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        self._http = httpx.Client(base_url=gateway.url, headers=headers, timeout=PATIENCE_S, trust_env=False)

    def call(self, call_id: str, skill: str, **parameters: float) -> Any:
        body = {"task_id": TASK, "skill": skill, "timeout_s": 200.0, "call_id": call_id, "parameters": parameters}
        answer = self._http.post("/calls", json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()

    def seen(self, call_id: str) -> Any:
        return self._http.get(f"/calls/{call_id}").json()

    def ended(self, call_id: str) -> Any:
        """The call once it is over, also across a gateway that is started anew meanwhile."""
        states = "done", "failed", "cancelled", "timed_out", "outcome_unknown"
        wait_for(f"the end of {call_id}", lambda: self.seen(call_id)["state"] in states, PATIENCE_S)
        return self.seen(call_id)

    def run(self, task_id: str) -> Any:
        return self._http.post("/runs", json={"task": "fetch", "task_id": task_id}).json()

    def run_seen(self, task_id: str) -> Any:
        return self._http.get(f"/runs/{task_id}").json()

    def cancel(self, call_id: str) -> None:
        assert self._http.post(f"/calls/{call_id}/cancel").status_code == 200

    def trace(self, recording: bool = True, task_id: str = TASK) -> Any:
        return self._http.get(f"/tasks/{task_id}/trace", params={"recording": recording}).json()

    def happened(self, call_id: str) -> list[str]:
        return [event["event"] for event in self.trace(recording=False)["events"] if event["call"] == call_id]


@contextmanager
def served(domain: int, folder: Path) -> Iterator[GatewayProcess]:
    """A gateway in front of a live graph in lockstep, which is recorded."""
    arguments = {"policy": "classic", "serve": "true", "mode": "lockstep", "episodes": "50", "domain": str(domain)}
    plan = read(resource_path("launch", "agent.launch.xml"), {**arguments, "bag": str(folder / "bag")})
    words = ("--bag", str(folder / "bag"))
    gateway = GatewayProcess(folder, services=GRAPH_SERVICES, workers=1, concurrency=4, words=words)
    try:
        with Runner(plan, log_dir=folder):
            gateway.start()
            yield gateway
    finally:
        gateway.stop()
    assert processes_in(domain) == []


def test_calls_over_http_run_on_the_live_graph_and_outlive_the_gateway(domain: int) -> None:
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")
    with tempfile.TemporaryDirectory(prefix="tether-gg-") as folder, served(domain, Path(folder)) as gateway:
        client = Client(gateway)
        client.call("look", "find")
        found = client.ended("look")
        assert found["state"] == "done", found
        assert {fact["name"] for fact in found["outcome"]["facts"] if fact["value"] is True} >= {"seen", "robot_ok"}

        client.call("too-early", "place", x=0.215, y=-0.085, z=0.02)
        refused = client.ended("too-early")
        assert refused["state"] == "failed"
        assert "refused" in refused["outcome"]["failure"]

        client.call("cancelled", "approach")
        wait_for("feedback", lambda: "feedback" in client.happened("cancelled"))
        client.cancel("cancelled")
        assert client.ended("cancelled")["state"] == "cancelled"

        client.call("above", "approach")
        assert client.ended("above")["state"] == "done"
        client.call("grip", "pick")
        wait_for("feedback", lambda: "feedback" in client.happened("grip"))
        for pid in gateway.worker_pids():
            os.kill(pid, signal.SIGKILL)
        gateway.kill()
        gateway.start()
        picked = client.ended("grip")
        assert picked["state"] == "done", (picked, client.trace())
        held = {fact["name"] for fact in picked["outcome"]["facts"] if fact["value"] is True}
        assert "holding" in held, (picked, client.trace())
        told = client.happened("grip")
        assert told.count("begun") == 1, "what had begun was verified, not run again"
        assert told.index("uncertain") < told.index("verifying") < told.index("verified") < told.index("done")

        trace = client.trace()
        assert trace["recording"]["fault"] is None
        recorded = [entry["call"] for entry in trace["recording"]["entries"]]
        assert recorded == ["look", "cancelled", "above", "grip"]
        assert {"accepted", "begun", "feedback", "cancel_asked", "done"} <= {one["event"] for one in trace["events"]}


def test_fetch_over_http_is_planned_from_the_sensors_and_done_by_the_live_graph(domain: int) -> None:
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")
    with tempfile.TemporaryDirectory(prefix="tether-gg-") as folder, served(domain, Path(folder)) as gateway:
        client = Client(gateway)
        begun = client.run("f1")
        assert [step["skill"] for step in begun["plan"]] == STEPS, begun
        wait_for("the end of the run", lambda: client.run_seen("f1")["state"] != "running", PATIENCE_S)
        ended = client.run_seen("f1")
        assert (ended["state"], ended["failure"]) == ("done", None), ended
        edges = ended["graph"]["edges"]
        assert [edge["skill"] for edge in edges if edge["status"] == "done"] == STEPS
        last = {fact["name"]: fact["value"] for fact in ended["graph"]["nodes"][-1]["facts"]}
        assert last["placed"] is True
        trace = client.trace(task_id="f1")
        calls = [event["call"] for event in trace["events"] if event["event"] == "begun"]
        assert len(calls) == len(set(calls)), "no call was begun twice"
        assert [entry["call"] for entry in trace["recording"]["entries"] if entry["event"] == "call"] == calls


def test_a_call_whose_agent_is_killed_ends_as_unknown_by_its_name_and_is_not_run_again(domain: int) -> None:
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")
    with tempfile.TemporaryDirectory(prefix="tether-gg-") as folder, served(domain, Path(folder)) as gateway:
        client = Client(gateway)
        client.call("look", "find")
        assert client.ended("look")["state"] == "done"
        client.call("above", "approach")
        wait_for("feedback", lambda: "feedback" in client.happened("above"))
        (pid,) = [int(line.split()[0]) for line in processes_in(domain) if line.split()[1] == "agent"]
        os.kill(pid, signal.SIGKILL)
        lost = client.ended("above")
        assert lost["state"] == "outcome_unknown", lost
        assert lost["outcome"]["failure"].startswith("agent_lost")
        assert client.happened("above").count("begun") == 1
        client.call("after", "find")
        after = client.ended("after")
        assert after["state"] == "failed", after
        assert "no agent" in after["outcome"]["failure"]
