"""A wire between two processes of the graph that can be told to lie: what comes in at one end, and what leaves it when.

The world, or a stage, is started with one of its topics renamed; the probe takes the renamed topic and hands it on
under its real name, through a `Wire`. Without an effect the bytes leave as they came.
"""

from __future__ import annotations

import dataclasses
import math
import random
from enum import Enum
from typing import Any

import numpy as np

from tether import topics
from tether.codec import decode, encode
from tether.codec.convert import to_ns, to_time
from tether.topics import Topic

WIRED: dict[str, tuple[Topic, ...]] = {
    "world": (topics.IMAGE, topics.IMU, topics.JOINT_STATES),
    "camera_ingest": (topics.IMAGE_FEATURE,),
    "imu_ingest": (topics.IMU_BATCH,),
    "fusion": (topics.FUSED_STATE,),
    "policy": (topics.POLICY_OUTPUT,),
    "opd_bridge": (topics.DECISION,),
    "primitive_executor": (topics.PROPOSED,),
    "reward_server": (topics.REWARD,),
}
"""Process → what it publishes through a wire."""

BY_NAME = {topic.name: topic for wired in WIRED.values() for topic in wired}


class Effect(str, Enum):
    """What a wire does to messages while the fault lasts."""

    PASS = "pass"
    DROP = "drop"
    """Nothing leaves it."""
    REPEAT = "repeat"
    """The last message before the fault again and again, stamp and all."""
    REPEAT_FRESH = "repeat_fresh"
    """Its content under the stamps of the messages that should have come."""
    DELAY = "delay"
    """Every message `amount` ms late."""
    JITTER = "jitter"
    """Every message 0 to `amount` ms late, so that they also overtake each other."""
    LOSE = "lose"
    """A share `amount` of them is lost."""
    DUPLICATE = "duplicate"
    SWAP = "swap"
    """Pairs leave in the wrong order."""
    NAN = "nan"
    INF = "inf"
    SHIFT = "shift"
    """Stamps are `amount` ms off."""
    CUT = "cut"
    """Half of the bytes are missing."""
    SCALE = "scale"
    """Rewards times `amount`."""


@dataclasses.dataclass(frozen=True)
class Parcel:
    """Bytes that leave the wire at a time of the steady clock, ns."""

    due_ns: int
    raw: bytes


class Wire:
    """One topic's wire. Effects are set and lifted while it runs."""

    def __init__(self, topic: Topic, seed: int = 0) -> None:
        self._topic = topic
        self._random = random.Random(seed)
        self._last: bytes | None = None
        self._frozen: bytes | None = None
        self._held: bytes | None = None
        self._effect, self._amount = Effect.PASS, 0.0

    def set(self, effect: Effect, amount: float) -> None:
        """From now on. A message that was held back for its successor is lost."""
        self._effect, self._amount = effect, amount
        self._frozen, self._held = self._last, None

    def last(self) -> bytes | None:
        """The newest message that came in."""
        return self._last

    def take(self, raw: bytes, now_ns: int) -> list[Parcel]:
        """A message came in at `now_ns`; what leaves, and when."""
        self._last = raw
        effect, amount = self._effect, self._amount
        if effect is Effect.PASS:
            return [Parcel(now_ns, raw)]
        if effect in (Effect.DROP, Effect.REPEAT, Effect.REPEAT_FRESH) or (
            effect is Effect.LOSE and self._random.random() < amount
        ):
            return self._instead(raw, now_ns)
        if effect is Effect.SWAP:
            held, self._held = self._held, None if self._held is not None else raw
            return [] if held is None else [Parcel(now_ns, raw), Parcel(now_ns, held)]
        if effect is Effect.DUPLICATE:
            return [Parcel(now_ns, raw), Parcel(now_ns, raw)]
        late_ms = amount if effect is Effect.DELAY else amount * self._random.random() if effect is Effect.JITTER else 0
        return [Parcel(now_ns + round(late_ms * 1e6), self._altered(raw))]

    def _instead(self, raw: bytes, now_ns: int) -> list[Parcel]:
        """What leaves in place of a message that does not."""
        if self._effect is Effect.REPEAT and self._frozen is not None:
            return [Parcel(now_ns, self._frozen)]
        if self._effect is Effect.REPEAT_FRESH and self._frozen is not None:
            shift_ns = _stamp_ns(decode(raw, self._topic.type)) - _stamp_ns(decode(self._frozen, self._topic.type))
            return [Parcel(now_ns, encode(_shifted(decode(self._frozen, self._topic.type), shift_ns)))]
        return []

    def _altered(self, raw: bytes) -> bytes:
        effect, kind = self._effect, self._topic.type
        if effect is Effect.CUT:
            return raw[: len(raw) // 2]
        if effect is Effect.NAN:
            return encode(_poisoned(decode(raw, kind), math.nan))
        if effect is Effect.INF:
            return encode(_poisoned(decode(raw, kind), math.inf))
        if effect is Effect.SHIFT:
            return encode(_shifted(decode(raw, kind), round(self._amount * 1e6)))
        if effect is Effect.SCALE:
            msg = decode(raw, kind)
            return encode(dataclasses.replace(msg, value=msg.value * self._amount))
        return raw


def poisoned(raw: bytes, topic: Topic, value: float) -> bytes:
    """The message with every floating-point number in it replaced by `value`."""
    return encode(_poisoned(decode(raw, topic.type), value))


def _poisoned(node: Any, value: float) -> Any:
    if isinstance(node, bool | int | str):
        return node
    if isinstance(node, float):
        return value
    if isinstance(node, np.ndarray):
        return np.full_like(node, value) if node.dtype.kind == "f" else node
    if isinstance(node, list):
        return [_poisoned(item, value) for item in node]
    names = [field.name for field in dataclasses.fields(node) if field.init and not field.name.startswith("__")]
    return dataclasses.replace(node, **{name: _poisoned(getattr(node, name), value) for name in names})


def _stamp_ns(msg: Any) -> int:
    return to_ns(_stamp(msg))


def _stamp(msg: Any) -> Any:
    for holder in ("header", "action", "sample"):
        if hasattr(msg, holder):
            return getattr(msg, holder).stamp
    return msg.stamp


def _shifted(msg: Any, shift_ns: int) -> Any:
    """The message with its stamp moved; never below zero, which a stamp cannot say."""
    stamp = to_time(max(_stamp_ns(msg) + shift_ns, 0))
    for holder in ("header", "action", "sample"):
        if hasattr(msg, holder):
            return dataclasses.replace(msg, **{holder: dataclasses.replace(getattr(msg, holder), stamp=stamp)})
    return dataclasses.replace(msg, stamp=stamp)
