from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis", reason="needs the extra agent")
pytest.importorskip("fastapi", reason="needs the extra agent")
pytest.importorskip("httpx", reason="needs the extra agent")

from tether.errors import InvalidInputError
from tether.gateway.records import GatewayConfig
from tether.gateway.tokens import Tokens, make_token

Make = Callable[..., Any]


def call(call_id: str, work_ms: float = 0.0, task_id: str = "t1", **more: Any) -> dict[str, Any]:
    return {
        "call_id": call_id,
        "task_id": task_id,
        "skill": "mark",
        "timeout_s": 60,
        "parameters": {"work_ms": work_ms},
    } | more


def tell(served: Any, story: Callable[[Any], Coroutine[Any, Any, None]], *, worker: bool = True) -> None:
    async def told() -> None:
        async with served.running(worker=worker) as client:
            await story(client)

    asyncio.run(told())


async def until_running(client: Any, call_id: str) -> None:
    for _ in range(600):
        if (await client.get(f"/calls/{call_id}")).json()["state"] == "running":
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{call_id} was never begun")


def test_a_call_is_run_once_and_its_task_is_traced_in_one_query(served: Make) -> None:
    here = served()

    async def story(client: Any) -> None:
        for _ in range(2):
            reply = await client.post("/calls", json=call("c1"), params={"wait_s": 30})
            assert reply.status_code == 202
            assert reply.json()["outcome"] == {"call_id": "c1", "status": "done", "failure": None, "facts": []}
        assert here.marks.count("c1") == 1
        events = (await client.get("/tasks/t1/trace")).json()["events"]
        assert {"accepted", "begun", "done"} <= {event["event"] for event in events}
        assert (await client.get("/tasks/t1")).json()["calls"][0]["state"] == "done"
        assert (await client.post("/tasks/t1/close")).json() == {"task_id": "t1", "in_time": True}
        assert (await client.post("/calls", json=call("c2"))).status_code == 409

    tell(here, story)


def test_an_outcome_that_whoever_ran_the_call_still_knows_ends_it_by_its_name(served: Make) -> None:
    from tether.agent.calls import Outcome, Status
    from tether.gateway.services import Services

    class Lost:
        """Its answer did not come; asked again, it knows how the call ended."""

        def execute(self, call: Any, on_feedback: Any, cancelled: Any) -> Outcome:
            return Outcome(call.call_id, Status.OUTCOME_UNKNOWN, "agent_lost")

        def verify(self, call: Any) -> Outcome:
            return Outcome(call.call_id, Status.FAILED, "nowhere")

    here = served()
    here.services = Services(Lost(), here.marks, Lost())

    async def story(client: Any) -> None:
        reply = (await client.post("/calls", json=call("c1"), params={"wait_s": 30})).json()
        assert (reply["state"], reply["outcome"]["failure"], reply["attempt"]) == ("failed", "nowhere", 1)
        events = [event["event"] for event in (await client.get("/tasks/t1/trace")).json()["events"]]
        assert events.index("uncertain") < events.index("verifying") < events.index("answered_late")

    tell(here, story)


def test_fifty_calls_at_a_time_all_end_and_each_is_run_once(served: Make) -> None:
    here = served()

    async def story(client: Any) -> None:
        asked = (client.post("/calls", json=call(f"c{n}", 5.0), params={"wait_s": 30}) for n in range(60))
        replies = await asyncio.gather(*asked)
        assert {reply.status_code for reply in replies} == {202}
        for n in range(60):
            assert (await client.get(f"/calls/c{n}", params={"wait_s": 30})).json()["state"] == "done"
        assert [here.marks.count(f"c{n}") for n in range(60)] == [1] * 60

    tell(here, story)


def test_whoever_has_no_token_learns_nothing_but_health(served: Make) -> None:
    async def story(client: Any) -> None:
        for token in ("", "Bearer nobody", "Basic x"):
            headers = {"Authorization": token}
            for path in ("/skills", "/status", "/calls/c1", "/tasks/t1/trace"):
                assert (await client.get(path, headers=headers)).status_code == 401
            assert (await client.post("/calls", headers=headers, json=call("c1"))).status_code == 401
        assert (await client.get("/health", headers={"Authorization": ""})).status_code == 200

    tell(served(), story, worker=False)


def test_a_method_that_a_path_has_not_is_refused_with_all_that_it_has(served: Make) -> None:
    async def story(client: Any) -> None:
        for path, allowed in (("/skills", "GET, POST"), ("/calls/c1/cancel", "POST"), ("/tasks/t1", "GET")):
            reply = await client.request("DELETE", path)
            assert (reply.status_code, reply.headers["Allow"]) == (405, allowed)

    tell(served(), story, worker=False)


def test_skills_are_listed_planned_and_refused_with_the_reason(served: Make) -> None:
    async def story(client: Any) -> None:
        skills = (await client.get("/skills")).json()
        assert [skill["name"] for skill in skills] == ["mark"]
        plan = (await client.post("/plan", json={"task": "mark_it", "facts": {}})).json()
        assert plan["steps"] == [{"skill": "mark", "parameters": {"work_ms": 0.0}}]
        refused = await client.post("/skills", json={"declaration": "name: other"})
        assert refused.status_code == 422
        assert refused.json()["detail"]["faults"][0]["where"] == "declaration"

    tell(served(), story, worker=False)


def test_what_is_wrong_with_a_call_is_said_all_at_once_and_nothing_is_begun(served: Make) -> None:
    async def story(client: Any) -> None:
        reply = await client.post("/calls", json=call("c1") | {"parameters": {"work_ms": -1.0, "colour": 2.0}})
        assert reply.status_code == 422
        wheres = {fault["where"] for fault in reply.json()["detail"]["faults"]}
        assert wheres == {"parameters: work_ms", "parameters: colour"}
        assert (await client.post("/calls", json=call("c1", skill="fly"))).status_code == 422
        assert (await client.post("/calls", json=call("c1", more=1))).status_code == 422
        nan = '{"call_id":"c1","task_id":"t","skill":"mark","timeout_s":5,"parameters":{"work_ms":NaN}}'
        assert (await client.post("/calls", content=nan)).status_code == 422
        assert (await client.get("/calls/c1")).status_code == 404

    tell(served(), story, worker=False)


def test_too_many_calls_are_told_when_to_come_again(served: Make) -> None:
    async def story(client: Any) -> None:
        here_headers = {"Authorization": f"Bearer {here.other}"}
        for n in range(2):
            assert (await client.post("/calls", json=call(f"c{n}"))).status_code == 202
        busy = await client.post("/calls", json=call("c2"))
        assert busy.status_code == 429 and int(busy.headers["Retry-After"]) >= 1
        assert (await client.post("/calls", json=call("d1"), headers=here_headers)).status_code == 202
        full = await client.post("/calls", json=call("d2"), headers=here_headers)
        assert full.status_code == 503 and int(full.headers["Retry-After"]) >= 1
        assert (await client.post("/calls", content=b"x" * 300_000)).status_code == 413

    here = served(GatewayConfig(queue_max=3, client_max=2))
    tell(here, story, worker=False)


def test_too_many_requests_at_a_time_are_told_to_come_again(served: Make) -> None:
    async def story(client: Any) -> None:
        assert (await client.post("/calls", json=call("c1"))).status_code == 202
        asked = [client.get("/calls/c1", params={"wait_s": 3}) for _ in range(5)]
        codes = sorted(reply.status_code for reply in await asyncio.gather(*asked))
        assert codes == [200, 200, 503, 503, 503]

    tell(served(GatewayConfig(requests_max=2)), story, worker=False)


def test_a_running_call_can_be_cancelled_and_says_so(served: Make) -> None:
    async def story(client: Any) -> None:
        await client.post("/calls", json=call("c1", 10_000.0))
        await until_running(client, "c1")
        assert (await client.post("/calls/c1/cancel")).json()["state"] == "cancelling"
        ended = (await client.get("/calls/c1", params={"wait_s": 30})).json()
        assert ended["state"] == "cancelled"
        assert here.marks.count("c1") == 0

    here = served()
    tell(here, story)


def test_a_task_has_a_deadline_end_to_end_and_says_whether_it_was_kept(served: Make) -> None:
    async def story(client: Any) -> None:
        opened = (await client.post("/tasks", json={"timeout_s": 60, "task_id": "t9"})).json()
        assert opened == {"task_id": "t9", "opened": True, "timeout_s": 60.0}
        await client.post("/calls", json=call("c1", task_id="t9", timeout_s=600), params={"wait_s": 30})
        told = (await client.get("/tasks/t9")).json()
        assert told["closed"] is False and told["in_time"] is None and told["left_s"] < 60
        assert told["calls"][0]["left_s"] < 60
        await client.post("/tasks/t9/close")
        closed = (await client.get("/tasks/t9")).json()
        assert closed["in_time"] is True and closed["request"] is None
        assert closed["slack_s"] == pytest.approx(60.0 - closed["took_s"])

    tell(served(), story)


def test_a_task_past_its_deadline_is_missed_and_asks_a_person_with_state_and_options(served: Make) -> None:
    async def story(client: Any) -> None:
        await client.post("/tasks", json={"timeout_s": 2.0, "task_id": "t9"})
        await client.post("/calls", json=call("c1", 10_000.0, task_id="t9", timeout_s=600))
        ended = (await client.get("/calls/c1", params={"wait_s": 30})).json()
        assert ended["state"] in ("cancelled", "timed_out")
        told = (await client.get("/tasks/t9")).json()
        assert told["in_time"] is False and told["slack_s"] < 0.0
        assert told["request"]["reason"] == "deadline_missed"
        assert told["request"]["failed"][0].startswith("c1: ")
        assert told["request"]["options"][-1] == "abandon the task"
        events = (await client.get("/tasks/t9/trace")).json()["events"]
        assert "deadline_missed" in [event["event"] for event in events]
        assert (await client.get("/status")).json()["counts"]["tasks_missed"] == 1

    tell(served(), story)


def test_a_task_of_the_domain_has_its_declared_deadline_and_none_above_it(served: Make) -> None:
    async def story(client: Any) -> None:
        assert (await client.post("/tasks", json={"task": "fetch"})).json()["timeout_s"] == 120.0
        assert (await client.post("/tasks", json={"task": "fetch", "timeout_s": 30})).json()["timeout_s"] == 30.0
        above = await client.post("/tasks", json={"task": "fetch", "timeout_s": 121})
        neither = await client.post("/tasks", json={})
        assert above.status_code == neither.status_code == 422
        assert "at most 120 s" in above.text

    tell(served(), story, worker=False)


def test_tokens_that_others_may_read_are_refused(tmp_path: Path) -> None:
    make_token(tmp_path / "tokens", "arm")
    (tmp_path / "tokens" / "arm.token").chmod(0o644)
    with pytest.raises(InvalidInputError, match="permissions 644"):
        Tokens(tmp_path / "tokens")
    with pytest.raises(InvalidInputError):
        Tokens(tmp_path / "none")
    with pytest.raises(InvalidInputError):
        make_token(tmp_path / "tokens", "../arm")
