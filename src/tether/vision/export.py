"""From a trained network to a model file: normalisation folded in, checked against torch, in float32 or int8."""

from __future__ import annotations

import copy
import io
import itertools
import logging
import tempfile
import warnings
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tether.contracts import U8
from tether.errors import Fault, InvalidInputError
from tether.quiet import at_least
from tether.vision.contract import EYES, PICTURE
from tether.vision.network import ExportedEyes, EyesNetwork, example

OPSET = 18
IR_VERSION = 10
_TOLERANCE = 2e-3
"""Largest difference between torch and the exported float32 model, in units of each output (boxes: pixels)."""
_CALIBRATION_FRAMES = 192


class Precision(str, Enum):
    """How weights and sums of an exported model are held."""

    FLOAT32 = "float32"
    INT8 = "int8"
    """Static quantisation: int8 weights a channel, uint8 activations, scales from calibration frames."""


def export(network: EyesNetwork, precision: Precision, calibration: U8) -> bytes:
    """The ONNX model of a trained network.

    calibration: (N, 96, 128, 3) uint8 frames, for the check against torch and for the scales of int8. Raises
    InvalidInputError where the exported model and torch differ.
    """
    fused = _without_batch_norm(network)
    model = _to_onnx(ExportedEyes(fused).eval())
    _require_same(model, fused, calibration[:8])
    if precision is Precision.FLOAT32:
        return model
    return _quantised(model, calibration[:_CALIBRATION_FRAMES])


def _without_batch_norm(network: EyesNetwork) -> EyesNetwork:
    """A copy in which each normalisation is part of the convolution before it."""
    fused = copy.deepcopy(network).eval().to(memory_format=torch.contiguous_format)
    for module in list(fused.modules()):
        children = list(module.named_children())
        for (name, first), (other, second) in itertools.pairwise(children):
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                setattr(module, name, fuse_conv_bn_eval(first, second))
                setattr(module, other, nn.Identity())
    return fused


def _to_onnx(eyes: ExportedEyes) -> bytes:
    import onnx

    names = [spec.name for spec in EYES.outputs]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder, at_least(logging.ERROR, "torch.onnx"):
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            eyes,
            (example(),),
            str(path),
            dynamo=True,
            opset_version=OPSET,
            input_names=[PICTURE.name],
            output_names=names,
            external_data=False,
            verbose=False,
        )
        model = onnx.load(str(path))
    model.ir_version = IR_VERSION
    _forget_sources(model)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _forget_sources(model: Any) -> None:
    """Leave out what the exporter notes about the machine and the source lines it ran on."""
    model.doc_string = ""
    del model.metadata_props[:]
    for message in (model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        message.doc_string = ""
        del message.metadata_props[:]
    del model.graph.value_info[:]


def _require_same(model: bytes, network: EyesNetwork, frames: U8) -> None:
    with torch.no_grad():
        expected = [out.numpy() for out in ExportedEyes(network)(torch.from_numpy(frames))]
    worst = dict.fromkeys((spec.name for spec in EYES.outputs), 0.0)
    session = _session(model)
    for i in range(len(frames)):
        found = session.run(None, {PICTURE.name: frames[i : i + 1]})
        for name, ours, theirs in zip(worst, found, expected, strict=True):
            worst[name] = max(worst[name], float(np.abs(ours[0] - theirs[i]).max()))
    faults = [
        Fault(name, f"{difference:g} from torch", f"at most {_TOLERANCE:g}")
        for name, difference in worst.items()
        if not difference <= _TOLERANCE
    ]
    if faults:
        raise InvalidInputError("exported model", faults, "report this: torch and onnxruntime disagree")


def _session(model: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class _Frames:
    """Calibration frames as onnxruntime's quantiser reads them."""

    def __init__(self, frames: U8) -> None:
        self._rows = iter(frames)

    def get_next(self) -> dict[str, U8] | None:
        row = next(self._rows, None)
        return None if row is None else {PICTURE.name: row[None]}


def _quantised(model: bytes, frames: U8) -> bytes:
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization import shape_inference

    with tempfile.TemporaryDirectory() as name, at_least(logging.WARNING, ""):
        folder = Path(name)
        (folder / "float.onnx").write_bytes(model)
        shape_inference.quant_pre_process(
            str(folder / "float.onnx"), str(folder / "ready.onnx"), skip_symbolic_shape=True
        )
        quantization.quantize_static(
            str(folder / "ready.onnx"),
            str(folder / "int8.onnx"),
            _Frames(frames),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            # 7 bits: processors without VNNI add products of 8 bits pairwise in 16, which overflows.
            reduce_range=True,
            weight_type=quantization.QuantType.QInt8,
            activation_type=quantization.QuantType.QUInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
            op_types_to_quantize=["Conv", "Add", "MaxPool", "Relu", "Resize"],
            nodes_to_exclude=_last_convolution(folder / "ready.onnx"),
        )
        quantised = onnx.load(str(folder / "int8.onnx"))
    quantised.ir_version = IR_VERSION
    stream = io.BytesIO()
    onnx.save(quantised, stream)
    return stream.getvalue()


def _last_convolution(path: Path) -> list[str]:
    """The head's convolution stays float: its outputs are positions, for which 256 steps are too coarse."""
    import onnx

    nodes = [node for node in onnx.load(str(path)).graph.node if node.op_type == "Conv"]
    return [nodes[-1].name]
