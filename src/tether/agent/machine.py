"""What this machine can do, and what of the skills is left for it before anything is planned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tether.agent.declaration import Needs
from tether.agent.domain import Domain


@dataclass(frozen=True)
class Machine:
    """What there is. memory_mb: free now; camera: whether one is fitted, which the caller knows."""

    memory_mb: int
    camera: bool
    fp16: bool
    gpu: bool

    @staticmethod
    def here(camera: bool) -> Machine:
        """This machine, now. FP16 arithmetic is taken to exist on a GPU only: on a CPU it is emulated, and slower."""
        gpu = _gpu()
        return Machine(psutil.virtual_memory().available // 10**6, camera, fp16=gpu, gpu=gpu)

    def lacks(self, needs: Needs) -> tuple[str, ...]:
        """What of `needs` is not there, in words."""
        missing = []
        if self.memory_mb < needs.memory_mb:
            missing.append(f"memory: {self.memory_mb} MB free, needs {needs.memory_mb} MB")
        for name in ("camera", "fp16", "gpu"):
            if getattr(needs, name) and not getattr(self, name):
                missing.append(f"{name}: none, needs one")
        return tuple(missing)


@dataclass(frozen=True)
class Choice:
    """What is left of a domain. ways: skill → the best way that fits; dropped: `skill/way` → what it lacks here."""

    ways: Mapping[str, str]
    dropped: Mapping[str, tuple[str, ...]]

    def without(self, domain: Domain) -> tuple[str, ...]:
        """Skills of which no way is left."""
        return tuple(name for name in domain.skills if name not in self.ways)


def pruned(domain: Domain, machine: Machine, excluded: tuple[str, ...] = ()) -> Choice:
    """Choose each skill's way in its order of preference. excluded: names of ways that are not to be taken."""
    ways: dict[str, str] = {}
    dropped: dict[str, tuple[str, ...]] = {}
    for name, skill in domain.skills.items():
        for way_name, way in skill.ways.items():
            missing = machine.lacks(way.needs)
            if way_name in excluded:
                missing = ("excluded by whoever asked", *missing)
            if missing:
                dropped[f"{name}/{way_name}"] = missing
            else:
                ways.setdefault(name, way_name)
    return Choice(ways, dropped)


def _gpu() -> bool:
    """Whether a CUDA device can be opened by this user."""
    return any(os.access(path, os.R_OK | os.W_OK) for path in (Path("/dev/nvidia0"), Path("/dev/nvhost-gpu")))
