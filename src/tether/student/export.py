"""Trained nets into two ONNX models with their manifests, checked against torch on real observations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tether import __version__
from tether.errors import Fault, InvalidInputError
from tether.models.manifest import Manifest
from tether.models.session import Session
from tether.models.store import UNSEALED, save_model
from tether.models.torch_export import IR_VERSION, OPSET, to_onnx
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable
from tether.student.models import (
    CAMERA,
    FEATURES,
    FUSION,
    POLICY,
    SUMMARY,
    fusion_tensors,
    open_fusion,
    open_policy,
    policy_tensors,
)
from tether.student.network import Compensation, StudentNet

_TOLERANCE = 2e-4
_CHECKS = 5


class _FusionGraph(nn.Module):
    """The fusion net with inputs and outputs in the order of the model's tensors."""

    def __init__(self, net: StudentNet, names: list[str], camera: bool) -> None:
        super().__init__()
        self.fusion, self._names, self._camera = net.fusion, names, camera
        self._keep_inputs = net.config.compensation is not Compensation.FULL

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        obs = dict(zip(self._names, values[:-1], strict=True))
        summary, attention = self.fusion.summarise(obs, self._camera)
        f = self.fusion(obs, torch.cat((values[-1], summary[:, None]), dim=1), attention)
        # A baseline leaves inputs out, and the exporter would, too; the contract of a fusion model names them all.
        unused = 0.0 * torch.stack([value.sum() for value in values]).sum() if self._keep_inputs else 0.0
        return f.p + unused, f.v, f.a, f.log_sigma, f.states, f.features, f.attention, f.summary


def export_student(
    net: StudentNet,
    folder: Path,
    skills: SkillTable,
    *,
    camera: bool,
    version: str,
    seed: int,
    trained_on: Mapping[str, str],
    scores: Mapping[str, float] | None = None,
) -> tuple[Session, Session]:
    """Write folder/fusion and folder/policy; returns them opened.

    Raises InvalidInputError where a model in onnxruntime is not what torch computes.
    """
    net = net.eval()
    features, summary = net.fusion.feature_size, net.fusion.summary_size
    inputs, outputs = fusion_tensors(features, summary, camera)
    names = [spec.name for spec in inputs[:-1]]
    graph = _FusionGraph(net, names, camera).eval()
    common: dict[str, Any] = {
        "version": version,
        "seed": seed,
        "joint_order": COMMAND_JOINTS,
        "skills_sha256": skills.sha256,
        "trained_on": dict(trained_on),
        "scores": dict(scores or {}),
        "versions": {"tether": __version__, "torch": torch.__version__},
    }
    save_model(
        folder / FUSION,
        to_onnx(graph, inputs, outputs),
        Manifest(
            kind=f"student-{FUSION}", model_file="fusion.onnx", sha256=UNSEALED, opset=OPSET, ir_version=IR_VERSION,
            inputs=inputs, outputs=outputs,
            settings={FEATURES: float(features), SUMMARY: float(summary), CAMERA: float(camera)}, **common,
        ),
    )  # fmt: skip
    policy_in, policy_out = policy_tensors(features)
    save_model(
        folder / POLICY,
        to_onnx(net.policy, policy_in, policy_out),
        Manifest(
            kind=f"student-{POLICY}", model_file="policy.onnx", sha256=UNSEALED, opset=OPSET, ir_version=IR_VERSION,
            inputs=policy_in, outputs=policy_out, settings={FEATURES: float(features)}, **common,
        ),
    )  # fmt: skip
    sessions = open_fusion(folder / FUSION, skills.sha256), open_policy(folder / POLICY, skills.sha256)
    _check(graph, sessions[0])
    _check(net.policy, sessions[1])
    return sessions


def _check(net: nn.Module, session: Session) -> None:
    rng = np.random.default_rng(0)
    faults = []
    for _ in range(_CHECKS):
        values = {
            spec.name: (
                rng.integers(2, size=spec.shape) if "mask" in spec.name else rng.normal(size=spec.shape) * 0.3
            ).astype(np.float32)
            for spec in session.manifest.inputs
        }
        with torch.no_grad():
            expected = net(*(torch.from_numpy(value) for value in values.values()))
        got = session.run(values)
        for spec, value in zip(session.manifest.outputs, expected, strict=True):
            off = float(np.abs(got[spec.name] - value.numpy()).max())
            if not off <= _TOLERANCE * (1.0 + float(value.abs().max())):
                faults.append(Fault(spec.name, f"{off:g} off", f"at most {_TOLERANCE:g} of torch's"))
    if faults:
        raise InvalidInputError(f"export of {session.manifest.kind}", faults, "report the versions of torch and onnx")
