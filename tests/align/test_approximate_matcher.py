"""The matcher makes message_filters' sets: against its algorithm written out, and against itself."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.align import ApproximateMatcher
from tether.align.bench import ENVIRONMENT, load_message_filters, match_ours, theirs, workload
from tether.errors import InvalidInputError

Event = tuple[int, int]  # stream, stamp
Sets = list[tuple[int, ...]]


class Oracle:
    """ApproximateTimeSynchronizer.add of message_filters 361e42c, statement by statement, on integers."""

    def __init__(self, streams: int, queue_size: int, slop: int) -> None:
        self.queues: list[dict[int, int]] = [{} for _ in range(streams)]
        self.queue_size = queue_size
        self.slop = slop

    def add(self, index: int, stamp: int, message: int) -> tuple[int, ...] | None:
        queue = self.queues[index]
        queue[stamp] = message
        while len(queue) > self.queue_size:
            del queue[min(queue)]
        candidates = []
        for other in self.queues[:index] + self.queues[index + 1 :]:
            near = [(s, abs(s - stamp)) for s in other if abs(s - stamp) <= self.slop]
            if not near:
                return None
            candidates.append([s for s, _ in sorted(near, key=lambda pair: pair[1])])
        for combination in itertools.product(*candidates):
            chosen = list(combination)
            chosen.insert(index, stamp)
            pairs = list(zip(self.queues, chosen, strict=True))
            if max(chosen) - min(chosen) < self.slop and all(t in q for q, t in pairs):
                return tuple(q.pop(t) for q, t in pairs)
        return None


def sets_of(matcher: Oracle | ApproximateMatcher[int], events: list[Event]) -> Sets:
    found = (matcher.add(stream, stamp, number) for number, (stream, stamp) in enumerate(events))
    return [one for one in found if one is not None]


def events_of(streams: int) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.tuples(st.integers(0, streams - 1), st.integers(0, 60)), max_size=80)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 12), st.integers(1, 25))
def test_same_sets_as_the_algorithm_written_out(data: st.DataObject, streams: int, queue: int, slop: int) -> None:
    events = data.draw(events_of(streams))
    assert sets_of(ApproximateMatcher(streams, queue, slop), events) == sets_of(Oracle(streams, queue, slop), events)


@settings(deadline=None)
@given(events_of(3), st.integers(1, 25))
def test_set_is_narrower_than_slop_and_no_message_is_used_twice(events: list[Event], slop: int) -> None:
    found = sets_of(ApproximateMatcher(3, 10, slop), events)
    used = [number for one in found for number in one]
    assert len(used) == len(set(used))
    for one in found:
        assert [events[number][0] for number in one] == [0, 1, 2]
        stamps = [events[number][1] for number in one]
        assert max(stamps) - min(stamps) < slop


def test_stamps_exactly_slop_apart_do_not_match() -> None:
    assert sets_of(ApproximateMatcher(2, 10, 10), [(0, 0), (1, 10)]) == []
    assert sets_of(ApproximateMatcher(2, 10, 10), [(0, 0), (1, 9)]) == [(0, 1)]


def test_of_two_as_near_the_one_that_entered_first_is_taken() -> None:
    assert sets_of(ApproximateMatcher(2, 10, 10), [(0, 12), (0, 8), (1, 10)]) == [(0, 2)]
    assert sets_of(ApproximateMatcher(2, 10, 10), [(0, 8), (0, 12), (1, 10)]) == [(0, 2)]


def test_message_with_the_stamp_of_an_older_one_takes_its_place_in_the_queue() -> None:
    assert sets_of(ApproximateMatcher(2, 10, 10), [(0, 12), (0, 8), (0, 12), (1, 10)]) == [(2, 3)]


def test_message_older_than_a_full_queue_is_given_up_at_once() -> None:
    matcher: ApproximateMatcher[int] = ApproximateMatcher(2, 2, 10)
    assert sets_of(matcher, [(1, 5), (0, 50), (0, 60), (0, 4)]) == []
    assert matcher.dropped == 1


def test_counts_of_matched_and_dropped() -> None:
    matcher: ApproximateMatcher[int] = ApproximateMatcher(2, 3, 5)
    sets_of(matcher, [(0, t) for t in range(0, 100, 10)] + [(1, 92)])
    assert (matcher.matched, matcher.dropped) == (1, 7)


def test_clear_empties_the_queues() -> None:
    matcher: ApproximateMatcher[int] = ApproximateMatcher(2, 10, 10)
    matcher.add(0, 5, 0)
    matcher.clear()
    assert matcher.add(1, 5, 1) is None


@pytest.mark.parametrize("arguments", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_arguments_that_could_never_match_are_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidInputError):
        ApproximateMatcher(*arguments)


@pytest.mark.parametrize("seed", range(5))
def test_benchmark_workload_gives_the_oracles_sets(seed: int) -> None:
    work = workload(1500, seed)
    oracle, found = Oracle(3, 100, 20_000_000), Sets()
    for stream, message in work:
        stamp = message.header.stamp
        one = oracle.add(stream, stamp.sec * 1_000_000_000 + stamp.nanosec, message.number)
        if one is not None:
            found.append(one)
    assert len(found) > 100 and match_ours(work) == found


@pytest.mark.ros
@pytest.mark.skipif(ENVIRONMENT not in os.environ, reason=f"${ENVIRONMENT} names no checkout of ros2/message_filters")
@pytest.mark.parametrize("seed", range(3))
def test_same_sets_as_message_filters_itself(seed: int) -> None:
    module, _ = load_message_filters(Path(os.environ[ENVIRONMENT]))
    work = workload(900, seed)
    assert match_ours(work) == theirs(module, work)()
