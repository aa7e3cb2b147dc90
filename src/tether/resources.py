"""Where the files of Tether lie: configuration, robot description, models, launch files, messages.

In a checkout they stand at the top of the repository; in an installed wheel they lie inside the package,
under `tether/share`. One function finds both. What was deployed onto a robot (`tether deploy`) comes before either.
"""

from __future__ import annotations

import os
from pathlib import Path

from tether.errors import Fault, InvalidInputError

RESOURCES_VARIABLE = "TETHER_RESOURCES"
"""Folder of a deployed version with config/ and models/, set by whoever starts the process; see docs/robot.md."""
_DEPLOYED = ("config", "models")
_CHECKOUT = Path(__file__).resolve().parents[2]
_INSTALLED = Path(__file__).resolve().parent / "share"
_PLACES = {
    "config": "config",
    "urdf": "urdf",
    "models": "models",
    "launch": "launch",
    "msg": "ros2_ws/src/tether_msgs/msg",
}


def resource_path(kind: str, name: str = "") -> Path:
    """Path of a resource: `kind` is config, urdf, models, launch or msg; `name` a path below it.

    Raises InvalidInputError naming the places looked at where it does not exist or lies outside `kind`.
    """
    if kind not in _PLACES:
        raise InvalidInputError("resource", [Fault("kind", repr(kind), f"one of {', '.join(_PLACES)}")])
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise InvalidInputError("resource", [Fault("name", repr(name), f"a path below {kind}")])
    deployed = os.environ.get(RESOURCES_VARIABLE)
    first = [Path(deployed).absolute() / kind / name] if deployed and kind in _DEPLOYED else []
    candidates = [*first, _CHECKOUT / _PLACES[kind] / name, _INSTALLED / kind / name]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    fault = Fault(f"{kind}/{name}".rstrip("/"), "nothing", " or ".join(map(str, candidates)))
    raise InvalidInputError("resource", [fault], "run from a checkout or reinstall the package")
