"""The models of the alternatives: what goes in and out of them, and opening them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tether.alternatives.features import SIZE, layout_sha256
from tether.contracts import F32, Primitive
from tether.errors import Fault
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import TensorSpec
from tether.models.session import Expectation, Session, open_model
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable

LAYOUT = "state_sha256"
"""Key of the manifest's `trained_on` with the hash of the state's layout."""
PRIMITIVES = (Primitive.REACH, Primitive.GRASP)
"""Those whose parameters an alternative gives."""
FOLDER = Path("runs/alternatives/models")
"""Where `tether train alternatives` leaves them, and where they are looked for unless a folder is named."""


class Kind(str, Enum):
    """How an alternative comes to its parameters.

    CODEBOOK: one of some k-means prototypes, picked by a linear classifier. DIFFUSION: drawn from a distribution that a
    denoising network learned.
    """

    CODEBOOK = "codebook"
    DIFFUSION = "diffusion"


@dataclass(frozen=True)
class Tensors:
    """Inputs and outputs of a model."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def tensors(kind: Kind, n_params: int) -> Tensors:
    """Of a model for a primitive with so many parameters; the noise is standard normal, one draw a call."""
    state = TensorSpec("state", (1, SIZE), doc="see tether.alternatives.features")
    noise = (TensorSpec("noise", (1, n_params), doc="standard normal"),) if kind is Kind.DIFFUSION else ()
    params = TensorSpec("params", (1, n_params), doc="-1 to 1 within the skill table's bounds")
    return Tensors((state, *noise), (params,))


def model_folder(root: Path, kind: Kind, primitive: Primitive) -> Path:
    """Where below `root` the model lies."""
    return root / kind.value / primitive.name.lower()


def model_kind(kind: Kind, primitive: Primitive) -> str:
    """The manifest's `kind`."""
    return f"{kind.value}-{primitive.name.lower()}"


def open_alternative(root: Path, kind: Kind, primitive: Primitive, skills: SkillTable) -> Alternative:
    """Load one; raises ModelRefusedError, also where it was trained on another layout of the state."""
    spec = tensors(kind, len(skills[primitive].params))
    name = model_kind(kind, primitive)
    expectation = Expectation(name, spec.inputs, spec.outputs, (), COMMAND_JOINTS, skills.sha256)
    session = open_model(model_folder(root, kind, primitive), expectation)
    found = session.manifest.trained_on.get(LAYOUT)
    if found != layout_sha256():
        fault = Fault(LAYOUT, repr(found), repr(layout_sha256()))
        raise ModelRefusedError(Refusal.FOREIGN, name, [fault], "train it anew: `tether train alternatives`")
    return Alternative(kind, session)


@dataclass(frozen=True, eq=False)
class Alternative:
    """One model of one primitive's parameters."""

    kind: Kind
    session: Session

    def scaled(self, state: F32, noise: F32) -> F32:
        """(n,) of -1 to 1 for the state (SIZE,). noise: (n,), which a codebook does not look at."""
        given = {"state": state[None]}
        if self.kind is Kind.DIFFUSION:
            given["noise"] = noise[None]
        params: F32 = self.session.run(given)["params"][0]
        return params
