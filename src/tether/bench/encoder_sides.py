"""The sides of `tether bench encoder`: each runs the student's three models its own way, from the same files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from numpy.typing import NDArray

from tether.errors import Fault, InvalidInputError
from tether.models.session import RunningModel
from tether.models.store import Model
from tether.runtimes.selection import prepare

SIDES = ("shipped", "torch_eager", "torch_compile", "bare_ort")
"""The first is ours, what it is measured against follows."""
SUMMED = frozenset({"bare_ort"})
"""Sides of which the sum of the models' calls counts, and nothing between them."""

Call = Callable[[Mapping[str, NDArray[Any]]], dict[str, NDArray[Any]]]
"""Inputs by name → outputs by name, through one model."""


class Part(str, Enum):
    """The models of a student, in the order in which a picture passes them."""

    EYES = "eyes"
    FUSION = "fusion"
    POLICY = "policy"


PARTS = tuple(Part)


@dataclass(frozen=True, eq=False)
class Side:
    """One way to run the models. about: what it is, in words."""

    name: str
    about: str
    calls: dict[Part, Call]


def make_side(name: str, models: Mapping[Part, Model], threads: int) -> Side:
    """A side of `SIDES`; raises InvalidInputError where what it needs is not installed."""
    makers = {"shipped": _shipped, "torch_eager": _torch_eager, "torch_compile": _torch_compile, "bare_ort": _bare_ort}
    return makers[name](models, threads)


def _shipped(models: Mapping[Part, Model], threads: int) -> Side:
    """As the nodes do: the runtime that $TETHER_RUNTIME chooses, inputs checked, outputs as fresh arrays."""
    running = {part: RunningModel(model.manifest, prepare(model, threads)) for part, model in models.items()}
    about = ", ".join(sorted({model.runtime for model in running.values()}))
    return Side("shipped", about, {part: model.run for part, model in running.items()})


def _bare_ort(models: Mapping[Part, Model], threads: int) -> Side:
    """`InferenceSession.run` with ONNX Runtime's own settings, but for the number of threads."""
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        raise _missing("onnxruntime", error, "sim") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads

    def bare(model: Model) -> Call:
        session = onnxruntime.InferenceSession(model.data, options, providers=["CPUExecutionProvider"])
        names = [spec.name for spec in model.manifest.outputs]
        return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))

    about = f"bare onnxruntime {onnxruntime.__version__}, sum of the calls"
    return Side("bare_ort", about, {part: bare(model) for part, model in models.items()})


def _torch_eager(models: Mapping[Part, Model], threads: int) -> Side:
    """The files' graphs and weights in torch, in float32."""
    torch, module = _torch(threads)
    calls = {part: _call(torch, module(model), model) for part, model in models.items()}
    return Side("torch_eager", f"torch {torch.__version__} eager", calls)


def _torch_compile(models: Mapping[Part, Model], threads: int) -> Side:
    """The same, each model compiled as one graph, with its weights frozen into it as inference allows."""
    torch, module = _torch(threads)
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        fault = Fault("torch.compile", f"no {compiler}", "a C++ compiler on the PATH, or named by $CXX")
        raise InvalidInputError("bench encoder", [fault], "apt install g++, or --leave-out torch_compile")

    def compiled(model: Model) -> Call:
        whole = torch.compile(module(model).traced(), fullgraph=True, dynamic=False, options={"freezing": True})
        return _call(torch, whole, model)

    about = f"torch {torch.__version__} torch.compile"
    return Side("torch_compile", about, {part: compiled(model) for part, model in models.items()})


def _torch(threads: int) -> tuple[Any, Callable[[Model], Any]]:
    """torch, with so many threads, and what makes a module of a model."""
    try:
        import torch

        from tether.runtimes.torch_graph import Activations, OnnxModule
    except (ImportError, OSError) as error:
        raise _missing("torch", error, "train") from error
    torch.set_num_threads(threads)
    return torch, lambda model: OnnxModule(model.data, model.manifest, Activations.FLOAT).eval()


def _call(torch: Any, module: Any, model: Model) -> Call:
    names = [spec.name for spec in model.manifest.inputs]
    made = [spec.name for spec in model.manifest.outputs]

    def call(inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        with torch.no_grad():
            outputs = module(*(torch.from_numpy(inputs[name]) for name in names))
        return {name: output.numpy() for name, output in zip(made, outputs, strict=True)}

    return call


def _missing(package: str, error: Exception, extra: str) -> InvalidInputError:
    fault = Fault(package, str(error)[:200], f"the packages of tether's extra `{extra}`")
    return InvalidInputError("bench encoder", [fault], "sh scripts/setup --dev installs them")
