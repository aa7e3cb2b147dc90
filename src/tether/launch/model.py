"""What a launch file comes to: processes to start, each with its whole command line and environment."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ParameterScalar = bool | int | float | str
ParameterData = ParameterScalar | list[bool] | list[int] | list[float] | list[str]


class Output(enum.Enum):
    """Where a process's lines go; the names are those of launch's `output` attribute."""

    SCREEN = "screen"  # stdout and stderr to the screen
    LOG = "log"  # both to the log file, stderr to the screen too
    BOTH = "both"  # both to the screen and the log file

    def on_screen(self, stream: str) -> bool:
        """Return whether lines of `stream` ("stdout" or "stderr") are shown."""
        return self is not Output.LOG or stream == "stderr"

    @property
    def in_log(self) -> bool:
        """True when lines are written to the log file."""
        return self is not Output.SCREEN


@dataclass(frozen=True)
class Argument:
    """A declared argument: `default` is its text before substitution, None when it must be given."""

    name: str
    default: str | None
    description: str
    choices: tuple[str, ...]
    file: str
    line: int


@dataclass(frozen=True)
class ParameterFile:
    """`<param from=…>`: a YAML file passed on as it is."""

    path: Path


@dataclass(frozen=True)
class ParameterValue:
    """`<param name=… value=…>`, already typed."""

    name: str
    value: ParameterData


def qualified_name(namespace: str | None, name: str) -> str:
    """`/namespace/name`."""
    return f"{(namespace or '').rstrip('/')}/{name}"


@dataclass(frozen=True)
class ProcessPlan:
    """One process to start.

    `node_name` and `namespace` are None where the file gives none: the process then names its nodes itself.
    `env` is what the file sets beside the launching process's environment. `stop_timeout_s` is how long the
    process gets after SIGINT before SIGTERM, `kill_timeout_s` how long after that before SIGKILL; None leaves
    both to the runner.
    """

    label: str
    package: str
    executable: str
    path: Path
    arguments: tuple[str, ...]
    node_name: str | None
    namespace: str | None
    parameters: tuple[ParameterFile | ParameterValue, ...]
    remaps: tuple[tuple[str, str], ...]
    env: Mapping[str, str]
    output: Output
    ends_launch: bool
    stop_timeout_s: float | None
    kill_timeout_s: float | None
    file: str
    line: int

    @property
    def qualified_name(self) -> str | None:
        """`/namespace/name`, or None when the process names its nodes itself."""
        if self.node_name is None:
            return None
        return qualified_name(self.namespace, self.node_name)

    def parameter_document(self, parameter: ParameterValue) -> str:
        """Return the YAML launch_ros would write for one parameter.

        It addresses the node by name only when both name and namespace are given, `/**` otherwise.
        """
        named = self.node_name is not None and self.namespace is not None
        key = self.qualified_name if named else "/**"
        return yaml.dump({key: {"ros__parameters": {parameter.name: parameter.value}}}, default_flow_style=False)

    def command(self, parameter_files: Sequence[Path]) -> list[str]:
        """Return the command line in launch_ros's order; `parameter_files` holds one path a parameter."""
        if len(parameter_files) != len(self.parameters):
            raise ValueError(f"got {len(parameter_files)} parameter files, expected {len(self.parameters)}")
        command = [str(self.path), *self.arguments, "--ros-args"]
        if self.node_name is not None:
            command += ["-r", f"__node:={self.node_name}"]
        if self.namespace is not None:
            command += ["-r", f"__ns:={self.namespace}"]
        for path in parameter_files:
            command += ["--params-file", str(path)]
        for source, target in self.remaps:
            command += ["-r", f"{source}:={target}"]
        return command


@dataclass(frozen=True)
class LaunchPlan:
    """A launch file with its arguments filled in: what to start, in file order."""

    file: Path
    arguments: tuple[Argument, ...]
    variables: Mapping[str, str]
    processes: tuple[ProcessPlan, ...]
