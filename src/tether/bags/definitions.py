"""Which type a topic's bytes have: first by the definition that the bag carries, then by the type store.

Bags carry definitions because types change; the store knows Jazzy's. A bag whose definition cannot be parsed
falls back to the store, and a type that neither knows is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from tether.bags.damage import DAMAGE, short_reason
from tether.bags.model import DefinitionFormat, Encoding, TopicInfo
from tether.bags.payload import unpacked
from tether.bags.report import CorruptMessageError

HEADER = "std_msgs/msg/Header"
_PARTS_MAX = 100_000
_IDL_SEPARATOR = "=" * 80 + "\n"


@dataclass(frozen=True)
class ResolvedType:
    """A topic's type with the store that knows it.

    has_header: the message begins with a std_msgs/Header, whose stamp then stands at bytes 4 to 12 in both
    encodings (behind the encapsulation in CDR, behind `seq` in ROS 1). note: why the bag's own definition was
    not used, or "".
    """

    name: str
    store: Typestore
    encoding: Encoding
    has_header: bool
    note: str = ""

    def decoder(self) -> Callable[[bytes], Any]:
        """Bytes to message; raises CorruptMessageError for bytes that do not fit."""
        decode = self.store.deserialize_cdr if self.encoding is Encoding.CDR else self.store.deserialize_ros1
        name = self.name

        def checked(raw: bytes) -> Any:
            try:
                return decode(raw, name)
            except DAMAGE as error:  # rosbags raises SerdeError, but other kinds too (index, assertion, overflow)
                raise CorruptMessageError(
                    f"{name}: {len(raw)} bytes do not fit the type ({short_reason(error)})"
                ) from error

        return checked

    def fits_instead_of(self, own: ResolvedType, data: bytes) -> bool:
        """Whether a message, possibly packed, can be read as this type and not as `own`."""
        try:
            raw = unpacked(data)
            self.decoder()(raw)
        except CorruptMessageError:
            return False
        try:
            own.decoder()(raw)
        except CorruptMessageError:
            return True
        return False


class TypeResolver:
    """Resolves the topics of one bag. `default` is the store for types that the bag does not define."""

    def __init__(self, default: Typestore) -> None:
        self._default = default
        self._own = get_typestore(Stores.EMPTY)
        self._known: dict[tuple[str, str, Encoding], ResolvedType | None] = {}

    def resolve(self, topic: TopicInfo) -> ResolvedType | None:
        """The topic's type, or None where neither the bag nor the store knows it."""
        key = (topic.type, topic.definition.text, topic.encoding)
        if key not in self._known:
            self._known[key] = self._resolve(topic)
        return self._known[key]

    def _resolve(self, topic: TopicInfo) -> ResolvedType | None:
        note = ""
        if topic.definition.format is not DefinitionFormat.NONE:
            try:
                store = self._register(topic)
                return ResolvedType(topic.type, store, topic.encoding, _begins_with_header(store, topic.type))
            except DAMAGE as error:  # a definition is text from a stranger; any failure means it is of no use
                note = f"{topic.type}: the bag's definition is unusable ({short_reason(error)[:80]})"
        if topic.type not in self._default.fielddefs:
            return None
        try:
            self._default.get_msgdef(topic.type)
        except DAMAGE:  # a type with members that the store cannot lay out (wstring) is as good as unknown
            return None
        has_header = _begins_with_header(self._default, topic.type)
        return ResolvedType(
            topic.type, self._default, topic.encoding, has_header, note and f"{note}; the store's is used"
        )

    def other(self, topic: TopicInfo, resolved: ResolvedType | None) -> ResolvedType | None:
        """The store's definition of a type that the bag defines differently; None where the two agree."""
        if resolved is None or resolved.store is self._default or topic.encoding is not Encoding.CDR:
            return None
        if topic.type not in self._default.fielddefs:
            return None
        try:
            if resolved.store.hash_rihs01(topic.type) == self._default.hash_rihs01(topic.type):
                return None
            self._default.get_msgdef(topic.type)
        except DAMAGE:  # one of the two cannot be laid out, so there is nothing to choose
            return None
        return ResolvedType(topic.type, self._default, topic.encoding, _begins_with_header(self._default, topic.type))

    def _register(self, topic: TopicInfo) -> Typestore:
        types: dict[str, Any] = {}
        if topic.definition.format is DefinitionFormat.MSG:
            types = dict(get_types_from_msg(topic.definition.text, topic.type))
        else:
            for part in topic.definition.text.split(_IDL_SEPARATOR):
                types.update(get_types_from_idl(part.partition("\n")[2] if part.startswith("IDL: ") else part))
        try:
            self._own.register(types)
            store = self._own
        except DAMAGE:  # two files of one bag define a type differently: this topic gets a store of its own
            store = get_typestore(Stores.EMPTY)
            store.register(types)
        if _fixed_parts(store, topic.type, {}) > _PARTS_MAX:  # which may take no bytes at all, and years to make
            raise ValueError(f"arrays of fixed length with more than {_PARTS_MAX} messages in them")
        store.get_msgdef(topic.type)
        return store


def _fixed_parts(store: Typestore, name: str, known: dict[str, int]) -> int:
    """How many messages one message of a type consists of, whatever its bytes say."""
    if name not in known:
        known[name] = 1
        for _, field in store.fielddefs[name][1]:
            kind, count = (field[1][0], field[1][1]) if field[0] is Nodetype.ARRAY else (field, 1)
            if kind[0] is Nodetype.NAME:
                known[name] += count * _fixed_parts(store, kind[1], known)
    return known[name]


def _begins_with_header(store: Typestore, name: str) -> bool:
    fields = store.fielddefs[name][1]
    return bool(fields) and tuple(fields[0][1]) == (Nodetype.NAME, HEADER)
