"""Names of students: `student`, the shipped one; `student@FOLDER`, one of a training; `…-imu`, one that lacks the IMU.

The last is for ablations: `student-imu-camera` is the shipped student with two modalities masked. `student+padded` and
`student+constant_velocity` are baselines that need no training (`tether.student.baselines`); a mask may follow. Any of
them may end in `~yolo:FOLDER`: boxes of the YOLO detector in that folder in the place of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path
from tether.student.baselines import Baseline
from tether.student.observation import MODALITIES

_NAME = "student"
_YOLO = "~yolo"
YOLO_FOLDER = Path("runs/vision/yolo/model")
"""Where `tether train detector --kind yolo` leaves its model, and where it is looked for unless a folder is named."""
NAMES = (_NAME, *(f"{_NAME}+{baseline.value}" for baseline in Baseline))
"""Students that ship, as they are named without a folder and a mask."""
FORMS = (f"{_NAME}@FOLDER", f"{_NAME}-MODALITY", f"{_NAME}{_YOLO}:FOLDER")
"""And those of a folder, lacking a modality, or with another detector."""


class DetectorName(Enum):
    """Which detector's boxes a student gets.

    OWN: of the eyes that it was trained with, or of the colour detector where it was trained without. YOLO: of a model
    trained with Ultralytics, which is not shipped.
    """

    OWN = "own"
    YOLO = "yolo"


@dataclass(frozen=True)
class StudentName:
    """folder: holds fusion/ and policy/; None for the shipped models. without: modalities that are masked.

    baseline: what is taken from it besides, None for nothing. yolo: folder of the detector whose boxes it gets, None
    for its own.
    """

    folder: Path | None
    without: tuple[str, ...] = ()
    baseline: Baseline | None = None
    yolo: Path | None = None

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
    return name == _NAME or name.startswith((f"{_NAME}@", f"{_NAME}-", f"{_NAME}+", f"{_NAME}{_YOLO}"))


def parse_name(name: str) -> StudentName:
    """Read a student's name; raises InvalidInputError where it is none or masks what there is not."""
    if not is_student(name):
        raise InvalidInputError("student", [Fault("name", repr(name), "student, student@FOLDER, student-MODALITY")])
    rest, yolo = _split_yolo(name[len(_NAME) :])
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
            f"a folder after @, one of {', '.join(b.value for b in Baseline)} after +, one of {modalities} after -, "
            f"{_YOLO} or {_YOLO}:FOLDER at the end"
        )
        raise InvalidInputError("student", [Fault("name", repr(name), expected)])
    return StudentName(Path(folder) if folder else None, tuple(without), baselines.get(end), yolo)


def with_detector(policy: str, detector: DetectorName, folder: Path = YOLO_FOLDER) -> str:
    """The policy's name with the detector said in it, as it stands in results and recordings.

    Raises InvalidInputError where a policy is given YOLO that is no student, or names a detector itself.
    """
    if detector is DetectorName.OWN:
        return policy
    if not is_student(policy) or parse_name(policy).yolo is not None:
        fault = Fault("detector", f"{detector.value} for {policy!r}", "a student that names no detector itself")
        raise InvalidInputError("detector", [fault], "only students choose between detectors")
    return f"{policy}{_YOLO}:{folder}"


def _split_yolo(rest: str) -> tuple[str, Path | None]:
    """What stands before `~yolo`, and its folder; the last one counts, since folders may hold anything."""
    before, found, after = rest.rpartition(_YOLO)
    if not found or (after and not after.startswith(":")):
        return rest, None
    return before, Path(after[1:]) if after[1:] else YOLO_FOLDER
