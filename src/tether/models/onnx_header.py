"""IR and operator-set version of an ONNX file, read from the first level of its protobuf message.

Field numbers: onnx/onnx.proto, message ModelProto (ir_version = 1, graph = 7, opset_import = 8) and
OperatorSetIdProto (domain = 1, version = 2). Enough to refuse a file before a runtime is given it, without the
`onnx` package, which a robot has no other use for.
"""

from __future__ import annotations

from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_IR_VERSION, _GRAPH, _OPSET_IMPORT = 1, 7, 8


@dataclass(frozen=True)
class OnnxHeader:
    """ir_version of the file; opset: version of the default operator set."""

    ir_version: int
    opset: int


def read_header(data: bytes) -> OnnxHeader:
    """Header of the model in `data`; raises ValueError where it is no whole ONNX model."""
    ir_version = opset = None
    has_graph = False
    for number, value in _fields(memoryview(data)):
        if number == _IR_VERSION and isinstance(value, int):
            ir_version = value
        elif number == _GRAPH:
            has_graph = True
        elif number == _OPSET_IMPORT and not isinstance(value, int):
            domain, version = _operator_set(value)
            if domain in ("", "ai.onnx"):
                opset = version
    if ir_version is None or opset is None or not has_graph:
        raise ValueError("no ir_version, no graph or no default operator set")
    return OnnxHeader(ir_version, opset)


def _operator_set(message: memoryview) -> tuple[str, int]:
    domain, version = "", 0
    for number, value in _fields(message):
        if number == 1 and not isinstance(value, int):
            domain = bytes(value).decode("utf-8")
        elif number == 2 and isinstance(value, int):
            version = value
    return domain, version


def _fields(data: memoryview) -> list[tuple[int, int | memoryview]]:
    """(field number, value) of each field of one message; fixed-width ones, which no field here is, as 0."""
    found: list[tuple[int, int | memoryview]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: int | memoryview = 0
        if kind == _VARINT:
            value, at = _varint(data, at)
        elif kind == _BYTES:
            length, at = _varint(data, at)
            value = data[at : at + length]
            at += length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field of unknown kind {kind} at byte {at}")
        if at > len(data):
            raise ValueError(f"ends {at - len(data)} bytes early")
        found.append((key >> 3, value))
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError(f"a number at byte {at} has no end")
