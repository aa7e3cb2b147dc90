"""XML text of a robot description, in any encoding, as a tree that remembers lines.

Read by expat, without namespaces, so `xacro:if` stays one tag. Entity declarations are refused: a robot needs
none, and they are what entity bombs and reads of other files are made of.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from tether.robot.findings import Rule

MAX_BYTES = 32 * 1024 * 1024
"""Files above this are refused. The largest descriptions in common use, meshes apart, are below 1 MiB."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BARE_UTF16 = ((b"<\x00", "utf-16-le"), (b"\x00<", "utf-16-be"))
_WIDE = ("utf-16", "utf16", "utf-32", "utf32", "ucs-2", "ucs-4", "iso-10646")
_NARROW = ("utf-8", "utf8", "ascii", "us-ascii")
_DECLARATION = re.compile(r"^\s*<\?xml\b[^>]*\?>")
_MISPLACED_DECLARATION = re.compile(r"^((?:\s|<!--.*?-->)*)(<\?xml\b[^>]*\?>)", re.DOTALL)
_DECLARED_ENCODING = re.compile(rb"^\s*<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([A-Za-z0-9._:-]+)[\"']")
_CONTROL_BYTES = bytes(set(range(32)) - {9, 10, 12, 13})


class UnreadableError(Exception):
    """A file that holds no robot description that could be read. rule: identifier of the reason."""

    def __init__(self, rule: Rule, message: str, fix: str, line: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.fix = fix
        self.line = line


@dataclass
class Element:
    """One tag: attributes and children in file order, character data, and the line where its `<` stands."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str | None:
        """Return an attribute, or None where it is absent."""
        return self.attributes.get(name)

    def first(self, tag: str) -> Element | None:
        """Return the first child of that tag, as urdfdom does where there are several."""
        return next((child for child in self.children if child.tag == tag), None)

    def all(self, tag: str) -> list[Element]:
        """Return every child of that tag, in file order."""
        return [child for child in self.children if child.tag == tag]

    def walk(self) -> Iterator[Element]:
        """Yield this element and everything below it, in file order, whatever the depth."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))


@dataclass(frozen=True)
class XmlText:
    """Decoded text of a file. complaint: what its encoding lacks, or None; minor: most readers cope."""

    text: str
    complaint: str | None = None
    minor: bool = False


def read_xml_text(path: Path) -> XmlText:
    """Read and decode a file.

    Raises UnreadableError for a missing, empty, oversized or binary file. Bytes that do not fit the declared
    encoding are a complaint, not an end: the text is then read as latin-1, so that the rest can still be
    looked at.
    """
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise UnreadableError(Rule.FILE_MISSING, "is a folder, not a file", "name the .urdf or .xacro file itself")
        if not path.is_file():
            raise UnreadableError(Rule.FILE_UNREADABLE, "is a device or a pipe, not a file", "name a regular file")
        if size > MAX_BYTES:
            limit = f"{MAX_BYTES // 2**20} MiB"
            raise UnreadableError(
                Rule.FILE_TOO_LARGE,
                f"{size} bytes, more than {limit}",
                "keep meshes and textures out of the description",
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise UnreadableError(Rule.FILE_MISSING, "there is no such file", "check the path") from None
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        raise UnreadableError(Rule.FILE_UNREADABLE, f"cannot be read: {reason}", "check path and permissions") from None
    return decode_xml(data)


def decode_xml(data: bytes) -> XmlText:
    """Decode XML bytes by byte-order mark, then declared encoding, then UTF-8; see `read_xml_text`."""
    if not data.strip(b"\x00 \t\r\n"):
        raise UnreadableError(Rule.FILE_EMPTY, "the file is empty", "write or generate the description again")
    if data.startswith(b"version https://git-lfs"):
        what = "a Git LFS pointer, not the file itself"
        raise UnreadableError(Rule.FILE_BINARY, what, "fetch it with `git lfs pull`")
    marked = next((name for mark, name in _BOMS + _BARE_UTF16 if data.startswith(mark)), None)
    if marked is None and data.translate(None, _CONTROL_BYTES) != data:
        fix = "name the XML text of the description"
        raise UnreadableError(Rule.FILE_BINARY, _binary_message(data), fix)
    declared = _DECLARED_ENCODING.match(data[:1024])
    encoding = marked or (declared.group(1).decode("ascii").lower() if declared else "utf-8")
    if marked is None and encoding.startswith(_WIDE):
        # Its declaration was read byte by byte, so wide it is not.
        return _with_complaint(data, "utf-8", f"declares the encoding {encoding!r}, which it does not have")
    try:
        text = data.decode(encoding).lstrip("\ufeff")
    except LookupError:
        return _with_complaint(data, "latin-1", f"declares the encoding {encoding!r}, which does not exist")
    except (UnicodeError, ValueError) as failure:
        at = getattr(failure, "start", 0)
        line = data.count(b"\n", 0, at) + 1
        complaint = f"byte {data[at : at + 1].hex()} on line {line} is not valid {encoding}"
        return _with_complaint(data, "latin-1", complaint)
    if encoding.startswith(_WIDE):
        return XmlText(text, f"is encoded in {encoding}")
    if not encoding.startswith(_NARROW) and not data.isascii():
        return XmlText(text, f"is encoded in {encoding}", minor=True)
    return XmlText(text)


def _with_complaint(data: bytes, encoding: str, complaint: str) -> XmlText:
    try:
        return XmlText(data.decode(encoding), complaint)
    except UnicodeError:
        return XmlText(data.decode("latin-1"), complaint)


def _binary_message(data: bytes) -> str:
    known = (
        (b"\x1f\x8b", "gzip"),
        (b"PK", "zip"),
        (b"\x7fELF", "an ELF program"),
        (b"\x89PNG", "a PNG picture"),
    )
    guess = next((name for magic, name in known if data.startswith(magic)), None)
    return f"binary data{f' ({guess})' if guess else ''}, not XML text"


class _TreeBuilder:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._stack: list[Element] = []
        # The text is handed over as UTF-8 whatever its declaration says, so that is what the parser is told.
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.EntityDeclHandler = self._entity

    def parse(self, text: str) -> Element:
        try:
            self._parser.Parse(text.encode("utf-8", "surrogatepass"), True)
        except expat.ExpatError as failure:
            raise UnreadableError(
                Rule.XML_MALFORMED,
                f"not well-formed XML: {expat.ErrorString(failure.code)} at column {failure.offset + 1}",
                "mend the XML there; what follows could not be checked",
                failure.lineno,
            ) from None
        if self.root is None:  # expat reports this itself; the check keeps the type honest
            raise UnreadableError(Rule.XML_MALFORMED, "the file holds no element", "write a <robot> element")
        return self.root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, self._parser.CurrentLineNumber)
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self.root = element
        self._stack.append(element)

    def _end(self, tag: str) -> None:
        self._stack.pop()

    def _data(self, data: str) -> None:
        self._stack[-1].text += data

    def _entity(self, name: str, *_: object) -> None:
        raise UnreadableError(
            Rule.XML_ENTITY,
            f"declares the entity {name!r}; entities are refused (they can grow without bound or read files)",
            "write the value out, or use a xacro property",
            self._parser.CurrentLineNumber,
        )


def parse_xml(text: str) -> Element:
    """Return the root of an XML text. Raises UnreadableError where malformed, or for declared entities."""
    return _TreeBuilder().parse(text)


def parse_but_for_declaration(text: str) -> tuple[Element, UnreadableError | None]:
    """As `parse_xml`; where `<?xml …?>` alone is at fault, return the root all the same, and the fault."""
    try:
        return parse_xml(text), None
    except UnreadableError as failure:
        reason = failure
    blanked = _MISPLACED_DECLARATION.sub(_blank, text, count=1)
    if reason.rule is not Rule.XML_MALFORMED or blanked == text:
        raise reason
    try:
        root = parse_xml(blanked)
    except UnreadableError:
        raise reason from None
    message = f"its <?xml …?> is wrong, and only some readers pass over it: {reason}"
    fix = 'let the file begin with <?xml version="1.0"?>, or leave that out'
    return root, UnreadableError(reason.rule, message, fix, reason.line)


def _blank(match: re.Match[str]) -> str:
    return match.group(1) + "\n" * match.group(2).count("\n")


def without_declaration(text: str) -> str:
    """Return the text without its `<?xml …?>`, whose encoding no longer holds once it is decoded."""
    return _DECLARATION.sub(lambda match: "\n" * match.group().count("\n"), text, count=1)
