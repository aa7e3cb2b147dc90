"""Models of one multiplication, as real ONNX files with manifests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tether.models.manifest import Manifest, TensorSpec
from tether.models.session import Expectation, Session, open_model
from tether.models.store import UNSEALED, save_model

KIND = "tiny"
INPUTS = (TensorSpec("x", (1, 1)),)
OUTPUTS = (TensorSpec("y", (1, 1)),)
EXPECTATION = Expectation(KIND, INPUTS, OUTPUTS)


def tiny_onnx(factor: float) -> bytes:
    """y = factor · x."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1, 1], [factor])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    onnx.checker.check_model(model)
    return data


def write_tiny(folder: Path, factor: float, kind: str = KIND) -> Path:
    """A version in `folder`."""
    manifest = Manifest(kind, f"{factor:g}", "model.onnx", UNSEALED, 17, 8, INPUTS, OUTPUTS)
    save_model(folder, tiny_onnx(factor), manifest)
    return folder


def open_tiny(folder: Path) -> Session:
    """Open one."""
    return open_model(folder, EXPECTATION)


class TinyPolicy:
    """Runs whatever it is told to."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def use(self, session: Session) -> None:
        self.session = session

    def factor(self) -> float:
        """What the model multiplies by."""
        return float(self.session.run({"x": np.ones((1, 1), np.float32)})["y"][0, 0])
