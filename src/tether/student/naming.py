"""Names of students: `student`, the shipped one; `student@FOLDER`, one of a training; `…-imu`, one that lacks the IMU.

The last is for ablations: `student-imu-camera` is the shipped student with two modalities masked. `student+padded` and
`student+constant_velocity` are baselines that need no training (`tether.student.baselines`); a mask may follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path
from tether.student.baselines import Baseline
from tether.student.observation import MODALITIES

_NAME = "student"


@dataclass(frozen=True)
class StudentName:
    """folder: holds fusion/ and policy/; None for the shipped models. without: modalities that are masked.

    baseline: what is taken from it besides, None for nothing.
    """

    folder: Path | None
    without: tuple[str, ...] = ()
    baseline: Baseline | None = None

    def model_folder(self, part: str) -> Path:
        """Folder of the model `part`: fusion or policy."""
        if self.folder is not None:
            return self.folder / part
        return resource_path("models") / _NAME / part

    def eyes_folder(self) -> Path:
        """Folder of the image encoder: the student's own where it has one, else the shipped one."""
        own = None if self.folder is None else self.folder / "eyes"
        return own if own is not None and own.exists() else resource_path("models", "eyes")


def is_student(name: str) -> bool:
    """Whether a policy's name is that of a student."""
    return name == _NAME or name.startswith((f"{_NAME}@", f"{_NAME}-", f"{_NAME}+"))


def parse_name(name: str) -> StudentName:
    """Read a student's name; raises InvalidInputError where it is none or masks what there is not."""
    if not is_student(name):
        raise InvalidInputError("student", [Fault("name", repr(name), "student, student@FOLDER, student-MODALITY")])
    rest = name[len(_NAME) :]
    without: list[str] = []
    while (at := rest.rfind("-")) >= 0 and rest[at + 1 :] in MODALITIES:
        rest, without = rest[:at], [rest[at + 1 :], *without]
    baselines = {f"+{baseline.value}": baseline for baseline in Baseline}
    end = next((end for end in baselines if rest.endswith(end)), "")
    rest = rest.removesuffix(end)
    folder = rest.removeprefix("@")
    if (rest and not rest.startswith("@")) or (rest and not folder):
        modalities = ", ".join(MODALITIES)
        expected = (
            f"a folder after @, one of {', '.join(b.value for b in Baseline)} after +, one of {modalities} after -"
        )
        raise InvalidInputError("student", [Fault("name", repr(name), expected)])
    return StudentName(Path(folder) if folder else None, tuple(without), baselines.get(end))
