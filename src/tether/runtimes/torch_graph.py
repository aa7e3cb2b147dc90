"""An ONNX graph as a torch module with the file's own weights: for numbers to compare with, and for benchmarks.

Covers the operators of the models that Tether exports, at fixed shapes: what only depends on shapes and constants is
computed once, when the module is made. Operators are those of onnx/docs/Operators.md. What an int8 graph quantises and
takes back at once is one operator here, rounding and clamping in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from tether.errors import Fault, InvalidInputError
from tether.models.manifest import Manifest
from tether.runtimes.torch_ops import OPERATORS, Attributes


class Activations(Enum):
    """What becomes of an activation that a graph quantises and takes back at once: an operator of `OPERATORS`."""

    ROUNDED = "FakeQuantize"
    """As in the file: only those numbers that its integers can tell apart."""
    FLOAT = "FakeClip"
    """Any number between the least and the greatest of these: the network before its activations were rounded."""


class OnnxModule(nn.Module):
    """Takes the model's inputs in the manifest's order, gives its outputs likewise."""

    def __init__(self, data: bytes, manifest: Manifest, activations: Activations = Activations.ROUNDED) -> None:
        """Raises InvalidInputError for a graph with an operator that is not among `OPERATORS`."""
        super().__init__()
        graph = onnx.load_model_from_string(data).graph
        unknown = sorted({node.op_type for node in graph.node} - set(OPERATORS) - {"Constant"})
        if unknown:
            fault = Fault("operators", ", ".join(unknown), ", ".join(sorted(OPERATORS)))
            raise InvalidInputError(f"model {manifest.kind} in torch", [fault], "run it on onnxruntime")
        self._specs = manifest.inputs
        self._inputs = [spec.name for spec in manifest.inputs]
        self._outputs = [spec.name for spec in manifest.outputs]
        self._steps: list[tuple[Callable[..., Any], list[str], list[str]]] = []
        self._compile(_paired(graph, activations), {spec.name: _zeros(spec) for spec in manifest.inputs}, graph)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run the graph."""
        values: dict[str, Tensor] = dict(zip(self._inputs, inputs, strict=True))
        for function, names, made in self._steps:
            out = function(*(values[name] for name in names))
            if len(made) == 1:
                values[made[0]] = out
            else:
                values.update(zip(made, out, strict=False))
        return tuple(values[name] for name in self._outputs)

    def traced(self) -> nn.Module:
        """The same computation as one flat graph of torch's own operators, which `torch.compile` takes whole."""
        with torch.no_grad():
            return make_fx(self)(*(_zeros(spec) for spec in self._specs))

    def _compile(self, nodes: Sequence[Any], known: dict[str, Tensor], graph: Any) -> None:
        """Run the graph once on zeros; nodes that see only constants give constants, the others become steps."""
        values = dict(known)
        constant: dict[str, Tensor] = {t.name: _tensor(numpy_helper.to_array(t)) for t in graph.initializer}
        for node in nodes:
            attributes = Attributes({a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
            names = list(node.input)
            made = list(node.output)
            if node.op_type == "Constant":
                constant[made[0]] = _tensor(numpy_helper.to_array(attributes.values["value"]))
                continue
            arguments = [None if not name else constant.get(name, values.get(name)) for name in names]
            flowing = [i for i, name in enumerate(names) if name and name not in constant]
            operator = OPERATORS[node.op_type](attributes, arguments)
            with torch.no_grad():
                out = operator(*arguments)
            outputs = [out] if len(made) == 1 else list(out)
            if not flowing or node.op_type == "Shape":
                constant.update(zip(made, outputs, strict=False))
                continue
            values.update(zip(made, outputs, strict=False))
            self._steps.append((_bound(operator, arguments, flowing), [names[i] for i in flowing], made))


def _paired(graph: Any, activations: Activations) -> list[Any]:
    """The nodes, where a tensor that is quantised and taken back by the same two numbers is so in one node."""
    single = {t.name for t in graph.initializer if not t.dims}
    quantised = {node.output[0]: node for node in graph.node if node.op_type == "QuantizeLinear"}
    uses = Counter(name for node in graph.node for name in node.input)
    nodes = []
    for node in graph.node:
        source = quantised.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if source is None or node.input[1:] != source.input[1:] or not single.issuperset(node.input[1:]):
            nodes.append(node)
            continue
        uses[source.output[0]] -= 1
        nodes.append(onnx.helper.make_node(activations.value, source.input, node.output))
    return [node for node in nodes if node.op_type != "QuantizeLinear" or uses[node.output[0]]]


def _bound(
    operator: Callable[..., Any], arguments: Sequence[Tensor | None], flowing: Sequence[int]
) -> Callable[..., Any]:
    """The operator as a function of what flows, with its constants filled in."""
    fixed = [None if i in flowing else argument for i, argument in enumerate(arguments)]
    if len(flowing) == len(arguments):
        return operator

    def call(*given: Tensor) -> Any:
        filled: list[Tensor | None] = list(fixed)
        for i, value in zip(flowing, given, strict=True):
            filled[i] = value
        return operator(*filled)

    return call


def _zeros(spec: Any) -> Tensor:
    return torch.from_numpy(np.zeros(spec.shape, spec.dtype.value))


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array))
