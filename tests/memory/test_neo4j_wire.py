"""What goes to a Neo4j server over the wire: which Cypher, with what, in which order and transactions, and what is left
of a write that fails. The server answers as one would and understands no Cypher."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyoxigraph", reason="needs the extra agent")
pytest.importorskip("neo4j", reason="needs the extra neo4j")

from bolt_server import BoltServer, Failure, Gone, Nothing, node
from memory_making import ENDS, HOLDS, OPEN, PROVENANCE, SHUT, THINGS, opened, said, state, thing

from tether.errors import InvalidInputError
from tether.memory import neo4j_store
from tether.memory.graph_store import Changes, GraphStoreError
from tether.memory.neo4j_store import CLEAR, INDEXES, Neo4jStore, writes

UNKNOWN = "Neo.DatabaseError.General.UnknownError"


class Meddler:
    """Does something as the nth RUN of a Cypher comes, counted from one, and nothing before and after."""

    def __init__(self, cypher: str, happens: Exception | threading.Event, times: int = 1) -> None:
        self.cypher, self.happens, self.times = cypher, happens, times

    def __call__(self, name: str, fields: list[object]) -> None:
        meant = name == self.cypher or (name == "RUN" and fields[0] == self.cypher)
        if not meant or self.times <= 0:
            return
        self.times -= 1
        if isinstance(self.happens, Exception):
            raise self.happens
        self.happens.wait(60.0)


@pytest.fixture
def server() -> Iterator[BoltServer]:
    with BoltServer().serving() as one:
        yield one
        assert one.faults == []


@pytest.fixture
def store(server: BoltServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Neo4jStore]:
    monkeypatch.setattr(neo4j_store, "_RETRY_S", 0.0)
    one = Neo4jStore(server.url(), "m")
    yield one
    one.close()


def sent(server: BoltServer) -> list[tuple[str, ...]]:
    """The Cypher of each transaction that was committed."""
    return [tuple(text for text, _ in transaction) for transaction in server.committed]


def texts(changes: Changes) -> tuple[str, ...]:
    return tuple(text for text, _ in writes(changes))


FIRST = [(INDEXES[0],), (INDEXES[1],), CLEAR + texts(THINGS)]


# -- What is sent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_the_first_change_clears_and_all_of_a_change_is_one_transaction(server: BoltServer, scheme: str) -> None:
    store = Neo4jStore(server.url(scheme), "m")
    store.apply(THINGS)
    assert sent(server) == FIRST
    store.apply(HOLDS)
    assert sent(server) == [*FIRST, texts(HOLDS)]
    store.close()
    one = ["BEGIN", "RUN", "PULL", "COMMIT"]
    asked = [name for name in server.names() if name != "ROUTE"]
    first, then = ["RUN", "PULL"] * (2 + len(texts(THINGS))), ["RUN", "PULL"] * len(texts(HOLDS))
    assert asked[: 2 + 8] == ["HELLO", "LOGON", *one, *one]
    assert asked[10:][: len(first) + len(then) + 4] == ["BEGIN", *first, "COMMIT", "BEGIN", *then, "COMMIT"]
    assert ("ROUTE" in server.names()) is (scheme == "neo4j")


def test_what_is_said_is_sent_in_parameters(server: BoltServer, store: Neo4jStore) -> None:
    store.apply(THINGS)
    store.apply(HOLDS)
    store.apply(ENDS)
    rows = {text: parameters["rows"] for transaction in server.committed for text, parameters in transaction}
    assert {parameters["memory"] for transaction in server.committed for _, parameters in transaction} == {"m"}
    assert rows[neo4j_store.THINGS][2] == {"name": "spot", "kind": "Place", "of": "", "values": {"x": 0.25, "y": -0.5}}
    assert [row["name"] for row in rows[neo4j_store.PARTS]] == ["arm"]
    assert rows[neo4j_store.STATEMENTS] == [
        {"name": "2-f", "subject": "arm", "relation": "reaches", "object": "spot", "fact": "f", "holds": False,
         "stamp_ns": 2**62 + 1, "source": "joints", "confidence": 0.5, "run": "r'\"}) x", "entry": 1,
         "commit": "c0ffee"}
    ]  # fmt: skip
    assert rows[neo4j_store.SUPERSEDED] == [{"old": "1-f", "new": "2-f"}]
    reaches = [{"subject": "arm", "relation": "reaches", "object": "spot"}]
    assert rows[neo4j_store.RELATED] == rows[neo4j_store.UNRELATED] == reaches


@pytest.mark.parametrize(("changes", "text"), [(OPEN, neo4j_store.IN_STATE), (SHUT, neo4j_store.NOT_IN_STATE)])
def test_a_state_of_a_thing_alone_is_a_property_of_it(
    server: BoltServer, store: Neo4jStore, changes: Changes, text: str
) -> None:
    store.apply(changes)
    assert server.committed[-1][-1][0] == text
    assert server.committed[-1][-1][1]["rows"] == [{"subject": "arm", "relation": "is_open", "object": ""}]


def test_all_text_that_is_sent_is_constant_and_what_is_said_is_in_its_parameters() -> None:
    nasty = "x'}) DETACH DELETE n //"
    changes = Changes(
        [thing(nasty, nasty, nasty, x=1.0)], [said(nasty, nasty, nasty, nasty, True, 1)], [(nasty, nasty)],
        {(nasty, nasty, nasty): True, (nasty, nasty, ""): True},
    )  # fmt: skip
    constants = {value for name, value in vars(neo4j_store).items() if name.isupper() and isinstance(value, str)}
    assert len(writes(changes)) == 6
    assert set(texts(changes)) <= constants
    assert all(rows for _, rows in writes(changes))


def test_a_question_reads_only_and_sees_what_was_written_before(server: BoltServer, store: Neo4jStore) -> None:
    store.apply(THINGS)
    store.query("MATCH (n) RETURN n")
    begins = [fields[0] for name, fields in server.received if name == "BEGIN"]
    assert begins[-1]["mode"] == "r" and begins[-1]["bookmarks"] == ["FB:test"]
    assert all("mode" not in one for one in begins[:-1]), "what writes is led to a member that takes writes"
    assert {one["tx_timeout"] for one in begins} == {30_000}, "the server ends what nobody waits for"
    assert server.committed[-1] == [("MATCH (n) RETURN n", {"memory": "m"})]
    assert "TELEMETRY" not in server.names()


class Answers(Nothing):
    def run(self, text: str, parameters: dict[str, object]) -> tuple[list[str], list[list[object]]]:
        return ["n", "x", "none", "list"], [[node(1, ["TetherThing"], {"name": "arm"}), 0.5, None, [True, 2**62]]]


def test_answers_are_texts(server: BoltServer, store: Neo4jStore) -> None:
    server.engine = Answers()
    assert store.query("RETURN 1") == [{"n": "arm", "x": "0.5", "list": f"true, {2**62}"}]


def test_the_hints_of_a_graph_that_is_empty_yet_are_not_shown(
    server: BoltServer, store: Neo4jStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hint = {"code": "Neo.ClientNotification.Statement.UnknownLabelWarning", "severity": "WARNING", "title": "label",
            "description": "no such label: TetherThing", "category": "UNRECOGNIZED"}  # fmt: skip
    server.summary = {"notifications": [hint]}
    store.apply(THINGS)
    assert "no such label" not in caplog.text


# -- What fails --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 2, 3, "COMMIT"])
@pytest.mark.parametrize("happens", [Gone(), Failure(UNKNOWN), Failure("Neo.ClientError.Security.Forbidden")])
def test_of_a_write_that_fails_in_the_middle_nothing_is_kept_and_all_is_sent_again(
    server: BoltServer, store: Neo4jStore, at: int | str, happens: Exception
) -> None:
    store.apply(THINGS)
    changes = Changes(things=[thing("arm", "Part")], statements=ENDS.statements,
                      superseded=ENDS.superseded, holding=ENDS.holding)  # fmt: skip
    server.meddle = Meddler(at if isinstance(at, str) else texts(changes)[at], happens)
    with pytest.raises(GraphStoreError, match="found"):
        store.apply(changes)
    assert sent(server) == FIRST
    store.apply(changes)
    assert sent(server) == [*FIRST, texts(changes)]


def test_what_cannot_be_cleared_is_cleared_the_next_time(server: BoltServer, store: Neo4jStore) -> None:
    server.meddle = Meddler(CLEAR[1], Gone())
    with pytest.raises(GraphStoreError):
        store.apply(THINGS)
    assert sent(server) == FIRST[:2]
    store.apply(THINGS)
    assert sent(server)[2:] == FIRST, "indexes are asked for again, as none of the graph was made"


def test_a_write_that_takes_too_long_is_given_up_and_nothing_of_it_is_kept(
    server: BoltServer, store: Neo4jStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(THINGS)
    wait = threading.Event()
    server.meddle = Meddler(texts(HOLDS)[-1], wait)
    monkeypatch.setattr(neo4j_store, "_DEADLINE_S", 0.5)
    with pytest.raises(GraphStoreError, match=r"no answer within 0\.5 s"):
        store.apply(HOLDS)
    wait.set()
    monkeypatch.setattr(neo4j_store, "_DEADLINE_S", 30.0)
    store.apply(HOLDS)
    assert sent(server) == [*FIRST, texts(HOLDS)]


@pytest.mark.parametrize(
    "code",
    [
        UNKNOWN,
        "Neo.ClientError.Security.Forbidden",
        "Neo.ClientError.Schema.IndexAlreadyExists",
        "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
        "Neo.ClientError.Statement.SyntaxError",
        "Neo.TransientError.Transaction.DeadlockDetected",
    ],
)
@pytest.mark.parametrize("index", INDEXES)
def test_a_server_that_makes_no_index_is_used_without(
    server: BoltServer, store: Neo4jStore, caplog: pytest.LogCaptureFixture, code: str, index: str
) -> None:
    caplog.set_level(logging.INFO)
    server.meddle = Meddler(index, Failure(code), times=9)
    store.apply(THINGS)
    assert sent(server) == [one for one in FIRST if one != (index,)]
    assert "makes no index" in caplog.text


@pytest.mark.parametrize("index", INDEXES)
def test_a_server_that_goes_while_it_makes_an_index_is_gone(server: BoltServer, store: Neo4jStore, index: str) -> None:
    server.meddle = Meddler(index, Gone())
    with pytest.raises(GraphStoreError):
        store.apply(THINGS)
    store.apply(THINGS)
    assert sent(server)[-3:] == FIRST


def test_a_deadlock_on_the_server_is_tried_again(server: BoltServer) -> None:
    store = Neo4jStore(server.url(), "m")
    server.meddle = Meddler(neo4j_store.THINGS, Failure("Neo.TransientError.Transaction.DeadlockDetected"))
    store.apply(THINGS)
    store.close()
    assert sent(server) == FIRST
    assert server.names().count("RUN") > sum(len(one) for one in FIRST)


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("Neo.ClientError.Statement.SyntaxError", InvalidInputError),
        ("Neo.ClientError.Statement.ParameterMissing", InvalidInputError),
        ("Neo.ClientError.Statement.AccessMode", InvalidInputError),
        ("Neo.ClientError.Procedure.ProcedureNotFound", InvalidInputError),
        ("Neo.ClientError.Security.Forbidden", GraphStoreError),
        ("Neo.ClientError.Database.DatabaseNotFound", GraphStoreError),
        ("Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration", GraphStoreError),
        (UNKNOWN, GraphStoreError),
    ],
)
def test_a_question_that_is_none_is_told_from_a_server_that_fails(
    server: BoltServer, store: Neo4jStore, code: str, refused: type[InvalidInputError]
) -> None:
    server.meddle = Meddler("SELECT", Failure(code, "why it is none"))
    with pytest.raises(InvalidInputError, match="why it is none") as caught:
        store.query("SELECT")
    assert type(caught.value) is refused
    store.query("SELECT")


# -- The memory over it ------------------------------------------------------------------------------------------------


def test_a_memory_asks_its_server_when_a_task_has_ended_and_never_for_what_it_believes(
    server: BoltServer, tmp_path: Path
) -> None:
    with opened(tmp_path, server.url()) as memory:
        assert server.received == [], "nothing to say yet"
        assert memory.offer("state", state(1_000, holding=True), PROVENANCE) == ()
        before = len(server.received)
        place = {"x": 0.2, "y": -0.1}
        assert memory.semantic.believed("holding", place) is True
        assert memory.semantic.contradictions({"holding": False}, place) == ("holding",)
        assert len(server.received) == before


def test_what_was_kept_while_the_server_was_gone_is_sent_with_the_next(
    server: BoltServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neo4j_store, "_RETRY_S", 0.0)
    with opened(tmp_path, server.url()) as memory:
        server.meddle = Meddler("COMMIT", Gone(), times=1)
        assert memory.offer("state", state(1_000, holding=True), PROVENANCE) == ()
        assert server.committed == []
        assert memory.offer("state", state(2_000, holding=False), PROVENANCE) == ()
        rows = dict(server.committed[-1])[neo4j_store.STATEMENTS]["rows"]
        assert [(row["stamp_ns"], row["holds"], row["run"], row["commit"]) for row in rows] == [
            (1_000, True, "r", "c0ffee"), (2_000, False, "r", "c0ffee")
        ]  # fmt: skip
