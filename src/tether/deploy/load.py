"""The process of a trial: loads what $TETHER_RESOURCES holds, as far as that moves nothing.

Reads every configuration file that a robot reads, holds each model's manifest against this robot's joints and skills,
loads each model with the runtime that is installed here, and runs it once. Exit status 0, or 1 with what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from tether.bridge.arbiter import load_arbiter_config
from tether.errors import Fault, InvalidInputError, TetherError
from tether.fusion.classic_config import load_classic_config
from tether.models.manifest import MANIFEST_FILE, read_manifest
from tether.models.session import Expectation, open_model
from tether.motion.config import load_motion_config
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.settings import load_safety
from tether.skills import load_skill_table
from tether.world.profile import load_profile
from tether.world.task import load_task


def faults() -> Iterator[str]:
    """All that keeps this robot from running what $TETHER_RESOURCES holds."""
    config = resource_path("config")
    singles: dict[str, Callable[[Path], object]] = {
        "safety.yaml": load_safety,
        "motion.yaml": load_motion_config,
        "arbiter.yaml": load_arbiter_config,
        "classic.yaml": load_classic_config,
        "skills.yaml": load_skill_table,
    }
    checks: list[tuple[str, Callable[[], object]]] = [
        (name, partial(load, config / name)) for name, load in singles.items()
    ]
    checks += [(f"profiles/{p.name}", partial(load_profile, p)) for p in sorted(config.glob("profiles/*.yaml"))]
    checks += [(f"tasks/{p.name}", partial(load_task, p)) for p in sorted(config.glob("tasks/*.yaml"))]
    models = resource_path("models")
    checks += [
        (f"model {path.parent.relative_to(models)}", partial(run_once, path.parent))
        for path in sorted(models.rglob(MANIFEST_FILE))
    ]
    for name, check in checks:
        try:
            check()
        except (TetherError, OSError) as error:
            yield f"{name}: {error}"


def run_once(folder: Path) -> None:
    """Load a model and run it on zeros: TetherError where it does not fit this robot, load, or give numbers."""
    manifest = read_manifest(folder)
    foreign = []
    skills = load_skill_table(resource_path("config", "skills.yaml"))
    if manifest.joint_order not in (None, COMMAND_JOINTS):
        foreign.append(Fault("joint_order", repr(manifest.joint_order), repr(COMMAND_JOINTS)))
    if manifest.skills_sha256 not in (None, skills.sha256):
        foreign.append(Fault("skills_sha256", str(manifest.skills_sha256), skills.sha256))
    if foreign:
        raise InvalidInputError(f"model {folder}", foreign, "use a model made for this robot's joints and skills")
    own = Expectation(
        kind=manifest.kind,
        inputs=manifest.inputs,
        outputs=manifest.outputs,
        joint_order=manifest.joint_order,
        skills_sha256=manifest.skills_sha256,
    )
    session = open_model(folder, own)
    outputs = session.run({spec.name: np.zeros(spec.shape, spec.dtype.value) for spec in manifest.inputs})
    wrong = [name for name, value in outputs.items() if not np.isfinite(value).all()]
    if wrong:
        raise InvalidInputError(f"model {folder}", [Fault(name, "no finite numbers", "numbers") for name in wrong])


def main() -> int:
    """See the module."""
    found = list(faults())
    sys.stderr.write("".join(f"{fault}\n" for fault in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
