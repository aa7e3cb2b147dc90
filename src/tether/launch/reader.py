"""Strict reader of launch XML: file and arguments in, LaunchPlan out.

What a file means here is what it means to `ros2 launch` of Jazzy; what the two could read differently is
refused. Scopes are launch's: one table of variables and one environment, which an included file shares and
may change, and which only `<group>` puts back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tether.errors import did_you_mean
from tether.launch import ament, attributes, parameters, schema, substitution, xmltree
from tether.launch.errors import Fault, FollowUpError, LaunchFileError, PackageNotFoundError, SubstitutionError
from tether.launch.model import (
    Argument,
    LaunchPlan,
    ParameterFile,
    ParameterValue,
    ProcessPlan,
    qualified_name,
)
from tether.launch.parameter_file import require_parameter_file
from tether.launch.substitution import Scope, Template
from tether.launch.xmltree import Element

_T = TypeVar("_T")
_MAX_INCLUDE_DEPTH = 16
_MAX_ACTIONS = 10_000
"""Of all included files together: ten includes on each of nine levels are a thousand million files."""


def parse_arguments(words: Iterable[str]) -> dict[str, str]:
    """Return `name:=value` words as a table, the last one winning; raise LaunchFileError on others."""
    table: dict[str, str] = {}
    faults = []
    for word in words:
        name, separator, value = word.partition(":=")
        if name and separator and value:
            table[name] = value
        else:
            faults.append(Fault("command line", 0, f"{word!r} is no argument; expected name:=value"))
    if faults:
        raise LaunchFileError(faults)
    return table


def read(file: str | Path, arguments: Mapping[str, str], env: Mapping[str, str] | None = None) -> LaunchPlan:
    """Read a launch file and fill in `arguments`.

    `env` (default: this process's) answers `$(env …)` and finds packages by AMENT_PREFIX_PATH.
    Raises LaunchFileError with every fault found: unknown tags, attributes, substitutions, arguments that are
    missing or not declared, packages, executables and parameter files that are not there.
    """
    path = Path(os.path.abspath(file))
    reading = _Reading(dict(arguments), dict(os.environ if env is None else env))
    reading.file(path, 0, arguments)
    reading.check_declared(str(path), arguments)
    reading.check_names()
    if reading.faults:
        raise reading.error()
    return LaunchPlan(path, tuple(reading.declared), dict(reading.variables), tuple(reading.processes))


def read_arguments(file: str | Path) -> tuple[Argument, ...]:
    """Return what a launch file itself declares, nothing filled in; raise LaunchFileError."""
    path = Path(os.path.abspath(file))
    reading = _Reading({}, {})
    root = reading.load(path)
    if root is not None:
        reading.declare(str(path), root)
    if reading.faults:
        raise reading.error()
    return tuple(reading.declared)


@dataclass
class _File:
    """The file being read; `included` once it has included another."""

    path: Path
    depth: int
    included: bool = False


@dataclass
class _Reading:
    variables: dict[str, str]
    env: dict[str, str]
    set_env: dict[str, str] = field(default_factory=dict)
    declared: list[Argument] = field(default_factory=list)
    processes: list[ProcessPlan] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    failed_env: set[str] = field(default_factory=set)
    names: list[tuple[str, str, int]] = field(default_factory=list)
    """Of nodes, qualified, with file and line."""
    n_actions: int = 0
    n_failed: int = 0

    def fault(self, file: str, line: int, message: str) -> None:
        """Note a fault, once however often its file is included."""
        fault = Fault(file, line, message)
        if fault not in self.faults:
            self.faults.append(fault)

    def error(self) -> LaunchFileError:
        """Every fault so far, those of a file together and in its order."""
        files = list(dict.fromkeys(fault.file for fault in self.faults))
        return LaunchFileError(sorted(self.faults, key=lambda fault: (files.index(fault.file), fault.line)))

    def file(self, path: Path, depth: int, given: Collection[str]) -> None:
        """Read one file into this reading; `given` are the arguments handed to it by name."""
        root = self.load(path)
        if root is None:
            return
        self.declare(str(path), root)
        for child in root.children:
            if child.tag == "arg" and not {"default", "if", "unless"} & child.attributes.keys():
                self._required(str(path), child, given)
        self._actions(_File(path, depth), root.children)

    def _required(self, file: str, element: Element, given: Collection[str]) -> None:
        # launch wants it from the include itself even where the including file has a variable of that name
        name = element.attributes["name"]
        if name not in given:
            description = element.attributes.get("description", "no description")
            message = f"argument '{name}' ({description}) must be given: {name}:=…"
            self.fault(file, element.line, message)
            self.failed.add(name)

    def load(self, path: Path) -> Element | None:
        """Return the root of a file, with the actions that are in order; None where there is no such tree."""
        try:
            root, faults = xmltree.load(path)
        except LaunchFileError as error:
            root, faults = None, list(error.faults)
        if root is not None:
            faults += schema.check(str(path), root)
            self.failed |= schema.prune(root)
        for fault in faults:
            self.fault(fault.file, fault.line, fault.message)
        return root

    def check_declared(self, file: str, given: Iterable[str]) -> None:
        """Refuse arguments that no file declares; name those that `file` itself does, as `--show-args`."""
        every = {argument.name for argument in self.declared} | self.failed
        own = list(dict.fromkeys(argument.name for argument in self.declared if argument.file == file))
        for name in given:
            if name not in every:
                said = [f"argument '{name}' is not declared;", did_you_mean(name, own)]
                self.fault(file, 0, " ".join([*filter(None, said), f"declared: {', '.join(own) or 'none'}"]))

    def check_names(self) -> None:
        """Refuse two nodes of one name: their parameters and services would be each other's."""
        seen: dict[str, tuple[str, int]] = {}
        for name, file, line in self.names:
            if name in seen:
                first_file, first_line = seen[name]
                self.fault(file, line, f"node '{name}' is started twice, first in line {first_line} of {first_file}")
            seen.setdefault(name, (file, line))

    def declare(self, file: str, element: Element) -> None:
        """Note every argument that a file declares, in groups and under conditions too."""
        for child in element.children:
            if child.tag == "arg" and element.tag in ("launch", "group"):
                name = child.attributes["name"]
                choices = tuple(choice.attributes["value"] for choice in child.children)
                default = child.attributes.get("default")
                if choices and default is not None and "$(" not in default and default not in choices:
                    message = f"default '{default}' of argument '{child.attributes['name']}' is none of its choices"
                    self.fault(file, child.line, message)
                description = child.attributes.get("description", "")
                self.declared.append(Argument(name, default, description, choices, file, child.line))
            elif child.tag == "group":
                self.declare(file, child)

    def _actions(self, file: _File, elements: Iterable[Element]) -> None:
        actions = {
            "arg": self._arg,
            "let": self._let,
            "set_env": self._set_env,
            "group": self._group,
            "include": self._include,
            "node": self._node,
        }
        for element in elements:
            self.n_actions += 1
            if self.n_actions > _MAX_ACTIONS:
                self.fault(str(file.path), element.line, f"the launch comes to more than {_MAX_ACTIONS} actions")
                raise self.error()
            try:
                if self._wanted(file, element):
                    actions[element.tag](file, element)
            except (SubstitutionError, PackageNotFoundError) as error:
                if not isinstance(error, FollowUpError):
                    self.fault(str(file.path), element.line, str(error))
                self._fail(element)

    def _fail(self, element: Element) -> None:
        """Remember what has no value now: what needs it only fails for want of this one."""
        if element.tag in ("arg", "let"):
            self.failed.add(element.attributes["name"])
        elif element.tag == "set_env":
            self.failed_env.add(element.attributes["name"])

    def _expand(self, file: _File, text: str) -> str:
        return self._template(file, text).expand(self._scope(file))

    def _template(self, file: _File, text: str) -> Template:
        template = substitution.parse(text)
        if file.included and "dirname" in template.names():
            raise SubstitutionError(
                "$(dirname) after an <include> is the included file's folder in some releases of launch and "
                "this file's in others; put it into a <let> above the include"
            )
        return template

    def _scope(self, file: _File) -> Scope:
        return Scope(self.variables, self.env, file.path.parent, self.failed, self.failed_env)

    def _wanted(self, file: _File, element: Element) -> bool:
        if "if" in element.attributes:
            return substitution.condition(self._expand(file, element.attributes["if"]))
        if "unless" in element.attributes:
            return not substitution.condition(self._expand(file, element.attributes["unless"]))
        return True

    def _arg(self, file: _File, element: Element) -> None:
        name = attributes.variable(element)
        if name in self.failed:
            return
        if name not in self.variables:
            if "default" not in element.attributes:
                description = element.attributes.get("description", "no description")
                raise SubstitutionError(f"argument '{name}' ({description}) must be given: {name}:=…")
            self.variables[name] = self._expand(file, element.attributes["default"])
        choices = [choice.attributes["value"] for choice in element.children]
        if choices and self.variables[name] not in choices:
            raise SubstitutionError(
                f"argument '{name}' is '{self.variables[name]}'; expected one of {', '.join(choices)}"
            )

    def _let(self, file: _File, element: Element) -> None:
        name = attributes.variable(element)
        self.variables[name] = self._expand(file, element.attributes["value"])
        self.failed.discard(name)

    def _set_env(self, file: _File, element: Element) -> None:
        name, value = element.attributes["name"], self._expand(file, element.attributes["value"])
        self.env[name] = self.set_env[name] = value
        self.failed_env.discard(name)

    def _group(self, file: _File, element: Element) -> None:
        before = dict(self.variables), dict(self.env), dict(self.set_env)
        self._actions(file, element.children)
        self.variables, self.env, self.set_env = before

    def _attempt(self, file: _File, element: Element, step: Callable[[], _T]) -> _T | None:
        """Take one of the steps of reading an action; one that fails is noted and hides no other."""
        try:
            return step()
        except (SubstitutionError, PackageNotFoundError) as error:
            self.n_failed += 1
            if not isinstance(error, FollowUpError):
                self.fault(str(file.path), element.line, str(error))
            return None

    def _include(self, file: _File, element: Element) -> None:
        given = {child.attributes["name"]: self._given(file, child) for child in element.children}
        path = Path(os.path.abspath(self._expand(file, element.attributes["file"])))
        if file.depth >= _MAX_INCLUDE_DEPTH:
            raise SubstitutionError(f"includes are nested {file.depth} deep; does '{path}' include itself?")
        if not path.is_file():
            what = "is a folder, a pipe or a device; expected a file" if path.exists() else "does not exist"
            raise SubstitutionError(f"included file '{path}' {what}")
        file.included = True
        known = {name: value for name, value in given.items() if value is not None}
        self.variables.update(known)
        self.failed = (self.failed - known.keys()) | (given.keys() - known.keys())
        first = len(self.declared)
        self.file(path, file.depth + 1, given.keys())
        declared = {argument.name for argument in self.declared[first:]}
        for child in element.children:
            if child.attributes["name"] not in declared:
                message = f"'{path}' declares no argument '{child.attributes['name']}'"
                self.fault(str(file.path), child.line, message)

    def _given(self, file: _File, element: Element) -> str | None:
        text = element.attributes.get("value")
        return None if text is None else self._attempt(file, element, partial(self._expand, file, text))

    def _node(self, file: _File, element: Element) -> None:
        def text(name: str) -> str | None:
            value = element.attributes.get(name)
            return None if value is None else self._expand(file, value)

        def children(tag: str, step: Callable[[_File, Element], Any]) -> Any:
            found = [child for child in element.children if child.tag == tag]
            return tuple(self._attempt(file, child, partial(step, file, child)) for child in found)

        steps: dict[str, Callable[[], Any]] = {
            "path": lambda: self._executable(text("pkg"), text("exec")),
            "package": lambda: text("pkg"),
            "executable": lambda: text("exec"),
            "arguments": lambda: self._command_line(file, element.attributes.get("args")),
            "node_name": lambda: attributes.node_name(text("name")),
            "namespace": lambda: attributes.namespace(text("namespace")),
            "parameters": lambda: children("param", self._param),
            "remaps": lambda: children("remap", self._remap),
            "env": lambda: children("env", self._env),
            "output": lambda: attributes.output(text("output")),
            "ends_launch": lambda: attributes.on_exit(element.attributes.get("on_exit")),
            "stop_timeout_s": lambda: attributes.seconds("sigterm_timeout", element),
            "kill_timeout_s": lambda: attributes.seconds("sigkill_timeout", element),
        }
        failed_before = self.n_failed
        read: dict[str, Any] = {name: self._attempt(file, element, step) for name, step in steps.items()}
        name, place = read["node_name"], (str(file.path), element.line)
        if name is not None:
            self.names.append((qualified_name(read["namespace"], name), *place))
        if self.n_failed == failed_before:
            read["env"] = {**self.set_env, **dict(read["env"])}
            label = name or read["executable"]
            self.processes.append(ProcessPlan(**read, label=label, file=place[0], line=place[1]))

    def _executable(self, package: str | None, executable: str | None) -> Path:
        if package is None or executable is None:
            if package is not None:
                ament.find_package_prefix(package, self.env)
            raise FollowUpError("pkg or exec is missing")
        return ament.find_executable(package, executable, self.env)

    def _remap(self, file: _File, element: Element) -> tuple[str, str]:
        written = element.attributes
        return attributes.remap(self._expand(file, written["from"]), self._expand(file, written["to"]))

    def _env(self, file: _File, element: Element) -> tuple[str, str]:
        return element.attributes["name"], self._expand(file, element.attributes["value"])

    def _command_line(self, file: _File, text: str | None) -> tuple[str, ...]:
        """Split `args` at the spaces between its words; what a substitution yields stays one word."""
        if text is None:
            return ()
        template = self._template(file, text)
        texts = "".join(part for part in template.parts if isinstance(part, str))
        if "'" in texts or '"' in texts or not text or text != text.strip():
            raise SubstitutionError(f"args {text!r}: quotes, empty text and space at either end are not supported")
        return tuple(word.expand(self._scope(file)) for word in template.words())

    def _param(self, file: _File, element: Element) -> ParameterFile | ParameterValue:
        written = element.attributes
        if "from" in written:
            path = Path(self._expand(file, written["from"]))
            require_parameter_file(path)
            return ParameterFile(path)
        name = attributes.parameter_name(self._expand(file, written["name"]))
        text, kind = written["value"], written.get("type")
        value = parameters.evaluate(name, text, self._template(file, text), kind, self._scope(file))
        return ParameterValue(name, value)
