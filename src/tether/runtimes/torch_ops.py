"""ONNX operators in torch. Each entry makes a function of the node's inputs from its attributes and constant inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from onnx import TensorProto, numpy_helper
from torch import Tensor
from torch.nn import functional

Arguments = Sequence["Tensor | None"]
"""A node's inputs when the module is made: constants as they are, others with the values that zeros give."""
Operator = Callable[..., Any]
Maker = Callable[["Attributes", Arguments], Operator]

_LSTM: Callable[..., Any] = torch.lstm
"""Its stub knows neither a pair of states nor a list of weights."""

_TYPES = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.INT64: torch.int64,
    TensorProto.INT32: torch.int32,
    TensorProto.INT8: torch.int8,
    TensorProto.UINT8: torch.uint8,
    TensorProto.BOOL: torch.bool,
}


@dataclass(frozen=True)
class Attributes:
    """A node's attributes with the standard's defaults left to the caller."""

    values: Mapping[str, Any]

    def get(self, name: str, default: Any) -> Any:
        """One of them."""
        return self.values.get(name, default)


def _plain(function: Operator) -> Maker:
    return lambda attributes, arguments: function


def _ints(value: Tensor | None) -> list[int]:
    return [] if value is None else [int(v) for v in value.reshape(-1).tolist()]


def _conv(attributes: Attributes, arguments: Arguments) -> Operator:
    kernel = arguments[1]
    n = 1 if kernel is None else kernel.dim() - 2
    pads = list(attributes.get("pads", [0] * 2 * n))
    stride, dilation = attributes.get("strides", [1] * n), attributes.get("dilations", [1] * n)
    groups = int(attributes.get("group", 1))
    call = {1: functional.conv1d, 2: functional.conv2d}[n]
    if pads[:n] != pads[n:]:
        around = _torch_pads(pads)
        return lambda x, w, b=None: call(functional.pad(x, around), w, b, stride, 0, dilation, groups)
    return lambda x, w, b=None: call(x, w, b, stride, pads[:n], dilation, groups)


def _torch_pads(pads: Sequence[int]) -> list[int]:
    n = len(pads) // 2
    return [pads[side * n + axis] for axis in reversed(range(n)) for side in (0, 1)]


def _max_pool(attributes: Attributes, arguments: Arguments) -> Operator:
    kernel = list(attributes.values["kernel_shape"])
    strides, pads = attributes.get("strides", [1] * len(kernel)), list(attributes.get("pads", [0] * 2 * len(kernel)))
    return lambda x: functional.max_pool2d(x, kernel, strides, pads[: len(kernel)])


def _gemm(attributes: Attributes, arguments: Arguments) -> Operator:
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    trans_a, trans_b = attributes.get("transA", 0), attributes.get("transB", 0)

    def gemm(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        left, right = a.t() if trans_a else a, b.t() if trans_b else b
        if c is None:
            return torch.mul(left @ right, alpha)
        return torch.addmm(c, left, right, beta=beta, alpha=alpha)

    return gemm


def _layer_norm(attributes: Attributes, arguments: Arguments) -> Operator:
    axis, epsilon = int(attributes.get("axis", -1)), float(attributes.get("epsilon", 1e-5))
    return lambda x, scale, bias=None: functional.layer_norm(x, x.shape[axis:], scale, bias, epsilon)


def _lstm(attributes: Attributes, arguments: Arguments) -> Operator:
    """Forward, one layer, default activations. ONNX keeps gates as i, o, f, c; torch as i, f, c, o."""
    hidden = int(attributes.values["hidden_size"])

    def gates(weights: Tensor) -> Tensor:
        i, o, f, c = (weights[k * hidden : (k + 1) * hidden] for k in range(4))
        return torch.cat((i, f, c, o))

    constants = [argument for argument in arguments[1:4] if argument is not None]
    w, r, b = constants
    params = [gates(w[0]), gates(r[0]), gates(b[0, : 4 * hidden]), gates(b[0, 4 * hidden :])]

    def lstm(x: Tensor, w: Tensor, r: Tensor, b: Tensor, lengths: Any = None, h: Any = None, c: Any = None) -> Any:
        zero = torch.zeros((1, x.shape[1], hidden))
        state = (zero if h is None else h, zero if c is None else c)
        out, last, cell = _LSTM(x, state, params, True, 1, 0.0, False, False, False)
        return out[:, None], last, cell

    return lstm


def _reduce(call: Callable[..., Tensor]) -> Maker:
    def make(attributes: Attributes, arguments: Arguments) -> Operator:
        given = _ints(arguments[1]) if len(arguments) > 1 else list(attributes.get("axes", []))
        keep = bool(attributes.get("keepdims", 1))
        return lambda x, axes=None: call(x, dim=given or tuple(range(x.dim())), keepdim=keep)

    return make


def _reshape(attributes: Attributes, arguments: Arguments) -> Operator:
    x, shape = arguments[0], _ints(arguments[1])
    if not attributes.get("allowzero", 0) and x is not None:
        shape = [x.shape[i] if n == 0 else n for i, n in enumerate(shape)]
    return lambda x, _: x.reshape(shape)


def _slice(attributes: Attributes, arguments: Arguments) -> Operator:
    x, starts, ends = arguments[0], _ints(arguments[1]), _ints(arguments[2])
    axes = _ints(arguments[3]) if len(arguments) > 3 and arguments[3] is not None else list(range(len(starts)))
    steps = _ints(arguments[4]) if len(arguments) > 4 and arguments[4] is not None else [1] * len(starts)
    rank = 0 if x is None else x.dim()
    cuts = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    backwards = [axis % rank for axis, step in zip(axes, steps, strict=True) if step < 0]
    if not backwards:
        return lambda x, *_: x[tuple(cuts)]
    kept = {axis: list(range(*cuts[axis].indices(0 if x is None else x.shape[axis]))) for axis in backwards}
    forwards = tuple(slice(None) if axis in kept else cut for axis, cut in enumerate(cuts))
    index = {axis: torch.tensor(places) for axis, places in kept.items()}

    def cut(x: Tensor, *_: Any) -> Tensor:
        for axis, places in index.items():
            x = x.index_select(axis, places)
        return x[forwards]

    return cut


def _gather(attributes: Attributes, arguments: Arguments) -> Operator:
    axis, index = int(attributes.get("axis", 0)), arguments[1]
    if index is not None and index.dim() == 0:
        place = int(index)
        return lambda x, _: x.select(axis, place)

    def gather(x: Tensor, index: Tensor) -> Tensor:
        around = axis % x.dim()
        return x.index_select(around, index.reshape(-1)).reshape(
            *x.shape[:around], *index.shape, *x.shape[around + 1 :]
        )

    return gather


def _split(attributes: Attributes, arguments: Arguments) -> Operator:
    sizes = _ints(arguments[1]) if len(arguments) > 1 else list(attributes.values["split"])
    axis = int(attributes.get("axis", 0))
    return lambda x, _=None: x.split(sizes, axis)


def _pad(attributes: Attributes, arguments: Arguments) -> Operator:
    pads = _torch_pads(_ints(arguments[1]))
    fill = 0.0 if len(arguments) < 3 or arguments[2] is None else float(arguments[2])
    return lambda x, *_: functional.pad(x, pads, value=fill)


def _resize(attributes: Attributes, arguments: Arguments) -> Operator:
    scales = [float(s) for s in (arguments[2] if arguments[2] is not None else torch.ones(4)).tolist()]
    return lambda x, *_: functional.interpolate(x, scale_factor=scales[2:], mode="nearest")


def _cast(attributes: Attributes, arguments: Arguments) -> Operator:
    to = _TYPES[attributes.values["to"]]
    return lambda x: x.to(to)


def _fill(attributes: Attributes, arguments: Arguments) -> Operator:
    value = numpy_helper.to_array(attributes.values["value"]) if "value" in attributes.values else [0.0]
    one = torch.tensor(value)
    return lambda shape: one.reshape(()).expand(_ints(shape)).clone()


def _expand(attributes: Attributes, arguments: Arguments) -> Operator:
    x, shape = arguments[0], torch.Size(_ints(arguments[1]))
    full = shape if x is None else np.broadcast_shapes(tuple(x.shape), tuple(shape))
    return lambda x, _: x.expand(full)


def _clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    return torch.clamp(x, low, high)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _along(scale: Tensor, x: Tensor, axis: int) -> Tensor:
    return scale if scale.dim() == 0 else scale.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])


def _quantise(attributes: Attributes, arguments: Arguments) -> Operator:
    axis = int(attributes.get("axis", 1))

    def quantise(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        about = torch.iinfo(zero.dtype)
        rounded = torch.round(x / _along(scale, x, axis)) + _along(zero, x, axis).to(torch.float32)
        return rounded.clamp(about.min, about.max).to(zero.dtype)

    return quantise


def _dequantise(attributes: Attributes, arguments: Arguments) -> Operator:
    axis = int(attributes.get("axis", 1))

    def dequantise(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        whole = x.to(torch.float32)
        if zero is not None:
            whole = whole - _along(zero, x, axis).to(torch.float32)
        return whole * _along(scale, x, axis)

    return dequantise


def _fake_quantise(attributes: Attributes, arguments: Arguments) -> Operator:
    """QuantizeLinear and DequantizeLinear in one, for a tensor with one scale and one zero point."""
    step, middle, low, high = _range(arguments)
    return lambda x, *_: torch.fake_quantize_per_tensor_affine(x, step, middle, low, high)


def _fake_clip(attributes: Attributes, arguments: Arguments) -> Operator:
    """What is left of the same without rounding; quantising has taken over many a ReLU."""
    step, middle, low, high = _range(arguments)
    return lambda x, *_: x.clamp((low - middle) * step, (high - middle) * step)


def _range(arguments: Arguments) -> tuple[float, int, int, int]:
    """Scale, zero point, least and greatest integer."""
    scale, zero = arguments[1:3]
    if scale is None or zero is None:
        raise ValueError("a quantised tensor has a scale and a zero point")
    about = torch.iinfo(zero.dtype)
    return float(scale), int(zero), about.min, about.max


def _axes(call: Callable[[Tensor, list[int]], Tensor]) -> Maker:
    return lambda attributes, arguments: lambda x, _=None: call(x, _ints(arguments[1]))


def _unsqueeze(x: Tensor, axes: list[int]) -> Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


OPERATORS: dict[str, Maker] = {
    "Add": _plain(torch.add),
    "Cast": _cast,
    "Clip": _plain(_clip),
    "Concat": lambda attributes, _: lambda *parts: torch.cat(parts, int(attributes.values["axis"])),
    "ConstantOfShape": _fill,
    "Conv": _conv,
    "DequantizeLinear": _dequantise,
    "Div": _plain(_divide),
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Expand": _expand,
    "FakeClip": _fake_clip,  # these two are no operators of ONNX: see `tether.runtimes.torch_graph.Activations`
    "FakeQuantize": _fake_quantise,
    "Flatten": lambda attributes, _: lambda x: x.flatten(int(attributes.get("axis", 1))),
    "Gather": _gather,
    "Gemm": _gemm,
    "Greater": _plain(torch.gt),
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "MatMul": _plain(torch.matmul),
    "MaxPool": _max_pool,
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "Pad": _pad,
    "QuantizeLinear": _quantise,
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _plain(lambda x: torch.tensor(x.shape)),
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": lambda attributes, _: lambda x: torch.softmax(x, int(attributes.get("axis", -1))),
    "Split": _split,
    "Squeeze": _axes(lambda x, axes: x.squeeze(tuple(axes))),
    "Sub": _plain(torch.sub),
    "Tanh": _plain(torch.tanh),
    "Transpose": lambda attributes, _: lambda x: x.permute(*attributes.values["perm"]),
    "Unsqueeze": _axes(_unsqueeze),
    "Where": _plain(torch.where),
}
