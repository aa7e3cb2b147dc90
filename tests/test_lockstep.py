"""The barrier of lockstep: a tick runs when everything due has come, in whatever order it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tether.contracts import TICKS_PER_DECISION, SampleRef, Stream, TickPlan
from tether.lockstep import MAX_WAITING, Inbox, Needs, in_order

NEEDS = Needs(
    streams=frozenset({Stream.IMU, Stream.JOINTS}),
    every_tick=frozenset({"imu_batch"}),
    at_decision=frozenset({"decision"}),
    at_start=frozenset({"episode"}),
)


def plan(tick: int, refs: tuple[SampleRef, ...] = (), decision: int | None = None, episode: int = 0) -> TickPlan:
    return TickPlan(episode, tick, tick * 10, refs, decision)


def deliveries(ticks: int) -> list[tuple[str, object]]:
    out: list[tuple[str, object]] = [("result", ("episode", 0, 0))]
    for tick in range(ticks):
        refs = (SampleRef(Stream.IMU, tick * 10 + 5, tick), SampleRef(Stream.JOINTS, tick * 10 + 1, tick))
        decision = tick // 2 if tick % 2 == 0 else None
        out.append(("plan", plan(tick, refs, decision)))
        out += [("sample", ref) for ref in refs]
        out.append(("result", ("imu_batch", 0, tick)))
        if decision is not None:
            out.append(("result", ("decision", 0, decision)))
    return out


def put(inbox: Inbox, kind: str, item: object) -> None:
    if kind == "plan":
        assert isinstance(item, TickPlan)
        inbox.put_plan(item)
    elif kind == "sample":
        assert isinstance(item, SampleRef)
        inbox.put_sample(item.stream, item.stamp_ns, f"{item.stream.value} {item.sequence}")
    else:
        assert isinstance(item, tuple)
        inbox.put_result(*item, f"{item[0]} {item[2]}")


@given(st.data())
def test_inputs_of_each_tick_do_not_depend_on_order_of_arrival(data: st.DataObject) -> None:
    ticks = 4
    messages = deliveries(ticks)
    plans = [m for m in messages if m[0] == "plan"]
    rest = [m for m in messages if m[0] != "plan"]
    shuffled = data.draw(st.permutations(rest))
    # Plans come in order: they are one publisher's on one topic.
    positions = sorted(data.draw(st.lists(st.integers(0, len(rest)), min_size=ticks, max_size=ticks)))
    for offset, (position, message) in enumerate(zip(positions, plans, strict=True)):
        shuffled.insert(position + offset, message)
    inbox = Inbox(NEEDS)
    taken = []
    for kind, item in shuffled:
        put(inbox, kind, item)
        while (inputs := inbox.take()) is not None:
            taken.append(inputs)
    assert [t.plan.tick for t in taken] == list(range(ticks))
    for tick, inputs in enumerate(taken):
        assert inputs.samples[Stream.IMU] == [(SampleRef(Stream.IMU, tick * 10 + 5, tick), f"imu {tick}")]
        assert inputs.results["imu_batch"] == f"imu_batch {tick}"
        assert ("decision" in inputs.results) == (tick % 2 == 0)
        assert ("episode" in inputs.results) == (tick == 0)


def test_missing_names_what_has_not_come() -> None:
    inbox = Inbox(NEEDS)
    inbox.put_plan(plan(0, (SampleRef(Stream.IMU, 5, 0),), decision=0))
    inbox.put_result("episode", 0, 0, "start")
    assert inbox.take() is None
    assert sorted(inbox.missing()) == ["decision 0", "imu 5", "imu_batch 0"]


def test_samples_of_other_streams_are_not_waited_for() -> None:
    inbox = Inbox(Needs(streams=frozenset({Stream.JOINTS})))
    inbox.put_plan(plan(0, (SampleRef(Stream.CAMERA, 5, 0),)))
    assert inbox.take() is not None


def test_a_plan_that_was_taken_is_not_taken_again() -> None:
    inbox = Inbox(Needs())
    inbox.put_plan(plan(0))
    assert inbox.take() is not None
    inbox.put_plan(plan(0))
    assert inbox.take() is None


def test_items_that_nobody_plans_are_bounded_and_counted() -> None:
    inbox = Inbox(NEEDS)
    for stamp in range(MAX_WAITING + 10):
        inbox.put_sample(Stream.IMU, stamp, None)
    assert inbox.dropped == 10


def test_tick_after_a_decision_waits_for_it_and_the_others_do_not() -> None:
    inbox = Inbox(Needs(after_decision=frozenset({"decision"})))
    for tick in range(TICKS_PER_DECISION + 2):
        inbox.put_plan(plan(tick, decision=tick // TICKS_PER_DECISION if tick % TICKS_PER_DECISION == 0 else None))
    assert inbox.take() is not None
    assert inbox.missing() == ["decision 0"]
    inbox.put_result("decision", 0, 0, "look")
    taken = [inbox.take() for _ in range(TICKS_PER_DECISION)]
    assert [dict(inputs.results) for inputs in taken if inputs] == [{"decision": "look"}, {}, {}, {}, {}]
    assert inbox.take() is None
    assert inbox.missing() == ["decision 1"]


def test_canonical_order_is_by_stream_then_stamp() -> None:
    refs = [SampleRef(Stream.JOINTS, 1, 0), SampleRef(Stream.IMU, 9, 1), SampleRef(Stream.IMU, 3, 0)]
    assert in_order(refs) == (refs[2], refs[1], refs[0])
