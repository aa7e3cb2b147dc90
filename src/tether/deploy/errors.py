"""Why a deployment did not happen, by name."""

from __future__ import annotations

from enum import Enum

from tether.errors import TetherError


class Reason(str, Enum):
    """What went wrong. Where nothing else is said, the robot runs what it ran before."""

    NOTHING_TO_SEND = "nothing_to_send"
    CHANGED = "changed"
    """A file changed here while it was being sent."""
    REFUSED = "refused"
    """A signature is missing, wrong, of a development key, revoked or rolled back."""
    UNREACHABLE = "unreachable"
    HOST_KEY = "host_key"
    NOT_PERMITTED = "not_permitted"
    """The login was refused, or a folder may not be written."""
    NO_TETHER = "no_tether"
    OTHER_FORMAT = "other_format"
    """The two sides speak different versions of this protocol."""
    NO_SPACE = "no_space"
    BUSY = "busy"
    """Another deployment to this robot is under way."""
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"
    """What arrived, or lies there, is not what was sent."""
    UNHEALTHY = "unhealthy"
    """The new version did not come up; the robot was put back to the one before."""
    NO_SUCH_VERSION = "no_such_version"
    """Nothing to go back to."""
    TIMEOUT = "timeout"


class DeployError(TetherError):
    """A deployment that did not happen. `reason` is for programs, the text for people."""

    def __init__(self, reason: Reason, text: str, fix: str = "") -> None:
        self.reason = reason
        self.text = text
        self.fix = fix
        super().__init__(f"deploy: {reason.value}: {text}" + (f"\n  fix: {fix}" if fix else ""))
