"""The gateway's HTTP interface: register, list, plan, call, cancel, trace. Call `make_app`; see docs/gateway.md."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path as FolderPath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tether import __version__
from tether.errors import Fault, InvalidInputError
from tether.gateway.bodies import NAME, CallBody, PlanBody, RunBody, SkillBody, TaskBody
from tether.gateway.faults import REFUSALS, AdmissionLimit, add_handlers, refused
from tether.gateway.journal import GatewayJournal
from tether.gateway.recorded import recorded_trace
from tether.gateway.records import Answer, CallRecord, GatewayConfig, call_fields
from tether.gateway.runs import RunRequest, TaskRuns, run_fields
from tether.gateway.services import Services, SkillInfo, parameter_faults
from tether.gateway.supervisor import Supervisor, WorkerConfig
from tether.gateway.tasks import deadline_of, task_fields
from tether.gateway.tokens import Tokens
from tether.gateway.watch import Waiters, Watch

WAIT_MAX_S = 30.0
_BEARER = HTTPBearer(auto_error=False, description="a token that `tether gateway --make-token` made")
Id = Annotated[str, Path(pattern=NAME)]
WaitS = Annotated[float, Query(ge=0.0, le=WAIT_MAX_S, allow_inf_nan=False)]


class Gateway:
    """What the requests share. client: a `redis.asyncio.Redis`."""

    def __init__(
        self,
        client: Any,
        services: Services,
        tokens: Tokens,
        config: GatewayConfig,
        workers: WorkerConfig | None,
        bag: FolderPath | None,
    ) -> None:
        self.config, self.services, self.tokens, self.bag = config, services, tokens, bag
        self.journal = GatewayJournal(client, config)
        self.waiters = Waiters(client, self.journal)
        self.watch = Watch(self.journal, config)
        self.runs = TaskRuns(self.journal, services)
        self.supervisor = None if workers is None else Supervisor(self.journal, workers)
        self.began_s = time.monotonic()

    def skill(self, name: str) -> SkillInfo:
        """A registered skill. Raises InvalidInputError."""
        known = {skill.name: skill for skill in self.services.catalogue.skills()}
        if name not in known:
            raise InvalidInputError("call", [Fault("skill", name, f"one of {', '.join(sorted(known)) or 'none'}")])
        return known[name]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Workers, watch and waiters, while the service runs."""
        await self.journal.boot()
        for name, text in (await self.journal.declarations()).items():
            if name not in {skill.name for skill in self.services.catalogue.skills()}:
                await asyncio.to_thread(self.services.catalogue.register, text)
        tasks = [asyncio.create_task(self.waiters.listen()), asyncio.create_task(self.watch.run())]
        if self.supervisor is not None:
            self.supervisor.start()
        await self.runs.resume()
        try:
            yield
        finally:
            await self.runs.close()
            if self.supervisor is not None:
                await self.supervisor.close()
            await _end(tasks)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for _ in range(20):  # a wait with a time limit that runs out at that moment may swallow a cancellation
        waiting = [task for task in tasks if not task.done()]
        if not waiting:
            return
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=0.5)


def make_app(
    client: Any,
    services: Services,
    tokens: Tokens,
    config: GatewayConfig | None = None,
    workers: WorkerConfig | None = None,
    bag: FolderPath | None = None,
) -> FastAPI:
    """The ASGI application. workers: those it starts and keeps; None where they are somebody else's. bag: a recording
    that traces tell of, too, while it grows."""
    gateway = Gateway(client, services, tokens, config or GatewayConfig(), workers, bag)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with gateway.running():
            yield

    app = FastAPI(title="Tether gateway", version=__version__, lifespan=lifespan, redoc_url=None)
    app.state.gateway = gateway
    app.add_middleware(AdmissionLimit, requests_max=gateway.config.requests_max)
    app.include_router(_routes())
    add_handlers(app)
    return app


def _gateway(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


def _client(
    gateway: Annotated[Gateway, Depends(_gateway)],
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> str:
    client = None if given is None else gateway.tokens.client(given.credentials)
    if client is None:
        raise HTTPException(401, "no token, or nobody's", {"WWW-Authenticate": "Bearer"})
    return client


G = Annotated[Gateway, Depends(_gateway)]
Client = Annotated[str, Depends(_client)]


def _routes() -> APIRouter:
    router = APIRouter(responses={code: {"description": text} for code, text in REFUSALS.items()})
    add = router.add_api_route
    add("/health", health, summary="Whether calls are taken; needs no token")
    add("/status", status, summary="Agents, edges and counts")
    add("/skills", list_skills, summary="Skills that are registered")
    add("/skills", register, methods=["POST"], status_code=201, summary="Prove and register a skill")
    add("/plan", plan, methods=["POST"], summary="Steps that lead from the facts to a task's goal")
    add("/tasks", open_task, methods=["POST"], status_code=201, summary="Open a task with an end-to-end deadline")
    add("/tasks/{task_id}", task, summary="A task, its deadline and its calls")
    add("/tasks/{task_id}/close", close_task, methods=["POST"], summary="A task is over")
    add("/tasks/{task_id}/trace", trace, summary="Everything on record of a task, in order")
    add("/runs", run, methods=["POST"], status_code=202, summary="Plan a whole task and run it")
    add("/runs/{task_id}", run_record, summary="A run: its plan, and its graph and outcome once it is over")
    add("/runs/{task_id}/cancel", cancel_run, methods=["POST"], summary="Cancel a run")
    add("/calls", call, methods=["POST"], status_code=202, summary="Call a skill; on 202 the call is on the disk")
    add("/calls/{call_id}", call_record, summary="A call; with wait_s, once it is over")
    add("/calls/{call_id}/cancel", cancel, methods=["POST"], summary="Cancel a call")
    return router


async def health(gateway: G) -> dict[str, Any]:
    """Answers 503 while the journal is gone."""
    counts = await gateway.journal.counts()
    return {"version": __version__, "up_s": time.monotonic() - gateway.began_s, "open": counts["open"]}


async def status(gateway: G, _: Client) -> dict[str, Any]:
    """What an operator looks at first."""
    now_ns, offline = time.monotonic_ns(), gateway.watch.offline()
    agents = [
        {"name": a.name, "host": a.host, "pid": a.pid, "calls": a.calls, "verifies": a.verifies,
         "silent_s": (now_ns - a.beat_steady_ns) * 1e-9, "offline": a.name in offline}
        for a in await gateway.journal.agents()
    ]  # fmt: skip
    restarts = 0 if gateway.supervisor is None else gateway.supervisor.restarts
    counts, edges = await gateway.journal.counts(), await gateway.journal.edges()
    return {"agents": agents, "edges": edges, "counts": counts, "worker_restarts": restarts}


def list_skills(gateway: G, _: Client) -> list[dict[str, Any]]:
    """Names, versions, parameters with bounds and units."""
    return [asdict(skill) for skill in gateway.services.catalogue.skills()]


async def register(gateway: G, _: Client, body: SkillBody) -> dict[str, Any]:
    """422 with the proof's reason where it is refused."""
    skill = await asyncio.to_thread(gateway.services.catalogue.register, body.declaration)
    await gateway.journal.keep_declaration(skill.name, body.declaration)
    return asdict(skill)


def plan(gateway: G, _: Client, body: PlanBody) -> dict[str, Any]:
    """422 where no plan leads there, and why."""
    return {
        "task": body.task,
        "steps": [asdict(step) for step in gateway.services.catalogue.plan(body.task, body.facts)],
    }


async def open_task(gateway: G, client: Client, body: TaskBody) -> dict[str, Any]:
    """409 where calls of this task came before it was opened; 422 where its deadline is above the declared one."""
    timeout_s = deadline_of(gateway.services.catalogue, body.task, body.timeout_s)
    task_id = body.task_id or f"task-{secrets.token_hex(8)}"
    answer = await gateway.journal.open_task(task_id, client, timeout_s)
    if answer == "begun":
        raise HTTPException(409, f"task {task_id} was begun without a deadline; open it before its first call")
    return {"task_id": task_id, "opened": answer == "opened", "timeout_s": timeout_s}


async def task(gateway: G, _: Client, task_id: Id) -> dict[str, Any]:
    """in_time, slack_s: null while it is open or has no deadline; request: what a person is asked once it is missed."""
    found = await gateway.journal.task(task_id)
    if found is None:
        raise HTTPException(404, f"no task {task_id}")
    fields, records = found
    return task_fields(task_id, fields, records, time.monotonic_ns())


async def close_task(gateway: G, client: Client, task_id: Id) -> dict[str, Any]:
    """409 while calls of it are not over."""
    answer = await gateway.journal.close_task(task_id, client)
    if answer == "unknown":
        raise HTTPException(404, f"no task {task_id}")
    if answer == "open_calls":
        raise HTTPException(409, f"task {task_id} has calls that are not over; cancel them or wait")
    return {"task_id": task_id, "in_time": answer == "in_time"}


async def trace(gateway: G, _: Client, task_id: Id, recording: bool = True) -> dict[str, Any]:
    """Events of gateway and workers, feedback and log records: stamp_ns of the wall clock, steady_ns of the machine.

    recording: what the graph's nodes said of it, world_ns of the world's clock; null where the gateway was given none,
    or with recording=false, since a long one takes long to read.
    """
    entries = await gateway.journal.trace(task_id)
    if not entries:
        raise HTTPException(404, f"no task {task_id}")
    numbers = ("stamp_ns", "steady_ns")
    events = [{k: int(v) if k in numbers else v for k, v in entry.items()} for entry in entries]
    ids = {task_id, *(entry["call"] for entry in entries if entry["call"])}
    bag = gateway.bag if recording else None
    recorded = None if bag is None else await asyncio.to_thread(recorded_trace, bag, ids)
    return {"task_id": task_id, "events": events, "recording": recorded}


async def run(gateway: G, client: Client, body: RunBody) -> dict[str, Any]:
    """422 where no plan leads from the facts to its goal, and why. The same run offered again is the same run."""
    task_id = body.task_id or f"run-{secrets.token_hex(8)}"
    known = await gateway.journal.run(task_id)
    if known is not None:
        asked = RunRequest.unpacked(known["request"])
        if (asked.task, asked.parameters, asked.source) != (body.task, body.parameters, client):
            raise HTTPException(409, f"task {task_id} is another run")
        return run_fields(task_id, known)
    domain = gateway.runs.domain()
    deadline_s = deadline_of(gateway.services.catalogue, body.task, body.timeout_s)
    facts = await gateway.runs.facts(body.facts)
    request = RunRequest(task_id, body.task, body.parameters, facts, client, deadline_s, time.monotonic_ns())
    plan = await asyncio.to_thread(gateway.runs.plan, domain, request)
    if await gateway.journal.open_task(task_id, client, deadline_s) == "begun":
        raise HTTPException(409, f"task {task_id} was begun by calls of its own")
    await gateway.runs.begin(request, plan)
    return await run_record(gateway, client, task_id)


async def run_record(gateway: G, _: Client, task_id: Id) -> dict[str, Any]:
    """state: running, then done, failed (its failure says why, request what a person is asked) or cancelled."""
    fields = await gateway.journal.run(task_id)
    if fields is None or "request" not in fields:
        raise HTTPException(404, f"no run {task_id}")
    return run_fields(task_id, fields)


async def cancel_run(gateway: G, client: Client, task_id: Id) -> dict[str, Any]:
    """The call at work is cancelled, and the run is over once its state says so."""
    await run_record(gateway, client, task_id)
    await gateway.runs.cancel(task_id)
    return await run_record(gateway, client, task_id)


async def call(gateway: G, client: Client, response: Response, body: CallBody, wait_s: WaitS = 0.0) -> dict[str, Any]:
    """With wait_s it answers once the call is over, or after that long with its state then."""
    skill = gateway.skill(body.skill)
    faults = parameter_faults(skill, body.parameters)
    if faults:
        raise InvalidInputError("call", faults)
    call_id = body.call_id or f"call-{secrets.token_hex(12)}"
    answer, number = await gateway.journal.accept(
        call_id, body.task_id, body.skill, body.parameters, client, body.timeout_s
    )
    if answer not in (Answer.ACCEPTED, Answer.KNOWN):
        raise refused(answer, number, call_id, f"{client} → {body.skill}")
    record = await gateway.waiters.wait(call_id, wait_s)
    response.headers["Location"] = f"/calls/{call_id}"
    return _fields(record, call_id)


async def call_record(gateway: G, _: Client, call_id: Id, wait_s: WaitS = 0.0) -> dict[str, Any]:
    """state: queued, taken, running, uncertain, verifying; then done, failed, cancelled, timed_out, outcome_unknown."""
    return _fields(await gateway.waiters.wait(call_id, wait_s), call_id)


async def cancel(gateway: G, client: Client, call_id: Id) -> dict[str, Any]:
    """What runs is told to end, and is over once its state says so."""
    state = await gateway.journal.cancel(call_id, client)
    if state == "unknown":
        raise HTTPException(404, f"no call {call_id}")
    return {"call_id": call_id, "state": state}


def _fields(record: CallRecord | None, call_id: str) -> dict[str, Any]:
    if record is None:
        raise HTTPException(404, f"no call {call_id}")
    return call_fields(record, time.monotonic_ns())
