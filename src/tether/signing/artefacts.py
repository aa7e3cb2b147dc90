"""Which signed files a policy executes."""

from __future__ import annotations

from pathlib import Path

from tether.alternatives.naming import has_alternatives, model_folders
from tether.alternatives.naming import parse_name as parse_alternative
from tether.models.manifest import MANIFEST_FILE
from tether.resources import resource_path
from tether.signing.statement import Kind
from tether.student.naming import is_student, parse_name

_STUDENT_PARTS = ("fusion", "policy")


def signed_artefacts(policy: str) -> dict[Path, Kind]:
    """Manifests of the models that a policy loads; empty for policies without models. Raises InvalidInputError where
    a folder is not there."""
    if policy == "teacher":
        return {resource_path("models", policy) / MANIFEST_FILE: Kind.MODEL}
    if has_alternatives(policy):
        return {folder / MANIFEST_FILE: Kind.MODEL for folder in model_folders(parse_alternative(policy))}
    if not is_student(policy):
        return {}
    name = parse_name(policy)
    folders = [name.model_folder(part) for part in _STUDENT_PARTS]
    if (name.folder is not None and (name.folder / "eyes").exists()) or (resource_path("models") / "eyes").exists():
        folders.append(name.eyes_folder())
    if name.yolo is not None:
        folders.append(name.yolo)
    return {folder / MANIFEST_FILE: Kind.MODEL for folder in folders}
