"""The trained actor as a shipped model: ONNX and manifest, checked against torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tether import __version__
from tether.errors import Fault, InvalidInputError
from tether.learning.sac import Agent
from tether.models.manifest import Manifest
from tether.models.session import Session
from tether.models.store import UNSEALED, save_model
from tether.models.torch_export import IR_VERSION, OPSET, to_onnx
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable
from tether.teacher.model import KIND, LAYOUT, OBSERVATION, open_teacher, outputs
from tether.teacher.observation import LIMIT, layout_sha256

_CHECKS = 64
_TOLERANCE = 1e-4


class _Graph(nn.Module):
    """The actor with the agent's normalisation of observations in front."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent
        self.actor = agent.actor

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out = self.actor(self._agent.normalised(observation))
        return out.logits, out.mean, out.log_std


def export_teacher(
    folder: Path,
    agent: Agent,
    skills: SkillTable,
    *,
    version: str,
    seed: int,
    trained_on: Mapping[str, str],
    scores: Mapping[str, float],
) -> Session:
    """Write the model into `folder` and return it opened; raises InvalidInputError where it is not what torch gives."""
    graph = _Graph(agent).eval()
    given = outputs(agent.space.n_params)
    model = to_onnx(graph, (OBSERVATION,), given)
    manifest = Manifest(
        kind=KIND,
        version=version,
        model_file="teacher.onnx",
        sha256=UNSEALED,
        opset=OPSET,
        ir_version=IR_VERSION,
        inputs=(OBSERVATION,),
        outputs=given,
        joint_order=COMMAND_JOINTS,
        skills_sha256=skills.sha256,
        trained_on={**trained_on, LAYOUT: layout_sha256()},
        scores=dict(scores),
        seed=seed,
        versions={"tether": __version__, "torch": torch.__version__},
    )
    save_model(folder, model, manifest)
    session = open_teacher(folder, skills)
    _check(graph, session)
    return session


def _check(graph: nn.Module, session: Session) -> None:
    rng = np.random.default_rng(0)
    faults = []
    for _ in range(_CHECKS):
        observation = rng.uniform(-LIMIT, LIMIT, OBSERVATION.shape).astype(np.float32)
        with torch.no_grad():
            expected = graph(torch.from_numpy(observation))
        found = session.run({OBSERVATION.name: observation})
        for spec, value in zip(session.manifest.outputs, expected, strict=True):
            off = float(np.abs(found[spec.name] - value.numpy()).max())
            if not off <= _TOLERANCE:
                faults.append(Fault(spec.name, f"{off:g} off", f"at most {_TOLERANCE:g} of torch's"))
    if faults:
        raise InvalidInputError("export of the teacher", faults, "report the versions of torch and onnxruntime")
