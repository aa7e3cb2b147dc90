"""A tiny student, as a training would leave it."""

from __future__ import annotations

from pathlib import Path

import torch

from tether.assembly import skills
from tether.resources import resource_path
from tether.student.export import export_student
from tether.student.network import NetworkConfig, StudentNet

torch.set_num_threads(1)
TINY = NetworkConfig(width=16, heads=4, queries=2, hidden=8, policy=16)


def save_tiny(folder: Path, seed: int = 0, camera: bool = False) -> StudentNet:
    """An untrained student of the smallest size, exported into `folder`."""
    torch.manual_seed(seed)
    net = StudentNet(TINY)
    export_student(net, folder, skills(), camera=camera, version="0", seed=seed, trained_on={"nothing": "yet"})
    return net


def short_task(folder: Path) -> Path:
    """pick_moving with two seconds: an untrained student would use all twenty."""
    text = resource_path("config", "tasks/pick_moving.yaml").read_text(encoding="utf-8")
    path = folder / "short.yaml"
    path.write_text(text.replace("time_limit_s: 20.0", "time_limit_s: 2.0").replace("name: pick_moving", "name: short"))
    return path
