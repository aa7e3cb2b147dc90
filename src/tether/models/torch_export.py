"""A torch network as an ONNX model, traced at the shapes of its tensors. Needs torch, as training does."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from tether.models.manifest import TensorSpec
from tether.quiet import at_least

OPSET = 17
IR_VERSION = 8


def to_onnx(network: nn.Module, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bytes:
    """The model of `network`, which takes and gives tensors of these names and shapes, in this order."""
    buffer = io.BytesIO()
    export: Any = torch.onnx.export  # it takes a file object; its annotation says otherwise
    with warnings.catch_warnings(), at_least(logging.ERROR, "torch.onnx"):
        # The exporter's own deprecations, and branches that shapes alone decide: shapes are fixed.
        warnings.simplefilter("ignore")
        export(
            network,
            tuple(torch.zeros(spec.shape) for spec in inputs),
            buffer,
            input_names=[spec.name for spec in inputs],
            output_names=[spec.name for spec in outputs],
            opset_version=OPSET,
            dynamo=False,
        )
    return buffer.getvalue()
