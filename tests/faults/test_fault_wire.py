"""A wire does to messages what it is told, and to those that it should let pass nothing."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from tether import topics
from tether.codec import convert, decode, encode
from tether.faults.wire import WIRED, Effect, Wire, poisoned

KIND = topics.JOINT_STATES.type
MS_NS = 1_000_000


def stamped(raw: bytes, stamp_ns: int) -> bytes:
    msg = decode(raw, KIND)
    msg.header.stamp = convert.to_time(stamp_ns)
    return encode(msg)


def stamp_ns(raw: bytes) -> int:
    return convert.to_ns(decode(raw, KIND).header.stamp)


def sent(wire: Wire, raws: list[bytes]) -> list[tuple[int, bytes]]:
    """(late by ns, bytes) of everything that leaves, a message every 10 ms."""
    out = []
    for number, raw in enumerate(raws):
        now_ns = number * 10 * MS_NS
        out += [(parcel.due_ns - now_ns, parcel.raw) for parcel in wire.take(raw, now_ns)]
    return out


@pytest.fixture
def raws(joint_state: bytes) -> list[bytes]:
    return [stamped(joint_state, (5000 + 10 * k) * MS_NS) for k in range(200)]


@pytest.fixture
def wire() -> Wire:
    return Wire(topics.JOINT_STATES, seed=7)


def test_without_an_effect_bytes_leave_at_once_as_they_came(wire: Wire, raws: list[bytes]) -> None:
    assert sent(wire, raws) == [(0, raw) for raw in raws]


def test_drop_lets_nothing_leave_and_ends_when_lifted(wire: Wire, raws: list[bytes]) -> None:
    wire.set(Effect.DROP, 0.0)
    assert sent(wire, raws) == []
    wire.set(Effect.PASS, 0.0)
    assert sent(wire, raws[:1]) == [(0, raws[0])]


def test_repeat_says_the_last_message_before_the_fault_again(wire: Wire, raws: list[bytes]) -> None:
    sent(wire, raws[:3])
    wire.set(Effect.REPEAT, 0.0)
    assert [raw for _, raw in sent(wire, raws[3:6])] == [raws[2]] * 3


def test_repeat_fresh_keeps_the_content_and_takes_the_new_stamps(wire: Wire, raws: list[bytes]) -> None:
    moved = decode(raws[4], KIND)
    moved.position = moved.position + 1.0
    sent(wire, raws[:3])
    wire.set(Effect.REPEAT_FRESH, 0.0)
    ((_, raw),) = sent(wire, [encode(moved)])
    assert raw == stamped(raws[2], stamp_ns(raws[4]))


def test_delay_and_jitter_hold_back_within_their_bounds(wire: Wire, raws: list[bytes]) -> None:
    wire.set(Effect.DELAY, 150.0)
    assert {late for late, _ in sent(wire, raws)} == {150 * MS_NS}
    wire.set(Effect.JITTER, 200.0)
    lates = [late for late, _ in sent(wire, raws)]
    assert all(0 <= late <= 200 * MS_NS for late in lates)
    assert any(later < earlier - 10 * MS_NS for earlier, later in pairwise(lates)), "some overtake others"


def test_lose_loses_about_its_share(wire: Wire, raws: list[bytes]) -> None:
    wire.set(Effect.LOSE, 0.2)
    assert 140 <= len(sent(wire, raws)) <= 180


def test_duplicate_and_swap(wire: Wire, raws: list[bytes]) -> None:
    wire.set(Effect.DUPLICATE, 0.0)
    assert [raw for _, raw in sent(wire, raws[:2])] == [raws[0], raws[0], raws[1], raws[1]]
    wire.set(Effect.SWAP, 0.0)
    assert [raw for _, raw in sent(wire, raws[:4])] == [raws[1], raws[0], raws[3], raws[2]]


@pytest.mark.parametrize(("effect", "value"), [(Effect.NAN, math.nan), (Effect.INF, math.inf)])
def test_numbers_become_none_and_all_else_stays(wire: Wire, raws: list[bytes], effect: Effect, value: float) -> None:
    wire.set(effect, 0.0)
    ((_, raw),) = sent(wire, raws[:1])
    msg, before = decode(raw, KIND), decode(raws[0], KIND)
    assert np.array_equal(msg.position, np.full(6, value), equal_nan=True)
    assert (msg.name, msg.header) == (before.name, before.header)
    assert raw == poisoned(raws[0], topics.JOINT_STATES, value)


def test_shift_moves_the_stamp_and_never_below_zero(wire: Wire, raws: list[bytes]) -> None:
    wire.set(Effect.SHIFT, -1000.0)
    assert stamp_ns(sent(wire, raws[:1])[0][1]) == 4000 * MS_NS
    wire.set(Effect.SHIFT, -3_600_000.0)
    assert stamp_ns(sent(wire, raws[:1])[0][1]) == 0


def test_what_is_cut_is_no_message(wire: Wire, raws: list[bytes]) -> None:
    wire.set(Effect.CUT, 0.0)
    ((_, raw),) = sent(wire, raws[:1])
    with pytest.raises(ValueError, match=r"\S"):
        decode(raw, KIND)


def test_every_wired_topic_has_one_process_that_says_it() -> None:
    names = [topic.name for wired in WIRED.values() for topic in wired]
    assert len(names) == len(set(names))
