"""Names of policies with alternatives: `classic+codebook`, `classic+diffusion`, or by need: `classic+speed`,
`classic+precision`, `classic+staged` (speed for `reach`, precision for `grasp`). `@FOLDER` names the models' folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tether.alternatives.models import FOLDER, PRIMITIVES, Kind, model_folder
from tether.alternatives.selection import Need
from tether.contracts import Primitive
from tether.errors import Fault, InvalidInputError, did_you_mean
from tether.models.manifest import read_manifest

_BASE = "classic+"
NEEDS: dict[str, dict[Primitive, Need]] = {
    "speed": dict.fromkeys(PRIMITIVES, Need.SPEED),
    "precision": dict.fromkeys(PRIMITIVES, Need.PRECISION),
    "staged": {Primitive.REACH: Need.SPEED, Primitive.GRASP: Need.PRECISION},
}
"""Name of a stated need → the need of each call."""
NAMES = tuple(f"{_BASE}{what}" for what in (*(kind.value for kind in Kind), *NEEDS))
"""Every such name, without a folder."""


@dataclass(frozen=True)
class AlternativeName:
    """folder: of the models. wanted: one alternative for every call, or the need of each primitive's calls."""

    folder: Path
    wanted: Kind | Mapping[Primitive, Need]


def has_alternatives(name: str) -> bool:
    """Whether a policy's name asks for alternatives."""
    return name.startswith(_BASE)


def parse_name(name: str) -> AlternativeName:
    """Read such a name; raises InvalidInputError naming what there is."""
    what, at, folder = name.removeprefix(_BASE).partition("@")
    kinds = {kind.value: kind for kind in Kind}
    if not has_alternatives(name) or what not in (*kinds, *NEEDS) or (at and not folder):
        expected = f"{_BASE} and one of {', '.join((*kinds, *NEEDS))}, then nothing or @FOLDER"
        raise InvalidInputError("policy", [Fault("name", repr(name), expected)], did_you_mean(name, NAMES))
    return AlternativeName(Path(folder) if at else FOLDER, kinds[what] if what in kinds else NEEDS[what])


def model_folders(name: AlternativeName) -> list[Path]:
    """Folders of all models that such a policy opens."""
    kinds = [name.wanted] if isinstance(name.wanted, Kind) else list(Kind)
    return [model_folder(name.folder, kind, primitive) for kind in kinds for primitive in PRIMITIVES]


def manifest_hashes(name: AlternativeName) -> dict[str, str]:
    """Kind of each of these models → SHA-256 of its manifest, which pins the model and the figures a choice goes by."""
    manifests = [read_manifest(folder) for folder in model_folders(name)]
    return {m.kind: hashlib.sha256(m.to_json().encode()).hexdigest() for m in manifests}
