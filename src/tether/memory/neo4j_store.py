"""The graph of semantic memory on a Neo4j server, for those who have one, asked in Cypher. Needs the extra `neo4j`.

    (:TetherThing {memory, name, kind, states, x, y …})-[:PART_OF]->(:TetherThing)
    (:TetherThing)-[:RELATES {name}]->(:TetherThing)              what holds now; of one thing alone: in its `states`
    (:TetherStatement {memory, name, subject, relation, object, fact, holds, stamp_ns, source, confidence, run, entry,
                       commit})-[:SUPERSEDED_BY]->(:TetherStatement)

`memory` keeps apart several on one server, and is the parameter `$memory` of every question. All text that is sent is
constant, and what is said goes into its parameters.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Coroutine, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tether.errors import Fault, InvalidInputError
from tether.memory.graph_store import Changes, GraphStoreError, Rows

_LOG = logging.getLogger(__name__)
SCHEMES = ("neo4j", "neo4j+s", "bolt", "bolt+s")
USER, PASSWORD = "TETHER_NEO4J_USER", "TETHER_NEO4J_PASSWORD"
"""Environment variables of the credentials; both unset for a server without."""
_CONNECT_S, _RETRY_S, _DEADLINE_S = 5.0, 1.0, 30.0
_ASKED_WRONGLY = ("Statement", "Procedure")
"""Of the codes `Neo.ClientError.*`, those that are the question's and not the server's or the account's."""
_FORM = f"{'://, '.join(SCHEMES)}://, with a host"
_FIX = "pip install 'tether-robotics[neo4j]', or leave the URL out for the embedded graph"
_SERVER_FIX = f"start the server, mend the URL, or set ${USER} and ${PASSWORD}; the embedded graph needs none"

INDEXES = (
    "CREATE INDEX tether_thing IF NOT EXISTS FOR (n:TetherThing) ON (n.memory, n.name)",
    "CREATE INDEX tether_statement IF NOT EXISTS FOR (n:TetherStatement) ON (n.memory, n.name)",
)
"""They make it quicker only: a server that refuses them is used without."""
CLEAR = (
    "MATCH (n:TetherThing {memory: $memory}) DETACH DELETE n",
    "MATCH (n:TetherStatement {memory: $memory}) DETACH DELETE n",
)
THINGS = (
    "UNWIND $rows AS row MERGE (n:TetherThing {memory: $memory, name: row.name}) "
    "SET n += row.values, n.kind = row.kind, n.states = coalesce(n.states, [])"
)
PARTS = (
    "UNWIND $rows AS row MATCH (n:TetherThing {memory: $memory, name: row.name}) "
    "MATCH (o:TetherThing {memory: $memory, name: row.of}) MERGE (n)-[:PART_OF]->(o)"
)
STATEMENTS = "UNWIND $rows AS row MERGE (n:TetherStatement {memory: $memory, name: row.name}) SET n += row"
SUPERSEDED = (
    "UNWIND $rows AS row MATCH (n:TetherStatement {memory: $memory, name: row.old}) "
    "MATCH (o:TetherStatement {memory: $memory, name: row.new}) MERGE (n)-[:SUPERSEDED_BY]->(o)"
)
RELATED = (
    "UNWIND $rows AS row MATCH (n:TetherThing {memory: $memory, name: row.subject}) "
    "MATCH (o:TetherThing {memory: $memory, name: row.object}) MERGE (n)-[:RELATES {name: row.relation}]->(o)"
)
UNRELATED = (
    "UNWIND $rows AS row MATCH (n:TetherThing {memory: $memory, name: row.subject})"
    "-[r:RELATES {name: row.relation}]->(o:TetherThing {memory: $memory, name: row.object}) DELETE r"
)
IN_STATE = (
    "UNWIND $rows AS row MATCH (n:TetherThing {memory: $memory, name: row.subject}) "
    "SET n.states = [s IN n.states WHERE s <> row.relation] + [row.relation]"
)
NOT_IN_STATE = (
    "UNWIND $rows AS row MATCH (n:TetherThing {memory: $memory, name: row.subject}) "
    "SET n.states = [s IN n.states WHERE s <> row.relation]"
)


class Neo4jStore:
    """See `tether.memory.graph_store.GraphStore`. Whatever the server does, a call ends within 30 s."""

    def __init__(self, url: str, memory: str) -> None:
        """Raises GraphStoreError: URL, credentials, driver. The server is first asked by `apply` or `query`."""
        parts = _checked(url)
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._memory, self._cleared = memory, False
        self._driver_package = _package()
        self._bounded = self._driver_package.unit_of_work(timeout=_DEADLINE_S)
        """Has the server end what nobody waits for any more."""
        logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)  # hints, as that a graph is empty yet
        self._loop = asyncio.new_event_loop()
        database = self._driver_package.AsyncGraphDatabase
        try:
            self._bookmarks = database.bookmark_manager()
            self._driver = database.driver(
                self.address, auth=credentials(os.environ), connection_timeout=_CONNECT_S,
                connection_acquisition_timeout=2 * _CONNECT_S, max_transaction_retry_time=_RETRY_S,
                telemetry_disabled=True,
            )  # fmt: skip
        except BaseException as error:
            self._loop.close()
            if isinstance(error, (self._driver_package.exceptions.DriverError, ValueError)):
                raise GraphStoreError("Neo4j", [Fault("URL", str(error), _FORM)]) from None
            raise

    def apply(self, changes: Changes) -> None:
        """See `GraphStore`. The first removes what an earlier opening left of this memory."""
        work = [(text, list[dict[str, Any]]()) for text in (() if self._cleared else CLEAR)] + writes(changes)
        self._wait(self._write(work))
        self._cleared = True

    def query(self, text: str) -> Rows:
        """Answer of Cypher that only reads: columns → texts, nodes and relationships by name; `$memory` is ours."""
        exceptions = self._driver_package.exceptions
        try:
            rows: Rows = self._wait(self._read(text))
            return rows
        except GraphStoreError as error:
            cause = error.__cause__
            if isinstance(cause, exceptions.ClientError) and cause.category in _ASKED_WRONGLY:
                fault = Fault("Cypher", str(cause.message), "Cypher that reads, with no parameter but $memory")
                raise InvalidInputError("query", [fault]) from None
            raise

    def close(self) -> None:
        """See `GraphStore`."""
        if not self._loop.is_closed():
            try:
                self._wait(self._driver.close())
            finally:
                self._loop.close()

    async def _write(self, work: list[tuple[str, list[dict[str, Any]]]]) -> None:
        async with self._session() as session:
            if not self._cleared:
                await self._make_indexes(session)
            await session.execute_write(self._bounded(self._run_all), work)

    async def _make_indexes(self, session: Any) -> None:
        exceptions = self._driver_package.exceptions
        for text in INDEXES:  # each in a transaction of its own: Neo4j makes none beside data
            try:
                await session.execute_write(self._bounded(self._run_all), [(text, [])])
            except exceptions.AuthError:
                raise
            except exceptions.Neo4jError as error:
                _LOG.info("%s makes no index, and is used without: %s", self.address, error.message)

    async def _run_all(self, transaction: Any, work: list[tuple[str, list[dict[str, Any]]]]) -> None:
        for text, rows in work:
            await (await transaction.run(text, memory=self._memory, rows=rows)).consume()

    async def _read(self, text: str) -> Rows:
        async def ask(transaction: Any) -> Rows:
            answer = await transaction.run(text, memory=self._memory)
            return [{k: _text(v) for k, v in record.items() if v is not None} async for record in answer]

        async with self._session(default_access_mode=self._driver_package.READ_ACCESS) as session:
            rows: Rows = await session.execute_read(self._bounded(ask))
            return rows

    def _session(self, **options: Any) -> Any:
        """One that sees what the one before wrote, whichever member of a cluster it is led to."""
        return self._driver.session(bookmark_manager=self._bookmarks, **options)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, _DEADLINE_S))
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise self._refused(f"no answer within {_DEADLINE_S:g} s") from error
        except Exception as error:  # the driver lets through what answers that are no Bolt make of its own code
            raise self._refused(f"{type(error).__name__}: {error}") from error

    def _refused(self, found: str) -> GraphStoreError:
        return GraphStoreError("Neo4j", [Fault(self.address, " ".join(found.split()), "a server")], _SERVER_FIX)


def writes(changes: Changes) -> list[tuple[str, list[dict[str, Any]]]]:
    """(Cypher, its `$rows`) for what has changed, in the order in which it is to be sent."""
    things = [{"name": t.name, "kind": t.kind, "values": dict(t.values), "of": t.of} for t in changes.things]
    holding = [
        ({"subject": subject, "relation": relation, "object": target}, holds)
        for (subject, relation, target), holds in changes.holding.items()
    ]
    work = [
        (THINGS, things),
        (PARTS, [row for row in things if row["of"]]),
        (STATEMENTS, [asdict(statement) for statement in changes.statements]),
        (SUPERSEDED, [{"old": old, "new": new} for old, new in changes.superseded]),
        (UNRELATED, [row for row, holds in holding if row["object"] and not holds]),
        (RELATED, [row for row, holds in holding if row["object"] and holds]),
        (NOT_IN_STATE, [row for row, holds in holding if not row["object"] and not holds]),
        (IN_STATE, [row for row, holds in holding if not row["object"] and holds]),
    ]
    return [(text, rows) for text, rows in work if rows]


def credentials(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """User and password from the environment; None where neither is set. GraphStoreError where one of them is."""
    user, password = environment.get(USER, ""), environment.get(PASSWORD, "")
    if bool(user) != bool(password):
        fault = Fault("credentials", f"only ${USER if user else PASSWORD}", f"both ${USER} and ${PASSWORD}, or neither")
        raise GraphStoreError("Neo4j", [fault])
    return (user, password) if user else None


def _checked(url: str) -> SplitResult:
    """Says nothing of a URL beyond its scheme: there may be a password in it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise GraphStoreError("Neo4j", [Fault("URL", "no host or port that can be", _FORM)]) from None
    if parts.scheme not in SCHEMES:
        raise GraphStoreError("Neo4j", [Fault("URL", f"scheme {parts.scheme!r}", _FORM)])
    if "@" in parts.netloc:
        fault = Fault("URL", "credentials in it", "none, as URLs get into logs")
        raise GraphStoreError("Neo4j", [fault], f"set ${USER} and ${PASSWORD}")
    if not host or parts.path.strip("/") or parts.query or parts.fragment:
        raise GraphStoreError("Neo4j", [Fault("URL", "no host, or more than host and port", _FORM)])
    return parts


def _package() -> Any:
    try:
        return importlib.import_module("neo4j")
    except ImportError as error:
        fault = Fault("driver", f"{error.name or error} is not installed", "the package neo4j")
        raise GraphStoreError("Neo4j", [fault], _FIX) from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value)
    if hasattr(value, "element_id"):  # a node or a relationship
        return str(value.get("name", value.element_id))
    return str(value)
