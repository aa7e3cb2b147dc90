"""Refusals over HTTP: each says what, and when to come again; none is a collapse."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from redis.exceptions import RedisError
from starlette.routing import compile_path

from tether.errors import DeadlineError, InvalidInputError, TetherError
from tether.gateway.records import Answer

BODY_MAX = 256 * 1024
REFUSALS = {
    400: "no HTTP that can be read",
    401: "no token, or nobody's",
    404: "there is none",
    409: "in conflict with what is on record",
    413: f"more than {BODY_MAX} bytes",
    422: "what, found, expected, fix",
    429: "this client has as many calls open as one may; Retry-After says when to come again",
    503: "full, an open edge, or no journal; Retry-After says when to come again",
}
_AGAIN_S = 1
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def refused(answer: Answer, number: float, call_id: str, edge: str) -> HTTPException:
    """The refusal of a call. number: see `GatewayJournal.accept`."""
    again = {"Retry-After": str(_AGAIN_S)}
    if answer is Answer.CONFLICT:
        return HTTPException(409, f"call {call_id} is another one: same id, other task, skill, parameters or client")
    if answer is Answer.CLOSED:
        return HTTPException(409, "the task is over; open another one")
    if answer is Answer.LATE:
        return HTTPException(409, "the task's deadline has passed")
    if answer is Answer.BUSY:
        return HTTPException(429, f"this client has {number:.0f} calls open", again)
    if answer is Answer.FULL:
        return HTTPException(503, f"{number:.0f} calls are open", again)
    wait = {"Retry-After": str(max(1, math.ceil(number)))}
    return HTTPException(503, f"edge {edge} failed too often and is open for another {number:.1f} s", wait)


def add_handlers(app: FastAPI) -> None:
    """Errors as answers. After the routes are in: a refused method is told all that its path has (RFC 9110, 15.5.6),
    where Starlette tells those of one route."""
    app.add_exception_handler(InvalidInputError, _invalid)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(DeadlineError, _later)
    app.add_exception_handler(RedisError, _later)
    app.add_exception_handler(TetherError, _conflict)
    app.add_exception_handler(UnicodeEncodeError, _no_text)
    allowed: dict[str, set[str]] = {}
    for path, operations in app.openapi()["paths"].items():
        allowed[path] = {method.upper() for method in operations}
    matchers = [(compile_path(path)[0], methods) for path, methods in allowed.items()]

    def not_allowed(request: Request, _: Exception) -> JSONResponse:
        methods = next((methods for matcher, methods in matchers if matcher.match(request.url.path)), {"GET"})
        return JSONResponse({"detail": "Method Not Allowed"}, 405, {"Allow": ", ".join(sorted(methods))})

    app.add_exception_handler(405, not_allowed)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InvalidInputError)
    faults = [{"where": f.where, "found": f.found, "expected": f.expected} for f in error.faults]
    return JSONResponse({"detail": {"what": error.what, "faults": faults, "fix": error.fix}}, 422)


def _not_valid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Without what was found: it may be no JSON (NaN), and without end.
    faults = [{"loc": [str(part) for part in each["loc"]], "msg": each["msg"], "type": each["type"]}
              for each in error.errors()]  # fmt: skip
    return JSONResponse({"detail": faults}, 422)


def _later(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": f"not now: {error}"}, 503, {"Retry-After": str(_AGAIN_S)})


def _conflict(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409)


def _no_text(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "a text that is no Unicode"}, 422)


class AdmissionLimit:
    """At most so many requests at work, and bodies of a bounded size; further ones are told to come again."""

    def __init__(self, app: Callable[[_Scope, _Receive, _Send], Awaitable[None]], requests_max: int) -> None:
        self._app, self._max, self._now = app, requests_max, 0

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > BODY_MAX:
            await JSONResponse({"detail": REFUSALS[413]}, 413)(scope, receive, send)
            return
        if self._now >= self._max:
            answer = JSONResponse({"detail": f"{self._now} requests are at work"}, 503, {"Retry-After": str(_AGAIN_S)})
            await answer(scope, receive, send)
            return
        self._now += 1
        try:
            await self._app(scope, _bounded(receive), send)
        finally:
            self._now -= 1


def _bounded(receive: _Receive) -> _Receive:
    """Ends a body without a length that goes on for too long."""
    total = 0

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        return {"type": "http.disconnect"} if total > BODY_MAX else message

    return bounded
