"""One and the same of the embedded store (SPARQL) and of Neo4j's (Cypher): answers, history, and what is refused.

The Cypher is carried by the driver over Bolt to kglite, an embedded engine of openCypher, or to the Neo4j server that
$TETHER_TEST_NEO4J_URL names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyoxigraph", reason="needs the extra agent")
pytest.importorskip("neo4j", reason="needs the extra neo4j")
if importlib.util.find_spec("kglite") is None:
    pytest.skip("needs the extra neo4j-tests: an engine of openCypher", allow_module_level=True)

from memory_making import ENDS, HOLDS, OPEN, PROVENANCE, SHUT, THINGS, opened, state, thing

from tether.errors import InvalidInputError
from tether.memory import neo4j_store
from tether.memory.graph_store import Changes, GraphStore, open_store
from tether.memory.neo4j_store import Neo4jStore


@pytest.fixture
def server() -> Iterator[str]:
    """URL of a server that understands Cypher, without a graph of ours."""
    named = os.environ.get("TETHER_TEST_NEO4J_URL")
    if named:
        store = Neo4jStore(named, "tether-test")
        store.apply(Changes(things=[thing("robot", "Robot")]))
        store.close()
        yield named
        return
    command = [sys.executable, str(Path(__file__).with_name("cypher_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        yield one.stdout.readline().strip()
        faults, _ = one.communicate(timeout=30.0)
        assert (json.loads(faults), one.returncode) == ([], 0)


@pytest.fixture(params=["embedded", "server"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[int, GraphStore]]:
    """Which of the two languages, and the store."""
    url = None if request.param == "embedded" else request.getfixturevalue("server")
    one = open_store(url, "tether-test")
    yield (0 if url is None else 1), one
    one.close()


QUESTIONS = {
    "holds": (
        "SELECT ?o WHERE { t:arm t:reaches ?o }",
        "MATCH (:TetherThing {memory: $memory, name: 'arm'})-[:RELATES {name: 'reaches'}]->(o) RETURN o",
    ),
    "open": (
        "SELECT ?n WHERE { ?n t:is_open true }",
        "MATCH (n:TetherThing {memory: $memory}) WHERE 'is_open' IN n.states RETURN n",
    ),
    "parts": (
        "SELECT ?n WHERE { ?n a t:Part ; t:part_of t:robot }",
        "MATCH (n:TetherThing {memory: $memory, kind: 'Part'})-[:PART_OF]->({name: 'robot'}) RETURN n",
    ),
    "place": (
        "SELECT ?x ?y WHERE { t:spot t:x ?x ; t:y ?y }",
        "MATCH (n:TetherThing {memory: $memory, name: 'spot'}) RETURN n.x AS x, n.y AS y",
    ),
    "history": (
        "SELECT ?holds ?at ?c ?run WHERE { ?s t:fact 'f' ; t:holds ?holds ; t:stamp_ns ?at ; "
        "t:confidence ?c ; t:run ?run } ORDER BY ?at",
        "MATCH (s:TetherStatement {memory: $memory, fact: 'f'}) "
        "RETURN s.holds AS holds, s.stamp_ns AS at, s.confidence AS c, s.run AS run ORDER BY at",
    ),
    "newest": (
        "SELECT ?at WHERE { ?s t:fact 'f' ; t:stamp_ns ?at FILTER NOT EXISTS { ?s t:superseded_by ?later } }",
        "MATCH (s:TetherStatement {memory: $memory}) WHERE NOT (s)-[:SUPERSEDED_BY]->() RETURN s.stamp_ns AS at",
    ),
}
FIRST: dict[str, str] = {"holds": "true", "at": str(2**62), "c": "0.5", "run": "r'\"}) x"}
THEN = FIRST | {"holds": "false", "at": str(2**62 + 1)}
TABLE = [
    (
        [THINGS],
        {"holds": [], "open": [], "parts": [{"n": "arm"}], "place": [{"x": "0.25", "y": "-0.5"}], "history": []},
    ),
    ([THINGS, HOLDS], {"holds": [{"o": "spot"}], "history": [FIRST], "newest": [{"at": str(2**62)}]}),
    ([THINGS, HOLDS, HOLDS], {"holds": [{"o": "spot"}], "history": [FIRST]}),
    ([THINGS, HOLDS, ENDS], {"holds": [], "history": [FIRST, THEN], "newest": [{"at": str(2**62 + 1)}]}),
    ([THINGS, HOLDS, ENDS, HOLDS], {"holds": [{"o": "spot"}], "history": [FIRST, THEN]}),
    ([THINGS, OPEN], {"open": [{"n": "arm"}], "holds": []}),
    ([THINGS, OPEN, OPEN, SHUT], {"open": []}),
    ([THINGS, SHUT, OPEN, THINGS], {"open": [{"n": "arm"}], "parts": [{"n": "arm"}]}),
]


@pytest.mark.parametrize(("done", "expected"), TABLE, ids=range(len(TABLE)))
def test_the_same_changes_give_the_same_answers(
    store: tuple[int, GraphStore], done: list[Changes], expected: dict[str, list[dict[str, str]]]
) -> None:
    language, graph = store
    for changes in done:
        graph.apply(changes)
    assert {name: graph.query(QUESTIONS[name][language]) for name in expected} == expected


def test_a_question_that_is_none_is_refused(store: tuple[int, GraphStore]) -> None:
    with pytest.raises(InvalidInputError):
        store[1].query("SELECT")


@pytest.mark.parametrize("language", [0, 1])
def test_a_question_cannot_change_anything(server: str, language: int) -> None:
    store = open_store(server if language else None, "tether-test")
    store.apply(THINGS)
    change = ("INSERT DATA { t:arm t:reaches t:moon }", "MATCH (n {memory: $memory}) DETACH DELETE n")[language]
    with pytest.raises(InvalidInputError):
        store.query(change)
    assert store.query(QUESTIONS["parts"][language]) == [{"n": "arm"}]
    store.close()


# -- The memory over it ------------------------------------------------------------------------------------------------

HELD = (
    "SELECT ?o WHERE { t:gripper t:holds ?o }",
    "MATCH (:TetherThing {memory: $memory, name: 'gripper'})-[:RELATES {name: 'holds'}]->(o) RETURN o.name AS o",
)
RELATED = (
    "SELECT ?s ?r ?o WHERE { ?s ?r ?o . ?o a ?kind FILTER EXISTS { ?any t:relation ?r } }",
    "MATCH (s:TetherThing {memory: $memory})-[r:RELATES]->(o) RETURN s.name AS s, r.name AS r, o.name AS o",
)
STATES = (
    "SELECT ?s ?r WHERE { ?s ?r true . ?s a ?kind FILTER (?kind != t:Statement) }",
    "MATCH (s:TetherThing {memory: $memory}) UNWIND s.states AS r RETURN s.name AS s, r",
)
SAID = (
    "SELECT ?s ?r ?o ?f ?h ?at ?from ?c ?run ?n ?by WHERE { ?x a t:Statement ; t:subject ?s ; t:relation ?r ; "
    "t:fact ?f ; t:holds ?h ; t:stamp_ns ?at ; t:source ?from ; t:confidence ?c ; t:run ?run ; t:entry ?n ; "
    "t:commit ?by OPTIONAL { ?x t:object ?o } }",
    "MATCH (x:TetherStatement {memory: $memory}) RETURN x.subject AS s, x.relation AS r, "
    "CASE x.object WHEN '' THEN null ELSE x.object END AS o, x.fact AS f, x.holds AS h, x.stamp_ns AS at, "
    "x.source AS from, x.confidence AS c, x.run AS run, x.entry AS n, x.commit AS by",
)
SUPERSEDED = (
    "SELECT ?f ?n ?by WHERE { ?x t:fact ?f ; t:entry ?n ; t:superseded_by ?y . ?y t:entry ?by }",
    "MATCH (x:TetherStatement {memory: $memory})-[:SUPERSEDED_BY]->(y) RETURN x.fact AS f, x.entry AS n, y.entry AS by",
)
FACTS = ("holding", "gripper_open", "placed", "seen", "reachable")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_whatever_is_told_both_say_the_same_of_it_and_refuse_the_same(server: str, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with opened(tmp_path / "here", None) as here, opened(tmp_path / "there", server) as there:
        taken = 0
        for step in range(1, 13):
            body = state(step * 1_000, chance.choice([0.2, 0.3]), **{
                name: chance.random() < 0.5 for name in chance.sample(FACTS, 2)
            })  # fmt: skip
            if chance.random() < 0.2:
                body = {**body, "stamp_ns": 1}  # older than its facts, and than what came before
            refused = here.offer("state", body, PROVENANCE)
            assert there.offer("state", body, PROVENANCE) == refused
            taken += not refused
        assert 3 < taken < 12
        for question in (RELATED, STATES, SAID, SUPERSEDED):
            answers = [
                sorted(json.dumps(row, sort_keys=True) for row in memory.semantic.query(text))
                for memory, text in zip((here, there), question, strict=True)
            ]
            assert answers[0] == answers[1]
        assert here.semantic.query(SAID[0])


def test_a_memory_on_a_server_is_made_anew_from_its_ledger_whatever_was_put_there(server: str, tmp_path: Path) -> None:
    with opened(tmp_path, server) as memory:
        memory.offer("state", state(1_000, holding=True), PROVENANCE)
        assert memory.semantic.query(HELD[1]) == [{"o": "red_cube"}]
        forged = Neo4jStore(server, memory.ledger.id)
        forged.apply(Changes(things=[thing("gripper", "Part"), thing("floor", "Place")],
                             holding={("gripper", "holds", "floor"): True}))  # fmt: skip
        forged.close()
        assert memory.semantic.believed("holding", {}) is True, "the store is not asked what is believed"
    with opened(tmp_path, server) as memory, opened(tmp_path / "another", server) as another:
        assert memory.semantic.query(HELD[1]) == [{"o": "red_cube"}]
        another.offer("state", state(1_000, gripper_open=True), PROVENANCE)
        assert another.semantic.query(HELD[1]) == []
        assert memory.semantic.query(HELD[1]) == [{"o": "red_cube"}]


# -- What Neo4j says of the text ---------------------------------------------------------------------------------------

LINT = """
import { lintCypherQuery } from '@neo4j-cypher/language-support';
import { readFileSync } from 'fs';
const given = { parameters: { memory: 'm', rows: [] } };
const texts = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map(text => lintCypherQuery(text, given).diagnostics)));
"""


@pytest.mark.timeout(600)
def test_the_parser_and_semantic_analysis_that_neo4j_publishes_find_no_fault() -> None:
    folder = os.environ.get("TETHER_TEST_CYPHER_LINT")
    if folder is None:
        pytest.skip("$TETHER_TEST_CYPHER_LINT names no folder in which `npm i @neo4j-cypher/language-support` ran")
    ours = [text for name, value in vars(neo4j_store).items() if name.isupper() and name[0] != "_"
            for text in ((value,) if isinstance(value, str) else value if isinstance(value, tuple) else ())
            if " " in text]  # fmt: skip
    asked = [text for _, text in (*QUESTIONS.values(), HELD, RELATED, STATES, SAID, SUPERSEDED)]
    wrong = ["MATCH (n) SETT n.x = 1", "MATCH (n) RETURN m"]
    given = json.dumps([f"{v} {text}" for v in ("CYPHER 5", "CYPHER 25") for text in (*ours, *asked, *wrong)])
    command = ["node", "--input-type=module", "-e", LINT]
    done = subprocess.run(command, input=given, cwd=folder, capture_output=True, text=True, check=True)
    assert len(ours) == 12
    known = [False] * len(ours + asked) + [True] * len(wrong)
    assert [bool(found) for found in json.loads(done.stdout)] == 2 * known
