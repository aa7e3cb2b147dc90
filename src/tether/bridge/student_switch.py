"""A switch for the student's policy model: which versions fit the robot, the skill table and the fusion that runs."""

from __future__ import annotations

from pathlib import Path

from tether.bridge.guard import VersionGuard
from tether.bridge.swap import Loaded, ModelSwitch
from tether.errors import Fault, InvalidInputError
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import read_manifest
from tether.models.session import Session
from tether.policy.protocol import Policy
from tether.student.models import FUSION, POLICY, open_policy
from tether.student.naming import is_student, parse_name
from tether.student.policy import StudentPolicy

FUSION_SHA256 = "fusion_sha256"
"""Entry of a version's `trained_on` that names the fusion model whose features it reads."""


def student_switch(name: str, policy: Policy, skills_sha256: str, guard: VersionGuard) -> ModelSwitch:
    """A switch for the policy of the student called `name`, which runs the model it was made with.

    Raises InvalidInputError where the policy is no student: nothing else has a model to be exchanged.
    """
    if not is_student(name) or not isinstance(policy, StudentPolicy):
        fault = Fault("policy", repr(name), "student, student@FOLDER")
        raise InvalidInputError("swapping models", [fault], "start with policy:=student, or without versions")
    names = parse_name(name)
    fusion_sha256 = read_manifest(names.model_folder(FUSION)).sha256

    def open_version(folder: Path) -> Session:
        session = open_policy(folder, skills_sha256)
        found = session.manifest.trained_on.get(FUSION_SHA256, "nothing")
        if found != fusion_sha256:
            fault = Fault(f"{folder}: trained_on {FUSION_SHA256}", found, f"{fusion_sha256}, the fusion that runs")
            fix = "its features are another fusion's: restart with both models, or train from this student"
            raise ModelRefusedError(Refusal.FOREIGN, "version of the policy", [fault], fix)
        return session

    running = open_policy(names.model_folder(POLICY), skills_sha256)
    policy.use(running)
    return ModelSwitch(policy, Loaded(f"start ({running.manifest.version})", running), open_version, guard)
