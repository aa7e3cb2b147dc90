"""What the linter says: one finding per fault, with where it stands, how bad it is and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Some common consumer (urdfdom, a simulator, a controller) refuses it, or it moves the wrong thing."""
    WARNING = "warning"
    """Read by everyone, but not the same way by everyone, or likely not what was meant."""


class Kind(str, Enum):
    """What sort of thing a finding is about."""

    FILE = "file"
    ROBOT = "robot"
    LINK = "link"
    JOINT = "joint"


class Rule(str, Enum):
    """Identifiers of the rules; docs/urdf.md says what each looks for."""

    FILE_MISSING = "file-missing"
    FILE_UNREADABLE = "file-unreadable"
    FILE_EMPTY = "file-empty"
    FILE_TOO_LARGE = "file-too-large"
    FILE_BINARY = "file-binary"
    XML_MALFORMED = "xml-malformed"
    XML_ENTITY = "xml-entity"
    NOT_URDF = "not-urdf"
    XACRO_FAILED = "xacro-failed"
    ENCODING = "encoding"
    XACRO_UNEXPANDED = "xacro-unexpanded"
    URDF_VERSION = "urdf-version"
    NAME_MISSING = "name-missing"
    NAME_DUPLICATE = "name-duplicate"
    NAME_CHARACTERS = "name-characters"
    ROBOT_EMPTY = "robot-empty"
    LINK_MISSING = "link-missing"
    JOINT_UNLINKED = "joint-unlinked"
    JOINT_TYPE = "joint-type"
    LINK_PARENTS = "link-parents"
    LINK_CYCLE = "link-cycle"
    ROOT_SEVERAL = "root-several"
    LINK_UNCONNECTED = "link-unconnected"
    NUMBER_UNREADABLE = "number-unreadable"
    NUMBER_NOT_FINITE = "number-not-finite"
    NUMBER_COUNT = "number-count"
    ATTRIBUTE_MISSING = "attribute-missing"
    INERTIAL_MISSING = "inertial-missing"
    INERTIAL_INCOMPLETE = "inertial-incomplete"
    MASS_ZERO = "mass-zero"
    MASS_NEGATIVE = "mass-negative"
    INERTIA_ZERO = "inertia-zero"
    INERTIA_NOT_POSITIVE = "inertia-not-positive"
    INERTIA_TRIANGLE = "inertia-triangle"
    INERTIA_SIZE = "inertia-size"
    MASS_SIZE = "mass-size"
    LIMIT_MISSING = "limit-missing"
    LIMIT_RANGE = "limit-range"
    LIMIT_EFFORT = "limit-effort"
    LIMIT_VELOCITY = "limit-velocity"
    LIMIT_ON_CONTINUOUS = "limit-on-continuous"
    AXIS_ZERO = "axis-zero"
    AXIS_NOT_UNIT = "axis-not-unit"
    MIMIC_SOURCE = "mimic-source"
    MIMIC_STILL = "mimic-still"
    MIMIC_DROPPED = "mimic-dropped"
    DYNAMICS_EMPTY = "dynamics-empty"
    DYNAMICS_NEGATIVE = "dynamics-negative"
    SAFETY_INCOMPLETE = "safety-incomplete"
    ELEMENT_MISSPELT = "element-misspelt"
    ELEMENT_REPEATED = "element-repeated"
    MATERIAL_DUPLICATE = "material-duplicate"
    REFERENCE_UNKNOWN = "reference-unknown"
    GEOMETRY_MISSING = "geometry-missing"
    GEOMETRY_UNKNOWN = "geometry-unknown"
    GEOMETRY_SIZE = "geometry-size"
    MESH_MISSING = "mesh-missing"
    MESH_CASE = "mesh-case"
    MESH_UNREADABLE = "mesh-unreadable"
    MESH_SIZE = "mesh-size"


@dataclass(frozen=True)
class Finding:
    """One fault of a robot description.

    rule: stable identifier, e.g. `inertia-triangle`. subject: name of the link or joint (or file). line: line
    in the file that was given, None where the text came out of xacro and has no line there.
    """

    rule: Rule
    severity: Severity
    kind: Kind
    subject: str
    message: str
    fix: str
    line: int | None = None


def error(rule: Rule, kind: Kind, subject: str, message: str, fix: str, line: int | None = None) -> Finding:
    """Return an ERROR finding."""
    return Finding(rule, Severity.ERROR, kind, subject, message, fix, line)


def warning(rule: Rule, kind: Kind, subject: str, message: str, fix: str, line: int | None = None) -> Finding:
    """Return a WARNING finding."""
    return Finding(rule, Severity.WARNING, kind, subject, message, fix, line)
