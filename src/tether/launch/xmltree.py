"""XML of launch files as a tree that remembers lines.

Read by expat. A document type declaration is refused, and with it every entity of the file's own: launch
files need none, and they are what entity bombs and outside reads are made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from tether.launch.errors import Fault, LaunchFileError

MAX_DEPTH = 64
"""Tags within tags; ours are five deep."""
MAX_BYTES = 4 * 1024 * 1024


@dataclass
class Element:
    """One tag: its attributes and children in file order; `line` is where its `<` stands."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)


class _TreeBuilder:
    def __init__(self, file: str) -> None:
        self.root: Element | None = None
        self.faults: list[Fault] = []
        self._file = file
        self._stack: list[Element] = []
        self._parser = expat.ParserCreate("utf-8")
        self._parser.XmlDeclHandler = self._declaration
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.ProcessingInstructionHandler = self._instruction

    def parse(self, data: bytes) -> Element:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise self._fault(f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None
        if self.root is None:  # expat reports an empty document itself; this keeps the type honest
            raise self._fault("the file holds no element")
        return self.root

    def _fault(self, message: str, line: int | None = None) -> LaunchFileError:
        return LaunchFileError([Fault(self._file, line or self._parser.CurrentLineNumber, message)])

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise self._fault(f"tags are nested more than {MAX_DEPTH} deep")
        element = Element(tag, attributes, self._parser.CurrentLineNumber)
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self.root = element
        self._stack.append(element)

    def _end(self, tag: str) -> None:
        self._stack.pop()

    def _text(self, text: str) -> None:
        if text.strip():
            message = f"text {text.strip()!r} between tags; launch files hold tags and attributes only"
            self.faults.append(Fault(self._file, self._parser.CurrentLineNumber, message))

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() != "utf-8":
            raise self._fault(f"encoding '{encoding}' is refused; launch files are UTF-8")

    def _doctype(self, name: str, *_: object) -> None:
        raise self._fault("a DOCTYPE is refused: launch files need no document type and no entities")

    def _instruction(self, target: str, _: str) -> None:
        raise self._fault(f"processing instruction '<?{target} …?>' is refused")


def load(path: Path) -> tuple[Element, list[Fault]]:
    """Return the root element of `path` and its text faults; raise LaunchFileError where there is no tree."""
    try:
        if path.exists() and not path.is_file():  # a pipe would wait for its writer for ever
            raise LaunchFileError([Fault(str(path), 0, "is a folder, a pipe or a device; expected a file")])
        if path.stat().st_size > MAX_BYTES:
            message = f"holds {path.stat().st_size} bytes; a launch file may have {MAX_BYTES}"
            raise LaunchFileError([Fault(str(path), 0, message)])
        data = path.read_bytes()
    except OSError as error:
        raise LaunchFileError([Fault(str(path), 0, f"cannot be read: {error.strerror}")]) from None
    builder = _TreeBuilder(str(path))
    return builder.parse(data), builder.faults
