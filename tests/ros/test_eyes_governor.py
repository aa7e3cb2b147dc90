"""Camera ingest in real time looks at fewer pictures when decisions come late or ask for it, and says so."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_ingest_nodes import START_NS, Bench, CameraBench, plain
from tether_ingest.camera_ingest import CameraIngestNode

from tether import topics
from tether.assembly import skills
from tether.codec import convert, encode, sensors
from tether.contracts import DECISION_NS, F64, Decision, Estimate, HybridAction, Primitive, Source
from tether.event_kinds import LOOKING
from tether.ingest.looking import Wish

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

SPACING_NS = 40_000_000


@pytest.fixture
def bench(domain: int) -> Iterator[Bench]:
    made = Bench(domain)
    try:
        yield made
    finally:
        made.stop()


def decision(stamp_ns: int, params: F64) -> Any:
    """To look."""
    action = HybridAction(0, stamp_ns, Primitive.LOOK, params, Estimate.none(stamp_ns), Source.CLASSIC)
    return convert.decision_message(Decision(action, (), {}, "", "00", "00", "numpy", 1), 0)


class Graph:
    """The camera's node between a camera and whoever decides."""

    def __init__(self, bench: Bench, **parameters: Any) -> None:
        self.bench = bench
        self.node = CameraBench(bench, **parameters)
        self._stamps = itertools.count(START_NS + SPACING_NS, SPACING_NS)

    def decide(self, stamps_ns: list[int], wish: Wish = Wish.LOCAL) -> None:
        params = skills().clipped(Primitive.LOOK, where=float(wish))
        for stamp_ns in stamps_ns:
            self.bench.publish(topics.DECISION, decision(stamp_ns, params))

    def film(self, count: int) -> list[int]:
        """Show pictures on time; the stamps of those that were looked at."""
        shown = list(itertools.islice(self._stamps, count))
        publisher = self.bench.publisher(topics.IMAGE)
        for stamp_ns in shown:
            self.bench.at(stamp_ns)
            publisher.publish(encode(plain(stamp_ns)))
            self.bench.spin(0.04)
        features = self.bench.said[topics.IMAGE_FEATURE.name]
        return [s for f in features if (s := convert.to_ns(f.sample.stamp)) in shown]

    def said(self) -> list[dict[str, Any]]:
        events = self.bench.said[topics.EVENTS.name]
        return [sensors.event_data(e) for e in events if e.kind == LOOKING]

    def dropped(self) -> dict[str, int]:
        status = self.bench.said[topics.MODALITY_STATUS.name][-1]
        return dict(zip(status.drop_reasons, map(int, status.drop_counts), strict=True))


def test_late_decisions_take_looks_away_which_are_counted_and_said(bench: Bench) -> None:
    graph = Graph(bench)
    assert len(graph.film(5)) >= 4
    assert graph.said() == []
    graph.decide([START_NS + 2 * i * DECISION_NS for i in range(6)])
    looked = graph.film(40)
    assert np.diff(looked)[1:].min() >= 2 * SPACING_NS, "no two pictures in a row are looked at"
    said = graph.said()[0]
    assert (said["step"], said["reasons"], said["late_decisions"]) == (1, ["overload"], 5)
    bench.until("the count", lambda: graph.dropped().get("overload", 0) >= 15)


def test_decision_that_asks_for_another_place_to_look_is_answered_and_said(bench: Bench) -> None:
    graph = Graph(bench)
    graph.decide([START_NS], Wish.COAST)
    assert len(graph.film(12)) <= 7
    graph.decide([START_NS + DECISION_NS], Wish.WORKSTATION)
    assert len(graph.film(10)) >= 8, "the wish for a workstation is seen to here, by the next picture"
    graph.decide([START_NS + 2 * DECISION_NS], Wish.LOCAL)
    assert len(graph.film(10)) >= 8
    coasting, degraded, here = graph.said()
    assert coasting["reasons"] == ["coast_asked"]
    assert degraded["workstation_asked"]
    assert (here["step"], here["reasons"], here["workstation_asked"]) == (0, [], False)
    bench.event(LOOKING, "workstation", "look here")


def test_malformed_decision_is_named_and_changes_nothing(bench: Bench) -> None:
    graph = Graph(bench)
    bad = decision(START_NS, skills()[Primitive.LOOK].default.copy())
    bad.action.params[0] = float("nan")
    bench.publish(topics.DECISION, bad)
    bench.event("malformed_message", topics.DECISION.name)
    assert len(graph.film(10)) >= 8


def test_in_lockstep_every_picture_is_looked_at_and_nobody_hears_decisions(bench: Bench) -> None:
    bench.start(CameraIngestNode, [topics.IMAGE_FEATURE], mode="lockstep")
    heard = [s.topic_name for s in bench.node.subscriptions]
    assert topics.IMAGE.name in heard
    assert topics.DECISION.name not in heard
