"""Camera ingest in real time looks at fewer pictures when decisions come late or ask for it, and says so."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from node_bench import CAMERA, PATIENCE_S, START_NS, Bench, CameraBench, plain, start_message
from tether_ingest import eyes_governor
from tether_ingest.camera_ingest import CameraIngestNode
from tether_opd.opd_bridge import OpdBridgeNode

from tether import topics
from tether.assembly import make_camera_ingest, skills
from tether.bridge.stage import SINCE_BEFORE
from tether.codec import convert, encode, sensors
from tether.contracts import (
    DECISION_NS,
    F64,
    TICK_NS,
    Decision,
    Estimate,
    HybridAction,
    PolicyOutput,
    Primitive,
    SampleRef,
    Source,
    Stream,
    TickPlan,
)
from tether.event_kinds import LOOK_HOW, LOOKING
from tether.ingest.asking import OWN
from tether.ingest.looking import Wish

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

SPACING_NS = 40_000_000


@pytest.fixture(autouse=True)
def steady_time_of_the_film(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The governor's steady clock goes with the film, however slowly this machine shows it."""
    monkeypatch.setattr(eyes_governor, "monotonic_ns", lambda: bench.node.now_ns())


def decision(stamp_ns: int, params: F64, since_ns: int = DECISION_NS) -> Any:
    """To look; `since_ns` of the steady clock after the one before it."""
    action = HybridAction(0, stamp_ns, Primitive.LOOK, params, Estimate.none(stamp_ns), Source.CLASSIC)
    latency_ns = {SINCE_BEFORE: since_ns}
    return convert.decision_message(Decision(action, (), {}, "", "00", "00", "numpy", 1, None, latency_ns), 0)


class Graph:
    """The camera's node between a camera and whoever decides."""

    def __init__(self, bench: Bench, **parameters: Any) -> None:
        self.bench = bench
        self.node = CameraBench(bench, **parameters)
        self._stamps = itertools.count(START_NS + SPACING_NS, SPACING_NS)

    def decide(self, stamps_ns: list[int], wish: Wish = Wish.LOCAL, since_ns: int = DECISION_NS) -> None:
        params = skills().clipped(Primitive.LOOK, where=float(wish))
        for stamp_ns in stamps_ns:
            self.bench.publish(topics.DECISION, decision(stamp_ns, params, since_ns))

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

    def said(self, kind: str = LOOKING) -> list[dict[str, Any]]:
        events = self.bench.said[topics.EVENTS.name]
        return [sensors.event_data(e) for e in events if e.kind == kind]


def test_late_decisions_take_looks_away_which_are_counted_and_said(bench: Bench) -> None:
    graph = Graph(bench)
    assert len(graph.film(5)) >= 4
    assert graph.said() == []
    graph.decide([START_NS + i * DECISION_NS for i in range(5)], since_ns=2 * DECISION_NS)
    looked = graph.film(40)
    assert np.diff(looked)[1:].min() >= 2 * SPACING_NS, "no two pictures in a row are looked at"
    said = graph.said()[0]
    assert (said["step"], said["reasons"], said["late_decisions"]) == (1, ["overload"], 5)
    bench.until("the count", lambda: bench.dropped().get("overload", 0) >= 15)


def test_decisions_on_time_whose_stamps_a_fast_clock_spreads_take_no_looks_away(bench: Bench) -> None:
    graph = Graph(bench)
    graph.decide([START_NS + 2 * i * DECISION_NS for i in range(20)])
    assert len(graph.film(20)) >= 19
    assert graph.said() == []


def test_node_that_spares_no_looks_looks_at_all_pictures_whatever_decisions_say(bench: Bench) -> None:
    graph = Graph(bench, spare_looks=False)
    graph.decide([START_NS + i * DECISION_NS for i in range(5)], Wish.COAST, since_ns=2 * DECISION_NS)
    assert len(graph.film(20)) >= 19
    assert graph.said() == []


def test_bridge_says_how_long_by_the_steady_clock_a_decision_came_after_the_one_before(bench: Bench) -> None:
    bench.start(OpdBridgeNode, [topics.DECISION])
    bench.at(START_NS)

    def decide(number: int) -> Any:
        stamp_ns = START_NS + number * DECISION_NS
        action = HybridAction(number, stamp_ns, Primitive.HOLD, np.zeros(0), Estimate.none(stamp_ns), Source.CLASSIC)
        output = PolicyOutput(action, (), {}, "00", "00", "numpy", 1)
        bench.publish(topics.POLICY_OUTPUT, convert.policy_output_message(output, 0))
        said = bench.said[topics.DECISION.name]
        return bench.until(f"decision {number}", lambda: said[number] if len(said) > number else None)

    assert SINCE_BEFORE not in decide(0).latency_stages
    began_ns = time.monotonic_ns()
    bench.spin(0.3)
    again = decide(1)
    since_ns = int(again.latency_ns[list(again.latency_stages).index(SINCE_BEFORE)])
    assert 300_000_000 <= since_ns <= time.monotonic_ns() - began_ns + PATIENCE_S * 1e9, "not the 50 ms of the stamps"


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


def test_decision_that_asks_for_how_hard_to_look_gets_it_until_the_next_and_it_is_said(bench: Bench) -> None:
    graph = Graph(bench)
    assert len(graph.film(2)) == 2
    whole = bench.said[topics.IMAGE_FEATURE.name][-1].detections
    assert len(whole), "the block in the cube's colour is seen"
    bench.publish(topics.DECISION, decision(START_NS, skills().clipped(Primitive.LOOK, confidence=0.95, iou=0.2)))
    said = bench.until("what was asked", lambda: graph.said(LOOK_HOW))[0]
    assert said == {"since_ns": START_NS + 2 * SPACING_NS, "confidence": 0.95, "iou": 0.2, "image_size": None}
    graph.film(2)
    graph.decide([START_NS + 4 * SPACING_NS])
    bench.until("the end of it", lambda: len(graph.said(LOOK_HOW)) == 2)
    assert graph.said(LOOK_HOW)[1] == {"since_ns": START_NS + 4 * SPACING_NS, **asdict(OWN)}


def test_size_that_the_eyes_do_not_take_is_refused_counted_and_named(bench: Bench) -> None:
    bench.start(CameraIngestNode, [topics.IMAGE_FEATURE], policy="student")
    bench.at(START_NS)
    bench.publish(topics.DECISION, decision(START_NS, skills().clipped(Primitive.LOOK, image_size=200)))
    bench.event("stream_fault", "camera", "image_size", "200 px wide", "128 px only")


def test_in_lockstep_every_picture_is_looked_at_as_hard_as_the_decision_before_it_asks(bench: Bench) -> None:
    bench.start(CameraIngestNode, [topics.IMAGE_FEATURE], mode="lockstep")
    bench.publish(topics.EPISODE_START, start_message())
    stamps_ns = [START_NS + tick * TICK_NS for tick in range(3)]
    for tick, stamp_ns in enumerate(stamps_ns):
        due = (SampleRef(Stream.CAMERA, stamp_ns, tick),)
        plan = TickPlan(0, tick, stamp_ns, due, None if tick else 0)
        bench.publish(topics.TICK_PLAN, convert.tick_plan_message(plan))
        bench.publish(topics.CAMERA_INFO, sensors.camera_info_message(CAMERA, stamp_ns))
        bench.publish(topics.IMAGE, plain(stamp_ns))
    seen = bench.said[topics.IMAGE_FEATURE.name]
    bench.until("the first picture", lambda: seen)
    bench.spin(0.3)
    assert len(seen) == 1, "the others wait for the decision"
    bench.publish(topics.DECISION, decision(START_NS, skills().clipped(Primitive.LOOK, image_size=96, iou=0.3)))
    bench.until("the others", lambda: len(seen) == 3)
    core = make_camera_ingest("classic")
    action = convert.action_from(decision(START_NS, skills().clipped(Primitive.LOOK, image_size=96, iou=0.3)).action)
    for number, (stamp_ns, feature) in enumerate(zip(stamps_ns, seen, strict=True)):
        result = core.ingest(sensors.raw_image(plain(stamp_ns)), CAMERA, stamp_ns, number)
        assert feature.detections.tobytes() == result.feature.detections.tobytes()
        if number == 0:
            core.decided(action)
    (said,) = [sensors.event_data(e) for e in bench.said[topics.EVENTS.name] if e.kind == LOOK_HOW]
    assert (said["since_ns"], said["image_size"], said["iou"]) == (START_NS, 96, 0.3)
