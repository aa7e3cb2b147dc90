"""Semantic and procedural memory: filled by runs, asked by the next, and guarded against what cannot be so."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyoxigraph", reason="needs the extra agent")

from fact_robot import FactRobot

from tether.agent.calls import Fact, Status
from tether.agent.domain import Domain
from tether.agent.graph import Node, RunGraph
from tether.agent.running import TaskRun, TaskRunner
from tether.cli import main
from tether.errors import InvalidInputError
from tether.memory.ledger import Entry, Ledger
from tether.memory.long_term import LongTermMemory
from tether.memory.procedural import Chain, chain_body, chain_of, skills_digest
from tether.memory.semantic import confidence, load_semantics
from tether.signing.ecdsa import PrivateKey
from tether.signing.sign import development_key_path
from tether.signing.trust import Purpose, TrustedKey

KEY = PrivateKey.generate()
KEYS = {KEY.public.id: TrustedKey(KEY.public, Purpose.DEVELOPMENT)}
FETCH = ("find", "approach", "pick", "carry", "place")
HIDDEN = ("clear_view", "approach", "pick", "carry", "place")
WAYS = {"find": "direct", "approach": "direct", "pick": "direct", "carry": "direct", "place": "direct",
        "release": "direct", "clear_view": "direct", "await_camera": "direct"}  # fmt: skip
PROVENANCE = {"run": "test", "commit": "c0ffee", "stamp_ns": 1}


class Memories:
    """Opens the same memory again and again."""

    def __init__(self, folder: Path, domain: Domain) -> None:
        self.folder, self.domain = folder, domain
        self._wall_ns = itertools.count(1_700_000_000)

    def open(self, domain: Domain | None = None) -> LongTermMemory:
        ledger = Ledger(self.folder / "memory", KEY, KEYS, self.folder / "state")
        return LongTermMemory(
            self.folder, domain or self.domain, commit="c0ffee", wall_ns=lambda: next(self._wall_ns), ledger=ledger
        )

    def open_entries(self) -> list[Entry]:
        with self.open() as memory:
            return list(memory.ledger.entries)

    def run(self, number: int, happens: dict[str, list[object]] | None = None) -> TaskRun:
        robot = FactRobot(self.domain, happens, "joints")
        with self.open() as memory:
            return TaskRunner(self.domain, robot, WAYS, memory).run("fetch", f"fetch-{number}", {})


@pytest.fixture
def memories(tmp_path: Path, domain: Domain) -> Memories:
    return Memories(tmp_path, domain)


@pytest.fixture
def memory(memories: Memories) -> Iterator[LongTermMemory]:
    with memories.open() as opened:
        yield opened


def steps(run: TaskRun) -> tuple[str, ...]:
    return tuple(edge.skill for edge in run.graph.edges)


def chain(domain: Domain, *names: str) -> Chain:
    return Chain("fetch", tuple((name, "direct") for name in names), skills_digest(domain, names))


def test_a_run_of_the_same_name_at_the_same_simulated_time_is_learnt_again(memories: Memories) -> None:
    memories.run(1)
    before = len(memories.open_entries())
    memories.run(1)
    assert len(memories.open_entries()) > before + 1, "its states are new ones"


def test_a_run_whose_memory_cannot_keep_it_ends_as_it_ended(
    memories: Memories, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: Ledger) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Ledger, "confirm", full)
    assert memories.run(1).graph.outcome == Status.DONE.value
    assert "no space" in caplog.text


def test_a_memory_that_cannot_be_asked_costs_a_task_nothing_but_what_it_would_have_recalled(
    memories: Memories, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(self: LongTermMemory, *asked: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    memories.run(1)
    monkeypatch.setattr(LongTermMemory, "recall", gone)
    run = memories.run(2)
    assert (run.graph.outcome, run.recalled) == (Status.DONE.value, None)
    assert "nothing recalled" in caplog.text and "the disk is gone" in caplog.text


def test_a_key_that_nobody_would_believe_is_refused_before_the_first_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = development_key_path(tmp_path / "state")
    key.parent.mkdir(parents=True)
    PrivateKey.generate().save(key)  # the package of this machine has the public half of another
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "state"))
    words = ["agent", "run", "fetch", "--policy", "classic", "--episodes", "1", "--memory", str(tmp_path / "memory")]
    assert main(words) == 2
    said = capsys.readouterr()
    assert "unknown key" in said.err
    assert "fetch-0" not in said.out


def test_a_goal_that_held_already_makes_no_chain(domain: Domain) -> None:
    task = domain.tasks["fetch"]
    held = domain.after(domain.closure(task.begins), task.wants)
    facts = tuple(Fact(name, value, 1_000, "joints") for name, value in held.items())
    graph = RunGraph("fetch", "fetch-1", {}, [Node(0, 1_000, facts, {})], [], Status.DONE.value)
    assert chain_of(domain, graph) is None


# -- Procedural ------------------------------------------------------------------------------------------------------


def test_what_worked_after_a_failure_is_begun_with_next_time_and_the_failure_is_not_made_again(
    memories: Memories,
) -> None:
    first = memories.run(1, {"find": [["camera_ok", "not seen"]]})
    assert first.outcome.status is Status.DONE
    assert steps(first) == ("find", "clear_view", *FETCH)
    second = memories.run(2, {"find": [["camera_ok", "not seen"]]})
    assert second.recalled is not None
    assert steps(second) == HIDDEN
    assert (first.decisions, second.decisions) == (2, 0)
    assert (first.retries, second.retries) == (1, 0)


def test_a_recalled_chain_is_checked_like_any_other_and_a_failure_of_it_is_recovered(memories: Memories) -> None:
    memories.run(1)
    run = memories.run(2, {"pick": [["closed_empty"]]})
    assert run.recalled is not None and run.recalled.steps == FETCH
    assert run.outcome.status is Status.DONE
    assert steps(run) == ("find", "approach", "pick", "release", "pick", "carry", "place")
    with memories.open() as memory:
        fared = {record.chain.names: (record.worked, record.failed) for record in memory.records()}
    assert fared == {FETCH: (1, 1), ("find", "approach", "release", "pick", "carry", "place"): (1, 0)}


def test_a_chain_that_fails_loses_weight_until_it_is_no_longer_begun_with(memories: Memories) -> None:
    memories.run(1)
    weights = []
    for number in range(2, 6):
        run = memories.run(number, {"find": [["camera_ok", "seen", "not reachable"]]})
        assert run.outcome.failure == "needs_operator: out_of_reach"
        with memories.open() as memory:
            weights.append(memory.records()[0].weight)
        if run.recalled is None:
            break
    assert weights == pytest.approx([2 / 4, 2 / 5, 2 / 5])
    assert run.recalled is None


def test_a_chain_names_its_content_and_the_commit_and_other_declarations_leave_it_unused(
    memories: Memories, domain: Domain
) -> None:
    memories.run(1)
    state = domain.closure(domain.tasks["fetch"].begins)
    with memories.open() as memory:
        (record,) = memory.records()
        assert record.chain.sha256 == chain(domain, *FETCH).sha256
        assert record.commits == ("c0ffee",)
        assert memory.recall(domain.tasks["fetch"], state, {}, WAYS) is not None
        assert memory.recall(domain.tasks["fetch"], state, {}, {**WAYS, "pick": "student"}) is None
        assert memory.recall(domain.tasks["fetch"], {**state, "gripper_open": False}, {}, WAYS) is None
    changed = replace(domain, skills={**domain.skills, "pick": replace(domain.skills["pick"], version=2)})
    with memories.open(changed) as memory:
        assert memory.recall(domain.tasks["fetch"], state, {}, WAYS) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sha256": "0" * 64}, "its content has"),
        ({"steps": [["find", "direct"]] * 33}, "1 to 32"),
        ({"steps": []}, "1 to 32"),
        ({"steps": [["jump", "direct"]]}, "its content has"),
        ({"extra": 1}, "expected task, steps"),
    ],
)
def test_a_chain_that_is_none_goes_into_quarantine(
    memory: LongTermMemory, memories: Memories, change: dict[str, object], why: str
) -> None:
    body = chain_body(chain(memories.domain, *FETCH)) | change
    (reason,) = memory.offer("chain", body, PROVENANCE)
    assert why in reason
    assert memory.records() == [] and len(memory.ledger.entries) == 0
    assert why in (memories.folder / "memory" / "quarantine.jsonl").read_text()


def test_a_forged_chain_that_the_proof_does_not_let_through_goes_into_quarantine(
    memory: LongTermMemory, domain: Domain
) -> None:
    (reason,) = memory.offer("chain", chain_body(chain(domain, "find", "approach", "pick", "place")), PROVENANCE)
    assert "goes through from nowhere" in reason
    (reason,) = memory.offer("chain", chain_body(chain(domain, *FETCH, "place")), PROVENANCE)
    assert "goes through from nowhere: at_place" in reason
    (reason,) = memory.offer("chain", chain_body(chain(domain, "find", "approach", "pick")), PROVENANCE)
    assert "ends without [placed]" in reason


def test_a_chain_that_was_never_tried_is_not_begun_with(memory: LongTermMemory, domain: Domain) -> None:
    assert memory.offer("chain", chain_body(chain(domain, *FETCH)), PROVENANCE) == ()
    assert memory.recall(domain.tasks["fetch"], domain.closure(domain.tasks["fetch"].begins), {}, WAYS) is None


@pytest.mark.parametrize("spent_s", [float("inf"), -1.0, "long"])
def test_a_trial_out_of_bounds_or_of_no_chain_goes_into_quarantine(
    memory: LongTermMemory, domain: Domain, spent_s: object
) -> None:
    known = chain(domain, *FETCH)
    body = {"sha256": known.sha256, "worked": True, "spent_s": spent_s, "failure": ""}
    assert "no chain that is known" in memory.offer("trial", body, PROVENANCE)[0]
    memory.offer("chain", chain_body(known), PROVENANCE)
    assert "spent_s" in memory.offer("trial", body, PROVENANCE)[0]


# -- Semantic --------------------------------------------------------------------------------------------------------


def test_runs_fill_the_graph_and_newer_facts_supersede_with_the_history_kept(memories: Memories) -> None:
    memories.run(1)
    with memories.open() as memory:
        where = memory.semantic.query("SELECT ?x ?y WHERE { t:red_cube t:lies_at ?p . ?p t:x ?x ; t:y ?y }")
        assert where == [{"x": "0.215", "y": "-0.085"}]
        assert memory.semantic.query("ASK { t:gripper t:holds t:red_cube }") == [{"": "false"}]
        history = memory.semantic.query(
            "SELECT ?holds ?source ?c WHERE { ?s t:fact 'holding' ; t:holds ?holds ; t:source ?source ; "
            "t:confidence ?c ; t:stamp_ns ?at } ORDER BY ?at"
        )
        assert [row["holds"] for row in history] == ["false"] * 3 + ["true"] * 2 + ["false"]
        assert {row["source"] for row in history} == {"joints"}
        newest = memory.semantic.query("SELECT ?n WHERE { ?s t:fact 'holding' ; t:entry ?n FILTER NOT EXISTS "
                                       "{ ?s t:superseded_by ?later } }")  # fmt: skip
        assert newest == [{"n": "6"}]
        parts = memory.semantic.query("SELECT ?p WHERE { ?p a t:Part ; t:part_of t:robot } ORDER BY ?p")
        assert [row["p"] for row in parts] == ["arm", "camera", "gate", "gripper"]


def test_the_present_is_right_where_it_contradicts_what_is_held(memories: Memories) -> None:
    memories.run(1)
    place = {"x": 0.215, "y": -0.085}
    with memories.open() as memory:
        assert memory.semantic.believed("placed", place) is True
        assert memory.semantic.believed("placed", {"x": 0.3, "y": 0.0}) is None
        assert memory.semantic.contradictions({"placed": False, "seen": True}, place) == ("placed",)
    memories.run(2, {"find": [["camera_ok", "seen", "not reachable"]]})
    with memories.open() as memory:
        assert memory.semantic.believed("reachable", place) is False


def fact(name: str, value: object = True, **more: object) -> dict[str, object]:
    return {"name": name, "value": value, "stamp_ns": 1_000, "source": "joints", "confidence": 0.9} | more


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ([fact("holding"), fact("gripper_open")], "contradicts itself"),
        ([fact("flying")], "no fact of the domain"),
        ([fact("holding", source="rumour")], "source 'rumour'"),
        ([fact("holding", stamp_ns=2_000)], "later than its state"),
        ([fact("holding", value=1.0)], "true or false"),
        ([fact("holding", confidence=7.0)], "0 to 1"),
        ([fact("holding", confidence=10**400)], "0 to 1"),
        ([fact("holding", source=["joints"])], "texts for name and source"),
        ([fact(["holding"])], "texts for name and source"),  # type: ignore[arg-type]
    ],
)
def test_a_state_that_cannot_be_goes_into_quarantine(
    memory: LongTermMemory, facts: list[dict[str, object]], why: str
) -> None:
    body = {"run": "r", "stamp_ns": 1_500, "parameters": {}, "facts": facts}
    assert why in " ".join(memory.offer("state", body, PROVENANCE))
    assert memory.semantic.statements == 0


@pytest.mark.parametrize("stamp_ns", [-1, 2**63])
def test_a_state_at_a_time_that_no_clock_gives_goes_into_quarantine(memory: LongTermMemory, stamp_ns: int) -> None:
    body = {"run": "r", "stamp_ns": stamp_ns, "parameters": {}, "facts": []}
    assert "expected 0 to 2^63 - 1" in memory.offer("state", body, PROVENANCE)[0]


def test_what_no_graph_can_hold_does_not_get_into_the_ledger(memories: Memories) -> None:
    half = "\ud800"
    with memories.open() as memory:
        for run, parameters in ((half, {}), ("r", {"x": 10**400})):
            body = {"run": run, "stamp_ns": 1_500, "parameters": parameters, "facts": [fact("holding")]}
            assert memory.offer("state", body, PROVENANCE)
        body = {"run": "r", "stamp_ns": 1_500, "parameters": {}, "facts": [fact("holding")]}
        assert memory.offer("state", body, {**PROVENANCE, "commit": f"c0ffee{half}"}) == ()
    with memories.open() as memory:
        assert memory.semantic.query("SELECT ?c WHERE { ?s t:fact 'holding' ; t:commit ?c }") == [{"c": "c0ffee?"}]


def test_a_thing_whose_parameter_is_called_as_the_graph_calls_its_own_is_refused(domain: Domain) -> None:
    table = load_semantics(domain)
    with pytest.raises(InvalidInputError, match="things: target: parameters: found kind"):
        replace(table, things={**table.things, "target": replace(table.things["target"], parameters=("x", "kind"))})


def test_an_older_state_of_a_run_after_a_newer_one_goes_into_quarantine(memory: LongTermMemory) -> None:
    newer = {"run": "r", "stamp_ns": 1_500, "parameters": {}, "facts": [fact("holding")]}
    assert memory.offer("state", newer, PROVENANCE) == ()
    replayed = {**newer, "stamp_ns": 1_400, "facts": [fact("holding", False)]}
    assert "older than the newest" in memory.offer("state", replayed, PROVENANCE)[0]
    assert memory.semantic.believed("holding", {}) is True


def test_a_signed_entry_of_other_declarations_is_left_out_and_the_rest_stays(
    memories: Memories, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger(memories.folder / "memory", KEY, KEYS, memories.folder / "state") as ledger:
        ledger.append([("state", {"run": "r", "stamp_ns": 1, "parameters": {}, "facts": [fact("flying")]})], PROVENANCE)
        ledger.append([("state", {"run": "r", "stamp_ns": 2, "parameters": {}, "facts": []})], PROVENANCE)
    with memories.open() as memory:
        assert len(memory.ledger.entries) == 2
        assert "entry 1 is not used" in caplog.text and "entry 2" not in caplog.text


def test_sight_is_believed_less_the_less_sure_it_is(domain: Domain) -> None:
    table = load_semantics(domain)
    sure, unsure = (confidence(table, "camera", {"sigma_m": sigma}) for sigma in (0.005, 0.03))
    assert sure == pytest.approx(0.99, abs=1e-3)
    assert unsure == pytest.approx(0.99 * 0.393469, abs=1e-5)
    assert confidence(table, "joints", {"sigma_m": 0.03}) == 0.99


def test_a_question_that_is_none_or_would_change_something_is_refused(memory: LongTermMemory) -> None:
    for text in ("SELECT", "DELETE WHERE { ?s ?p ?o }", "INSERT DATA { t:a t:b t:c }"):
        with pytest.raises(InvalidInputError, match="SPARQL"):
            memory.semantic.query(text)


# -- The command -----------------------------------------------------------------------------------------------------


def test_the_command_verifies_lists_asks_and_refuses_by_name(
    tmp_path: Path, domain: Domain, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    own = development_key_path()  # made by set-up, with its public half in the package
    (tmp_path / "state" / "keys").mkdir(parents=True)
    shutil.copy(own, development_key_path(tmp_path / "state"))
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "state"))
    folder = tmp_path / "memory"
    with LongTermMemory(folder, domain, commit="c0ffee") as memory:
        TaskRunner(domain, FactRobot(domain, source="joints"), WAYS, memory).run("fetch", "fetch-1", {})

    assert main(["agent", "memory", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "8 entries verified" in said  # six states, the chain, its trial
    assert "find (direct) → approach (direct) → pick (direct) → carry (direct) → place (direct)" in said
    assert main(["agent", "memory", str(folder), "--query", "ASK { t:red_cube t:lies_at ?p }"]) == 0
    assert capsys.readouterr().out == "true\n"

    path = folder / "ledger.jsonl"
    path.write_text(path.read_text().replace('"worked":true', '"worked":false'))
    assert main(["agent", "memory", str(folder)]) == 2
    assert "memory refused (forged)" in capsys.readouterr().err
    assert main(["agent", "memory", str(tmp_path / "none")]) == 2
