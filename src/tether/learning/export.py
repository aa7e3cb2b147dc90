"""The trained actor as an ONNX model with its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tether import __version__
from tether.errors import Fault, InvalidInputError
from tether.learning.networks import masked_log_probs
from tether.learning.sac import Agent
from tether.models.manifest import DType, Manifest, TensorSpec
from tether.models.session import Expectation, Session, open_model
from tether.models.store import UNSEALED, save_model
from tether.models.torch_export import IR_VERSION, OPSET, to_onnx

KIND = "hybrid_actor"
_CHECKS = 32
_TOLERANCE = 1e-4


class _Graph(nn.Module):
    """Normalisation, actor, mask and scaling to the environment's units."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent, self.actor = agent, agent.actor
        self._centre = torch.from_numpy(agent.space.centre).float()
        self._scale = torch.from_numpy(agent.space.scale).float()

    def forward(self, observation: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        out = self.actor(self._agent.normalised(observation))
        return masked_log_probs(out.logits, mask).exp(), self._centre + self._scale * torch.tanh(out.mean)


def expectation(agent: Agent) -> Expectation:
    """What `open_model` has to ask of the exported model."""
    k, p = agent.space.n_choices, agent.space.n_params
    return Expectation(
        kind=KIND,
        inputs=(
            TensorSpec("observation", (1, agent.obs_size)),
            TensorSpec("mask", (1, k), DType.FLOAT32, "1 where a choice is valid, else 0"),
        ),
        outputs=(
            TensorSpec("probabilities", (1, k)),
            TensorSpec("params", (1, max(p, 1)), DType.FLOAT32, "of all choices side by side, environment's units"),
        ),
        settings=tuple(f"params of {name}" for name in agent.space.names),
    )


def export_actor(
    agent: Agent, folder: Path, *, version: str, seed: int, trained_on: Mapping[str, str], scores: Mapping[str, float]
) -> Session:
    """Write model and manifest into `folder` and return them opened.

    The manifest's settings give each choice's number of parameters, in order. Raises InvalidInputError where
    onnxruntime does not give what torch gives, and for a space without any parameter (nothing hybrid to export).
    """
    if agent.space.n_params == 0:
        fault = Fault("parameters", "none in any choice", "at least one")
        raise InvalidInputError("export", [fault], "a purely discrete policy needs no hybrid actor")
    expected = expectation(agent)
    graph = _Graph(agent).eval()
    model = to_onnx(graph, expected.inputs, expected.outputs)
    manifest = Manifest(
        kind=KIND,
        version=version,
        model_file="actor.onnx",
        sha256=UNSEALED,
        opset=OPSET,
        ir_version=IR_VERSION,
        inputs=expected.inputs,
        outputs=expected.outputs,
        settings=dict(zip(expected.settings, map(float, agent.space.sizes), strict=True)),
        trained_on=dict(trained_on),
        scores=dict(scores),
        seed=seed,
        versions={"tether": __version__, "torch": torch.__version__},
    )
    save_model(folder, model, manifest)
    session = open_model(folder, expected)
    _check(graph, session, agent)
    return session


def _check(graph: nn.Module, session: Session, agent: Agent) -> None:
    rng = np.random.default_rng(0)
    scale = np.maximum(agent.space.scale, 1e-9)
    for _ in range(_CHECKS):
        observation = rng.normal(size=(1, agent.obs_size)).astype(np.float32)
        mask = np.ones((1, agent.space.n_choices), dtype=np.float32)
        mask[0, rng.integers(agent.space.n_choices)] = float(agent.space.n_choices == 1)
        with torch.no_grad():
            probabilities, params = graph(torch.from_numpy(observation), torch.from_numpy(mask))
        found = session.run({"observation": observation, "mask": mask})
        off = max(
            float(np.abs(found["probabilities"] - probabilities.numpy()).max()),
            float((np.abs(found["params"] - params.numpy()) / scale).max()),
        )
        if not off <= _TOLERANCE:
            fault = Fault("exported actor", f"{off:g} off", f"at most {_TOLERANCE:g} of torch's")
            raise InvalidInputError("export", [fault], "report the versions of torch and onnxruntime")
