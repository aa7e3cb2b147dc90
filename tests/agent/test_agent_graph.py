"""A run's graph: kept, drawn, and asked where the judgement went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.agent.calls import Fact, Outcome, Status
from tether.agent.graph import Edge, Node, RunGraph
from tether.errors import InvalidInputError


def node(number: int, judged: dict[str, bool] | None = None, **facts: bool) -> Node:
    at_ns = 1_000_000_000 * (number + 1)
    said = tuple(Fact(name, value, at_ns, "joints") for name, value in facts.items())
    return Node(number, at_ns, said, {"opening_m": 0.02}, judged or {})


def edge(source: int, skill: str, expected: tuple[str, ...], failure: str | None = None) -> Edge:
    status = "done" if failure is None else "failed"
    return Edge(source, source + 1, f"t/{source}", skill, "direct", {}, 1, "task", expected, status, failure)


def graph(*nodes: Node, edges: list[Edge]) -> RunGraph:
    return RunGraph("fetch", "t", {"x": 0.2}, list(nodes), edges, "done")


def test_the_first_step_without_its_expected_effect_is_named_with_what_was_found() -> None:
    run = graph(
        node(0), node(1, seen=True), node(2, holding=False), node(3, holding=True),
        edges=[edge(0, "find", ("seen",)), edge(1, "pick", ("holding",), "missed"), edge(2, "pick", ("holding",))],
    )  # fmt: skip
    (wrong,) = run.judgements()
    assert (wrong.edge, wrong.skill, wrong.kind, wrong.failure) == (1, "pick", "expectation", "missed")
    assert wrong.found == ("holding: False by joints at 3.00 s",)


def test_sensors_that_hold_what_is_not_so_are_told_from_skills_that_fail() -> None:
    run = graph(node(0), node(1, {"holding": False}, holding=True), edges=[edge(0, "pick", ("holding",))])
    (wrong,) = run.judgements()
    assert wrong.kind == "perception"
    assert wrong.found == ("holding: sensors True, judge False",)


def test_a_graph_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = graph(node(0, seen=True), node(1, {"placed": True}), edges=[edge(0, "find", ("seen", "not above"))])
    run.save(tmp_path / "graph.json")
    assert RunGraph.read(tmp_path / "graph.json") == run


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}', '{"format": 1, "nodes": 3}'])
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "graph.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError):
        RunGraph.read(tmp_path / "graph.json")


def test_the_drawing_has_every_node_and_marks_failures_red() -> None:
    text = graph(node(0), node(1), edges=[edge(0, "pick", ("holding",), "missed")]).dot()
    assert text.startswith("digraph")
    assert "n0 -> n1" in text
    assert "missed" in text
    assert "color=red" in text


def test_an_outcome_names_its_failure_and_only_then() -> None:
    with pytest.raises(ValueError, match="done names none"):
        Outcome("c", Status.DONE, "missed")
    with pytest.raises(ValueError, match="others do"):
        Outcome("c", Status.FAILED)
