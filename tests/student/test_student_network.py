"""The nets: masks, missing modalities, attention, and the exported models against torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from student_tools import TINY, save_tiny

from tether.assembly import skills
from tether.models.errors import ModelRefusedError
from tether.models.manifest import read_manifest
from tether.student import memory
from tether.student.export import export_student
from tether.student.models import open_fusion, open_policy, require_eyes
from tether.student.network import Compensation, NetworkConfig, StudentNet
from tether.student.observation import DROPS, FIELDS, MODALITIES, ROLLED, STATE_SIZE

BATCH, STEPS = 2, 7


def observations(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    out = {}
    for field in FIELDS:
        shape = (BATCH, STEPS, *field.shape)
        ones = "mask" in field.name
        out[field.name] = torch.ones(shape) if ones else torch.randn(shape, generator=generator) * 0.3
    return out


@pytest.fixture
def net() -> StudentNet:
    torch.manual_seed(0)
    return StudentNet(TINY).eval()


def test_outputs_have_their_shapes(net: StudentNet) -> None:
    fused, logits, params = net(observations(), torch.zeros(BATCH, STEPS, memory.SIZE), camera=True)
    n = BATCH * STEPS
    assert fused.p.shape == fused.v.shape == fused.a.shape == (n, 3)
    assert fused.states.shape == (n, 1 + ROLLED, STATE_SIZE)
    assert fused.attention.shape == (n, len(MODALITIES))
    assert logits.shape == (n, 9) and params.shape == (n, 9, 5)
    assert float(params.abs().max()) <= 1.0


def test_what_stands_under_a_mask_of_zeros_changes_nothing(net: StudentNet) -> None:
    obs = observations()
    for name in ("tokens_mask", "boxes_mask", "imu_mask", "executed_mask", "joints_mask", "carried_mask"):
        obs[name] = torch.zeros_like(obs[name])
    other = {**obs, **{name: obs[name] + 1.0 for name in ("tokens", "boxes", "imu", "executed")}}
    remembered = torch.zeros(BATCH, STEPS, memory.SIZE)
    attention = net(obs, remembered, camera=True)[0].attention
    assert torch.equal(attention, net(other, remembered, camera=True)[0].attention)
    shares = dict(zip(MODALITIES, attention[0].tolist(), strict=True))
    assert shares["camera"] == shares["boxes"] == shares["imu"] == shares["executed"] == 0.0


@pytest.mark.parametrize("modality", MODALITIES)
def test_without_any_one_modality_the_state_stays_finite(net: StudentNet, modality: str) -> None:
    obs = observations()
    for name in DROPS[modality]:
        obs[name] = torch.zeros_like(obs[name])
    fused, logits, _ = net(obs, torch.zeros(BATCH, STEPS, memory.SIZE), camera=True)
    for value in (fused.p, fused.v, fused.a, fused.states, fused.features, logits):
        assert bool(torch.isfinite(value).all())


def test_a_decision_looks_back_five_periods_and_no_further(net: StudentNet) -> None:
    obs, remembered = observations(), torch.zeros(BATCH, STEPS, memory.SIZE)
    changed = {name: value.clone() for name, value in obs.items()}
    changed["joints"][:, 0] += 1.0
    before, after = (net(o, remembered, camera=True)[0].features.view(BATCH, STEPS, -1) for o in (obs, changed))
    assert not torch.equal(before[:, 4], after[:, 4])
    assert torch.equal(before[:, 5:], after[:, 5:])


def test_the_baseline_without_compensation_knows_no_past_and_no_fit() -> None:
    torch.manual_seed(0)
    net = StudentNet(NetworkConfig(16, 4, 2, 8, 16, compensation=Compensation.NONE)).eval()
    obs, remembered = observations(), torch.zeros(BATCH, STEPS, memory.SIZE)
    changed = {name: value.clone() for name, value in obs.items()}
    changed["joints"][:, 0] += 1.0
    changed["carried"] += 0.1
    before, after = (net(o, remembered, camera=True)[0].p.view(BATCH, STEPS, -1) for o in (obs, changed))
    assert torch.equal(before[:, 1:], after[:, 1:])


@pytest.mark.parametrize("camera", [False, True])
def test_exported_models_compute_what_torch_computes(tmp_path: Path, camera: bool) -> None:
    net = save_tiny(tmp_path, seed=3, camera=camera)  # refuses by itself where they do not
    sessions = open_fusion(tmp_path / "fusion", skills().sha256), open_policy(tmp_path / "policy", skills().sha256)
    assert ("tokens" in {spec.name for spec in sessions[0].manifest.inputs}) is camera
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1, net.fusion.feature_size)).astype(np.float32)
    remembered = rng.normal(size=(1, memory.SIZE)).astype(np.float32)
    out = sessions[1].run({"features": features, "memory": remembered})
    with torch.no_grad():
        logits, _ = net.eval().policy(torch.from_numpy(features), torch.from_numpy(remembered))
    assert out["logits"] == pytest.approx(logits.numpy(), abs=1e-4)


@pytest.mark.parametrize("compensation", [Compensation.NONE, Compensation.HISTORY])
def test_baselines_are_exported_with_the_same_inputs(tmp_path: Path, compensation: Compensation) -> None:
    net = StudentNet(replace(TINY, compensation=compensation))
    sessions = export_student(net, tmp_path, skills(), camera=False, version="0", seed=0, trained_on={})
    assert {"carried", "coasted_mask"} <= {spec.name for spec in sessions[0].manifest.inputs}


def test_a_student_refuses_the_tokens_of_other_eyes(tiny_student: Path) -> None:
    fusion = read_manifest(tiny_student / "fusion")
    eyes = replace(fusion, kind="eyes", sha256="1" * 64)
    with pytest.raises(ModelRefusedError, match="eyes"):
        require_eyes(fusion, eyes)
    require_eyes(replace(fusion, trained_on={"eyes": "1" * 64}), eyes)


def test_a_student_of_another_skill_table_is_refused(tiny_student: Path) -> None:
    with pytest.raises(ModelRefusedError, match="skills_sha256"):
        open_fusion(tiny_student / "fusion", "0" * 64)
    with pytest.raises(ModelRefusedError, match="kind"):
        open_policy(tiny_student / "fusion", skills().sha256)
