"""Whole tasks over HTTP, on the simulated robot: planned, run by calls of one task id, gone on with, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("redis", reason="needs the extra agent")
pytest.importorskip("fastapi", reason="needs the extra agent")
pytest.importorskip("httpx", reason="needs the extra agent")
pytest.importorskip("mujoco", reason="needs the extra sim")

from tether.agent.domain import load_domain
from tether.agent.services import DomainCatalogue, SimulatedAgent
from tether.gateway.services import Services

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

START = {"robot_ok": True, "camera_ok": True, "gripper_open": True}
FETCH = {"task": "fetch", "task_id": "f1", "facts": START}
STEPS = ["find", "approach", "pick", "carry", "place"]


@pytest.fixture
def here(served: Callable[..., Any]) -> Iterator[Any]:
    """A gateway whose worker has the simulated robot, picking by hand-written skills."""
    domain = load_domain()
    catalogue, agent = DomainCatalogue(domain), SimulatedAgent(domain, policy="classic")
    made = served()
    made.services = Services(agent, catalogue, None, lambda: catalogue.domain)
    yield made
    agent.close()


async def ended(client: Any, task_id: str = "f1") -> Any:
    for _ in range(6000):
        record = (await client.get(f"/runs/{task_id}")).json()
        if record["state"] != "running":
            return record
        await asyncio.sleep(0.05)
    raise AssertionError(f"{task_id} did not end")


async def until_called(client: Any, skill: str) -> None:
    for _ in range(6000):
        calls = (await client.get("/tasks/f1")).json()["calls"]
        if any(call["skill"] == skill and call["state"] == "running" for call in calls):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{skill} was never begun")


async def begun(client: Any) -> list[str]:
    events = (await client.get("/tasks/f1/trace")).json()["events"]
    return [event["call"] for event in events if event["event"] == "begun"]


def test_fetch_is_planned_run_and_told_step_by_step_also_when_the_gateway_ends_meanwhile(here: Any) -> None:
    async def story() -> None:
        async with here.running() as client:
            reply = await client.post("/runs", json=FETCH)
            assert reply.status_code == 202, reply.text
            plan = reply.json()["plan"]
            assert [step["skill"] for step in plan] == STEPS
            assert plan[-1]["achieves"] == ["placed"]
            assert set(plan[0]["requires"]) <= {"camera_ok", "gripper_open", "robot_ok"}
            await until_called(client, "pick")
        async with here.running() as client:
            record = await ended(client)
            assert (record["state"], record["failure"]) == ("done", None), record
            edges = record["graph"]["edges"]
            assert [edge["skill"] for edge in edges if edge["status"] == "done"] == STEPS
            placed = {fact["name"]: fact["value"] for fact in record["graph"]["nodes"][-1]["facts"]}["placed"]
            assert placed is True
            assert record["graphviz"].startswith('digraph "f1"')
            assert record["graph"]["timeliness"]["in_time"] is True
            calls = await begun(client)
            assert len(calls) == len(set(calls)) == len(edges), "gone on with, and nothing was run twice"
            assert (await client.get("/tasks/f1")).json()["in_time"] is True
            assert (await client.post("/runs", json=FETCH)).json() == record
            other = await client.post("/runs", json={**FETCH, "parameters": {"x": 0.2}})
            assert other.status_code == 409

    asyncio.run(story())


def test_a_run_is_cancelled_or_ends_where_it_cannot_begin_with_a_request_to_a_person(here: Any) -> None:
    async def story() -> None:
        async with here.running() as client:
            assert (await client.post("/runs", json=FETCH)).status_code == 202
            await until_called(client, "approach")
            assert (await client.post("/runs/f1/cancel")).status_code == 200
            record = await ended(client)
            assert (record["state"], record["failure"]) == ("cancelled", "cancelled")
            done = [edge["skill"] for edge in record["graph"]["edges"] if edge["status"] == "done"]
            assert done in (STEPS[:1], STEPS[:2]), "the cancellation may come when the approach is just over"

            unseen = {**FETCH, "task_id": "f2", "facts": {**START, "camera_ok": False}}
            assert (await client.post("/runs", json=unseen)).status_code == 202
            record = await ended(client, "f2")
            assert (record["state"], record["request"]["reason"]) == ("failed", "start_not_met")
            assert record["graph"]["edges"] == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"task": "dance"}, "task"),
        ({"facts": None}, "facts"),
        ({"facts": {"hungry": True}}, "facts"),
        ({"parameters": {"x": 9.0}}, "x"),
        ({"timeout_s": 4000.0}, "timeout_s"),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_the_reason_and_leaves_nothing(
    here: Any, change: dict[str, Any], where: str
) -> None:
    async def story() -> None:
        async with here.running() as client:
            reply = await client.post("/runs", json={**FETCH, **change})
            assert reply.status_code == 422, reply.text
            assert where in {fault["where"] for fault in reply.json()["detail"]["faults"]}
            assert (await client.get("/runs/f1")).status_code == 404
            assert (await client.get("/tasks/f1")).status_code == 404

    asyncio.run(story())
