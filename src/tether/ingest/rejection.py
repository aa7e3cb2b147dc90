"""Why a sample was refused: one list of reasons for every modality, each a counter in the status message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tether.errors import TetherError


class Reason(str, Enum):
    """Stable identifiers; they appear in ModalityStatus.drop_reasons, in bags and in reports."""

    ZERO_STAMP = "zero_stamp"
    FUTURE_STAMP = "future_stamp"
    LATE_STAMP = "late_stamp"
    BACKWARD_STAMP = "backward_stamp"
    EQUAL_STAMP = "equal_stamp"

    NOT_FINITE = "not_finite"
    BAD_COVARIANCE = "bad_covariance"
    NOT_MEASURED = "not_measured"
    DEAD = "dead"
    CONSTANT = "constant"
    OUT_OF_RANGE = "out_of_range"
    UNITS_UNPROVEN = "units_unproven"
    UNITS_ACCELERATION = "units_acceleration"
    UNITS_GYRO = "units_gyro"
    GRAVITY_MISSING = "gravity_missing"

    EMPTY_IMAGE = "empty_image"
    TOO_LARGE = "too_large"
    UNKNOWN_ENCODING = "unknown_encoding"
    AMBIGUOUS_ENCODING = "ambiguous_encoding"
    BAD_STEP = "bad_step"
    BAD_SIZE = "bad_size"
    SHORT_DATA = "short_data"
    UNKNOWN_FORMAT = "unknown_format"
    UNSUPPORTED_FORMAT = "unsupported_format"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    DEPTH_NOT_COLOUR = "depth_not_colour"
    CAMERA_MISMATCH = "camera_mismatch"

    NAMES_MISSING = "names_missing"
    NAMES_EXTRA = "names_extra"
    NAMES_REPEATED = "names_repeated"
    BAD_LENGTH = "bad_length"
    VELOCITY_MISSING = "velocity_missing"

    # published, and never taken: a newer one stood in its place, or the transport lost it
    MISSED = "missed"

    # nothing wrong with the picture: the eyes left it out, see tether.ingest.looking
    OVERLOAD = "overload"
    THROTTLED = "throttled"
    HOT = "hot"
    LITTLE_MEMORY = "little_memory"
    COAST_ASKED = "coast_asked"

    # nothing wrong with a picture: a look asked for what these eyes cannot do, see tether.ingest.asking
    IMAGE_SIZE = "image_size"


@dataclass(frozen=True)
class Rejection:
    """A refused sample: the reason to count and a sentence with what was found and what was expected."""

    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}"


class RejectedError(TetherError):
    """Carries a Rejection through decoding code; never leaves tether.ingest."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.rejection = Rejection(reason, detail)
