from __future__ import annotations

import time
from collections.abc import Callable

import pytest

pytest.importorskip("redis", reason="needs the extra agent")

from tether.agent.calls import Outcome, Status
from tether.gateway.journal import GatewayJournal, WorkerJournal
from tether.gateway.records import Answer, Effect, GatewayConfig
from tether.memory.redis_server import RedisServer, connect

Run = Callable[..., None]
BEAT = {"pid": 1, "host": "h", "created_s": 0.0, "beat_steady_ns": 0, "turns": 1, "calls": 0, "verifies": True}


async def offer(
    journal: GatewayJournal, call_id: str, *, x: float = 1.0, source: str = "arm", s: float = 60.0
) -> Answer:
    return (await journal.accept(call_id, "fetch-1", "pick", {"x_m": x}, source, s))[0]


async def state(journal: GatewayJournal, call_id: str) -> str:
    record = await journal.call(call_id)
    assert record is not None
    return record.state


def done(call_id: str) -> Outcome:
    return Outcome(call_id, Status.DONE)


def passed(server: RedisServer, call_id: str) -> None:
    """Let a call's deadline have passed ten seconds ago."""
    client, deadline_ns = connect(server.url), time.monotonic_ns() - 10**10
    client.hset(f"tether:gateway:call:{call_id}", "deadline_ns", deadline_ns)
    client.zadd("tether:gateway:open", {call_id: deadline_ns})


def cool(server: RedisServer) -> None:
    """Let an edge have been opened a minute ago."""
    connect(server.url).hset("tether:gateway:edge:arm>pick", "opened_ns", time.monotonic_ns() - 60 * 10**9)


@pytest.fixture
def worker(redis_server: RedisServer) -> WorkerJournal:
    return WorkerJournal(connect(redis_server.url), "w1")


@pytest.fixture
def other(redis_server: RedisServer) -> WorkerJournal:
    return WorkerJournal(connect(redis_server.url), "w2")


def take(worker: WorkerJournal, room: int = 8, known: tuple[str, ...] = (), *, verifies: bool = True) -> list[str]:
    return [
        ("verify " if j.verify else "") + j.call.call_id for j in worker.poll(room, known, BEAT, verifies=verifies).jobs
    ]


def test_a_call_offered_twice_is_one_call_and_another_under_its_id_is_refused(
    with_journal: Run, worker: WorkerJournal
) -> None:
    async def story(journal: GatewayJournal) -> None:
        assert await offer(journal, "c1") is Answer.ACCEPTED
        assert await offer(journal, "c1") is Answer.KNOWN
        assert await offer(journal, "c1", x=2.0) is Answer.CONFLICT
        assert await offer(journal, "c1", source="base") is Answer.CONFLICT
        assert take(worker) == ["c1"]
        assert worker.begin("c1", 1)
        worker.finish("c1", 1, done("c1"), verifies=True)
        assert await offer(journal, "c1") is Answer.KNOWN
        assert take(worker) == []

    with_journal(story, GatewayConfig())


def test_a_full_queue_and_a_busy_client_are_told_so_and_nothing_is_taken_on(with_journal: Run) -> None:
    async def story(journal: GatewayJournal) -> None:
        assert await offer(journal, "c1") is Answer.ACCEPTED
        assert await offer(journal, "c2") is Answer.ACCEPTED
        assert await offer(journal, "c3") is Answer.BUSY
        assert await offer(journal, "c4", source="base") is Answer.ACCEPTED
        assert await offer(journal, "c5", source="base") is Answer.FULL
        assert await journal.call("c3") is None
        assert await journal.cancel("c1", "arm") == "cancelled"
        assert await offer(journal, "c3") is Answer.ACCEPTED

    with_journal(story, GatewayConfig(queue_max=3, client_max=2))


def test_calls_whose_answer_was_lost_come_again(with_journal: Run, worker: WorkerJournal) -> None:
    async def story(journal: GatewayJournal) -> None:
        for n in range(3):
            await offer(journal, f"c{n}")
        assert take(worker, room=2) == ["c0", "c1"]
        assert take(worker, room=2, known=("c0",)) == ["c1"]
        assert take(worker, room=2, known=("c0", "c1")) == []

    with_journal(story, GatewayConfig())


def test_a_dead_workers_calls_are_queued_again_if_not_begun_and_verified_if_begun(
    with_journal: Run, worker: WorkerJournal, other: WorkerJournal
) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "begun")
        await offer(journal, "taken")
        assert take(worker) == ["begun", "taken"]
        assert worker.begin("begun", 1)
        await journal.lose("w1", fenced=True, why="killed", forget=True)
        assert not worker.begin("taken", 1)
        assert take(other) == ["verify begun", "taken"]
        other.verified("begun", 1, Effect.HAPPENED, (), 3)
        assert await state(journal, "begun") == "done"
        assert other.begin("taken", 1)

    with_journal(story, GatewayConfig())


def test_an_absent_effect_is_tried_again_under_an_id_of_its_own_until_attempts_end(
    with_journal: Run, worker: WorkerJournal
) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "c1")
        for attempt, name in ((1, "c1"), (2, "c1#2")):
            assert take(worker) == [name]
            assert worker.begin("c1", attempt)
            await journal.lose("w1", fenced=True, why="killed", forget=True)
            assert take(worker) == [f"verify {name}"]
            worker.verified("c1", attempt, Effect.ABSENT, (), 2)
        record = await journal.call("c1")
        assert record is not None and record.outcome is not None
        assert (record.state, record.outcome.failure) == ("failed", "killed, 2 times; its effect is absent")

    with_journal(story, GatewayConfig())


@pytest.mark.parametrize(("fenced", "effect"), [(False, Effect.ABSENT), (True, Effect.UNKNOWN)])
def test_what_may_still_happen_or_cannot_be_seen_is_never_tried_again(
    with_journal: Run, worker: WorkerJournal, other: WorkerJournal, fenced: bool, effect: Effect
) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "c1")
        take(worker)
        assert worker.begin("c1", 1)
        await journal.lose("w1", fenced=fenced, why="silent", forget=True)
        assert take(other) == ["verify c1"]
        other.verified("c1", 1, effect, (), 3)
        assert await state(journal, "c1") == "outcome_unknown"
        worker.finish("c1", 1, done("c1"), verifies=True)  # it was alive after all
        assert await state(journal, "c1") == "done"

    with_journal(story, GatewayConfig())


def test_without_anybody_who_verifies_an_uncertain_call_ends_as_unknown(
    with_journal: Run, worker: WorkerJournal, other: WorkerJournal
) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "c1")
        take(worker)
        assert worker.begin("c1", 1)
        await journal.lose("w1", fenced=True, why="killed", forget=True)
        assert take(other, verifies=False) == []
        assert await journal.sweep(can_verify=False) == 1
        assert await state(journal, "c1") == "outcome_unknown"

    with_journal(story, GatewayConfig())


def test_an_outcome_of_an_attempt_that_was_given_up_changes_nothing(
    with_journal: Run, worker: WorkerJournal, other: WorkerJournal
) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "c1")
        take(worker)
        assert worker.begin("c1", 1)
        await journal.lose("w1", fenced=True, why="killed", forget=True)
        take(other)
        other.verified("c1", 1, Effect.ABSENT, (), 3)
        worker.finish("c1", 1, done("c1"), verifies=True)
        assert await state(journal, "c1") == "queued"
        assert "late_outcome" in [e["event"] for e in await journal.trace("fetch-1")]

    with_journal(story, GatewayConfig())


def test_an_edge_that_fails_too_often_opens_lets_one_trial_through_and_closes_when_it_is_done(
    with_journal: Run, worker: WorkerJournal, redis_server: RedisServer
) -> None:
    async def run(journal: GatewayJournal, call_id: str, status: Status) -> None:
        assert await offer(journal, call_id) is Answer.ACCEPTED
        take(worker)
        assert worker.begin(call_id, 1)
        failure = None if status is Status.DONE else "slipped"
        worker.finish(call_id, 1, Outcome(call_id, status, failure), verifies=False)

    async def story(journal: GatewayJournal) -> None:
        await run(journal, "c1", Status.FAILED)
        await run(journal, "c2", Status.TIMED_OUT)
        answer, wait_s = await journal.accept("c3", "fetch-1", "pick", {}, "arm", 60.0)
        assert answer is Answer.OPEN and 0.0 < wait_s <= 30.0
        assert await offer(journal, "c3", source="base") is Answer.ACCEPTED  # another edge
        await journal.cancel("c3", "base")
        cool(redis_server)
        await run(journal, "trial", Status.FAILED)
        assert await offer(journal, "c4") is Answer.OPEN
        cool(redis_server)
        assert await offer(journal, "trial2") is Answer.ACCEPTED
        assert await offer(journal, "c5") is Answer.OPEN  # one trial at a time
        take(worker)
        assert worker.begin("trial2", 1)
        worker.finish("trial2", 1, done("trial2"), verifies=False)
        assert await offer(journal, "c6") is Answer.ACCEPTED

    with_journal(story, GatewayConfig(edge_failures_max=2, edge_cool_s=30.0))


def test_deadlines_end_what_waits_and_what_does_not_answer(
    with_journal: Run, worker: WorkerJournal, redis_server: RedisServer
) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "runs")
        take(worker)
        assert worker.begin("runs", 1)
        await offer(journal, "waits")
        for call_id in ("runs", "waits"):
            passed(redis_server, call_id)
        await journal.sweep(can_verify=True)
        assert await state(journal, "waits") == "timed_out"
        assert await state(journal, "runs") == "outcome_unknown"
        worker.finish("runs", 1, done("runs"), verifies=True)
        assert await state(journal, "runs") == "done"

    with_journal(story, GatewayConfig())


def test_no_call_outlives_its_task_and_a_missed_deadline_is_on_record(
    with_journal: Run, worker: WorkerJournal, redis_server: RedisServer
) -> None:
    async def story(journal: GatewayJournal) -> None:
        assert await journal.open_task("fetch-1", "arm", 30.0) == "opened"
        assert await journal.open_task("fetch-1", "arm", 90.0) == "known"
        await offer(journal, "c1", s=60.0)
        record = await journal.call("c1")
        assert record is not None and record.deadline_steady_ns < time.monotonic_ns() + 31 * 10**9
        take(worker)
        assert worker.begin("c1", 1)
        assert await journal.close_task("fetch-1", "arm") == "open_calls"
        client, past_ns = connect(redis_server.url), time.monotonic_ns() - 1
        client.zadd("tether:gateway:tasks", {"fetch-1": past_ns})
        client.hset("tether:gateway:task:fetch-1", "deadline_ns", past_ns)
        assert await offer(journal, "c2") is Answer.LATE
        await journal.sweep(can_verify=True)
        assert worker.poll(8, ("c1",), None, verifies=True).cancels == {"c1"}
        assert await journal.close_task("fetch-1", "arm") == "deadline_missed"
        assert (await journal.counts())["tasks_missed"] == 1

    with_journal(story, GatewayConfig())


def test_cancelling_ends_what_waits_and_tells_what_runs(with_journal: Run, worker: WorkerJournal) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "runs")
        take(worker)
        assert worker.begin("runs", 1)
        await offer(journal, "waits")
        assert await journal.cancel("waits", "arm") == "cancelled"
        assert await journal.cancel("runs", "arm") == "cancelling"
        assert await journal.cancel("nobody", "arm") == "unknown"
        assert worker.poll(8, ("runs",), None, verifies=True).cancels == {"runs"}
        worker.finish("runs", 1, Outcome("runs", Status.CANCELLED, "cancelled"), verifies=True)
        assert await journal.cancel("runs", "arm") == "cancelled"
        assert take(worker) == []

    with_journal(story, GatewayConfig())


def test_after_a_boot_what_waited_fails_by_name_and_what_had_begun_is_unknown(
    with_journal: Run, worker: WorkerJournal, redis_server: RedisServer
) -> None:
    async def story(journal: GatewayJournal) -> None:
        assert await journal.boot() == 0
        await offer(journal, "runs")
        take(worker)
        assert worker.begin("runs", 1)
        await offer(journal, "waits")
        assert await journal.boot() == 0
        connect(redis_server.url).set("tether:gateway:boot", "another boot")
        assert await journal.boot() == 2
        assert (await state(journal, "runs"), await state(journal, "waits")) == ("outcome_unknown", "failed")

    with_journal(story, GatewayConfig())


def test_a_tasks_trace_comes_in_one_query_and_in_order(with_journal: Run, worker: WorkerJournal) -> None:
    async def story(journal: GatewayJournal) -> None:
        await offer(journal, "c1")
        take(worker)
        worker.begin("c1", 1)
        worker.note("fetch-1", "c1", "log", "INFO arm: closing the gripper")
        worker.finish("c1", 1, done("c1"), verifies=True)
        events = [(e["event"], e["call"], e["who"]) for e in await journal.trace("fetch-1")]
        assert events == [("accepted", "c1", "arm"), ("begun", "c1", "w1"), ("log", "c1", "w1"), ("done", "c1", "w1")]

    with_journal(story, GatewayConfig())
