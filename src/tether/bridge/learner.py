"""The student's policy net as an online learner: its features stay those of the fusion model that runs.

It starts from the exported models, not from a training's checkpoint: whoever has a student can go on teaching it. What
fusion makes of the sensors stays as it is while the robot runs, since a policy net reads no other fusion's features;
a version says which fusion model it was made for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether import __version__
from tether.bridge.student_switch import FUSION_SHA256
from tether.errors import Fault, InvalidInputError
from tether.models.manifest import read_manifest
from tether.models.store import UNSEALED, save_model
from tether.models.torch_export import to_onnx
from tether.student import memory
from tether.student.models import FUSION, POLICY, open_policy, policy_tensors
from tether.student.network import NetworkConfig, PolicyNet
from tether.student.train import action_losses

_PARAMS_SHARE = 0.2


class PolicyLearner:
    """See the module and `tether.bridge.online.Learner`."""

    def __init__(self, start: Path, skills_sha256: str, *, seed: int = 0, rate: float = 3e-4) -> None:
        """start: folder of a student, with fusion/ and policy/. Raises InvalidInputError where they do not fit."""
        torch.manual_seed(seed)
        open_policy(start / POLICY, skills_sha256)  # refuses what a robot would refuse
        self._manifest = read_manifest(start / POLICY)
        self._fusion_sha256 = read_manifest(start / FUSION).sha256
        self._net = _net_of(start / POLICY / self._manifest.model_file)
        self._seed = seed
        self._steps = 0
        self._skills_sha256 = skills_sha256
        self._optimizer = torch.optim.AdamW(self._net.parameters(), lr=rate, weight_decay=1e-4)

    def go_on_from(self, version: Path) -> None:
        """Take the weights of a version that an earlier trainer published. Refused where it is another fusion's."""
        open_policy(version, self._skills_sha256)
        manifest = read_manifest(version)
        found = manifest.trained_on.get(FUSION_SHA256, "nothing")
        if found != self._fusion_sha256:
            fault = Fault(f"{version}: {FUSION_SHA256}", found, self._fusion_sha256)
            raise InvalidInputError("version to go on from", [fault], "give every student a folder of versions")
        self._net.load_state_dict(_net_of(version / manifest.model_file).state_dict())
        self._steps = int(manifest.trained_on.get("online_updates", "0"))

    def train_step(self, batch: Mapping[str, NDArray[Any]]) -> Mapping[str, float]:
        """One update of the policy's losses, as in `tether.student.train`."""
        probability, mean, spread = (_tensor(batch[f"label.{name}"]) for name in ("probability", "mean", "spread"))
        self._net.train()
        logits, params = self._net(_tensor(batch["input.features"]), _tensor(batch["input.memory"]))
        primitive, per_params = (part.mean() for part in action_losses(logits, params, probability, mean, spread))
        self._optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(primitive + _PARAMS_SHARE * per_params)
        nn.utils.clip_grad_norm_(self._net.parameters(), 2.0)
        self._optimizer.step()
        self._steps += 1
        return {"primitive": float(primitive.detach()), "params": float(per_params.detach())}

    def export(self, folder: Path, settings: Mapping[str, float]) -> None:
        """See `Learner`."""
        features = int(self._manifest.settings["features"])
        inputs, outputs = policy_tensors(features)
        self._net.eval()
        trained_on = {
            **self._manifest.trained_on,
            FUSION_SHA256: self._fusion_sha256,
            "online_updates": str(self._steps),
            "online_from": self._manifest.sha256,
        }
        manifest = dataclasses.replace(
            self._manifest,
            version=f"{self._manifest.version}+online.{self._steps}",
            model_file="policy.onnx",
            sha256=UNSEALED,
            settings={**self._manifest.settings, **settings},
            trained_on=trained_on,
            seed=self._seed,
            scores={},
            versions={"tether": __version__, "torch": torch.__version__},
        )
        save_model(folder, to_onnx(self._net, inputs, outputs), manifest)


def _net_of(path: Path) -> PolicyNet:
    """The net of an exported policy, from the named weights in its file."""
    import onnx
    from onnx import numpy_helper

    weights = {each.name: numpy_helper.to_array(each) for each in onnx.load(str(path)).graph.initializer}
    first = weights.get("body.0.weight")
    if first is None or first.ndim != 2:
        raise _unreadable(path, "no body.0.weight")
    net = PolicyNet(NetworkConfig(policy=first.shape[0]), first.shape[1] - memory.SIZE)
    expected = {name: tuple(value.shape) for name, value in net.state_dict().items()}
    found = {name: weights[name].shape for name in expected if name in weights}
    if found != expected:
        raise _unreadable(path, f"weights {sorted(found)}")
    net.load_state_dict({name: torch.from_numpy(np.array(weights[name])) for name in expected})
    return net


def _unreadable(path: Path, found: str) -> InvalidInputError:
    fault = Fault(str(path), found, "the weights of a student's policy net by their names")
    return InvalidInputError("start of online training", [fault], "export the student with this version of Tether")


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))
