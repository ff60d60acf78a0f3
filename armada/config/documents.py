"""Read a YAML file into plain values, and keep the line of every key and value for error messages.

YAML 1.2: `5e-5` is a number, `off`, `yes` and `on` are text. Refused, because each is a mistake that would go unseen: the same key
twice, keys that are not text, merge keys, custom tags, `010` (8 in YAML 1.1, 10 in 1.2), NUL and lone surrogates in text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import SafeRepresenter

from armada.errors import ConfigError

Location = tuple[str | int, ...]
"""The way to a value from the top of a document: `("data", "train", 0, "path")`."""

_LARGEST_BYTES = 4 << 20  # a data file given by mistake; the largest real one is a few KiB
_MOST_NODES = 100_000  # aliases of aliases grow exponentially
_CORE = "tag:yaml.org,2002:"
_QUOTES_TEXT = re.compile(r"""(['"])(?!<[a-z ]+>['"])..+\1""")
_LITERAL = frozenset({"str", "timestamp", "value", "merge"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a line of a file, or an override on the command line."""

    path: Path | None
    line: int | None
    override: str | None = None
    option: str = "--set"

    def error(self, message: str, hint: str | None = None) -> ConfigError:
        if self.override is not None:
            return ConfigError(f"{self.option} {self.override}: {message}", hint=hint)
        return ConfigError(message, path=self.path, line=self.line, hint=hint)

    def __str__(self) -> str:
        return f"{self.option} {self.override}" if self.override is not None else f"{self.path}:{self.line}"


@dataclass(slots=True)
class Document:
    """The values of one file (or of several merged files), and the place of each key and value.

    Errors about a file that `is_private` quote none of its values, and no key that they do not know.
    """

    path: Path
    data: dict[str, Any]
    keys: dict[Location, Place] = field(default_factory=dict)
    values: dict[Location, Place] = field(default_factory=dict)
    is_private: bool = False

    def key_place(self, location: Location) -> Place:
        return self._nearest(self.keys, location)

    def value_place(self, location: Location) -> Place:
        return self._nearest(self.values, location)

    def _nearest(self, places: Mapping[Location, Place], location: Location) -> Place:
        while location:
            if location in places:
                return places[location]
            location = location[:-1]
            places = self.keys  # something above it: its key is what a person looks for
        return Place(self.path, 1)

    def put(self, location: Location, value: object, source: Document) -> None:
        """Merge a mapping's value into this document, with the places from `source`."""
        container = self.data
        for part in location[:-1]:
            container = container[part]  # type: ignore[index]  # lists are walked like mappings
        container[location[-1]] = value  # type: ignore[index]  # the same
        for mine, theirs in ((self.keys, source.keys), (self.values, source.values)):
            for stale in [known for known in mine if known[: len(location)] == location]:
                del mine[stale]
            mine.update({known: place for known, place in theirs.items() if known[: len(location)] == location})

    def remove(self, location: Location) -> None:
        """Take a key out of its mapping, with what is in it."""
        container: Any = self.data
        for part in location[:-1]:
            container = container[part]
        del container[location[-1]]
        for places in (self.keys, self.values):
            for gone in [known for known in places if known[: len(location)] == location]:
                del places[gone]


def read_document(path: Path) -> Document:
    """Read a file that contains a mapping; an empty file is an empty mapping.

    Raises:
        ConfigError: It cannot be read, or is not YAML of that shape.
    """
    return parse_document(read_text(path), path)


def read_private_document(path: Path) -> Document:
    """Read a file with passwords in it; see `read_document`. No error quotes its text.

    Raises:
        ConfigError: It cannot be read, or is not YAML of that shape.
    """
    text = read_text(path)
    try:
        document = parse_document(text, path)
    except ConfigError as error:
        cause = error.__cause__
        # The parser's other sentences are constant: "mapping values are not allowed here".
        is_constant = isinstance(cause, MarkedYAMLError) and not _QUOTES_TEXT.search(error.message)
        message = error.message if is_constant else "not YAML that armada takes"
        raise ConfigError(
            f"{message} (its text is not shown: it may be a password)", path=path, line=error.line
        ) from None
    document.is_private = True
    return document


def parse_document(text: str, path: Path) -> Document:
    """Read text that contains a mapping; empty text is an empty mapping.

    Args:
        text: YAML.
        path: What the places of its values name.

    Raises:
        ConfigError: It is not YAML of that shape.
    """
    node = compose(text, lambda line: Place(path, line))
    document = Document(path, {})
    if node is None or (isinstance(node, ScalarNode) and node.value == ""):
        return document
    if not isinstance(node, MappingNode):
        raise Place(path, node.start_mark.line + 1).error(
            "the file must contain a mapping, lines such as `name: value`"
        )
    document.data = build(node, document, lambda line: Place(path, line), ())
    return document


def read_text(path: Path) -> str:
    """Read a file as UTF-8.

    Raises:
        ConfigError: It is missing, no plain file, too large, or not UTF-8.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError("this is not a file", path=path)
        with path.open("rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read it: {reason}", path=path) from error
    if len(raw) > _LARGEST_BYTES:
        raise ConfigError(f"it is larger than {_LARGEST_BYTES >> 20} MiB; is it the right file?", path=path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"byte 0x{raw[error.start]:02x} is not UTF-8", path=path, line=line) from error


def compose(text: str, place: Callable[[int], Place]) -> Node | None:
    """Parse YAML into nodes that know their lines.

    Args:
        text: One YAML document.
        place: Makes the place of a line, counted from 1.

    Raises:
        ConfigError: It is not YAML.
    """
    parser = YAML(typ="safe", pure=True)
    parser.composer.warn_double_anchors = False  # it is valid, and the warning quotes the lines, which may be private
    try:
        node: Node | None = parser.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f" {error.context}" if error.context else ""
        raise place(mark.line + 1 if mark else 1).error(
            f"not YAML: {error.problem or 'unreadable'}{context}"
        ) from error
    except ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise place(line).error(
            f"not YAML: character U+{ord(text[error.position]):04X} must be written as an escape"
        ) from error
    except (YAMLError, ValueError) as error:
        raise place(1).error(f"not YAML: {error}") from error
    except RecursionError as error:
        raise place(1).error("nested too deeply") from error
    return node


def build(node: Node, document: Document, place: Callable[[int], Place], location: Location) -> Any:
    """Turn nodes into plain values, noting the place of each in `document`.

    Raises:
        ConfigError: Something this project does not accept in YAML.
    """
    builder = _Builder(document, place)
    try:
        return builder.value(node, location)
    except RecursionError as error:
        raise place(node.start_mark.line + 1).error("nested too deeply, or an alias that contains itself") from error


def yaml_text(value: Mapping[str, object], *, version: tuple[int, int] | None = None) -> str:
    """Block-style YAML in the mapping's own order.

    Args:
        value: Plain values.
        version: `(1, 1)` quotes what a YAML 1.1 reader such as PyYAML would misread: `no`, `1e-05`.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # annotated as what its default is, None
    yaml.width = 4096
    yaml.Representer = _Representer
    out = io.StringIO()
    yaml.dump(dict(value), out)
    return out.getvalue().removeprefix("%YAML 1.1\n---\n")


def shown(value: object, limit: int = 60) -> str:
    """A value as a person would recognise it in an error: `'five'`, `true`, `null`, `{a: 1}`."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(map(shown, value)) + "]"
    else:
        text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def literal_text(text: str) -> str:
    """Return the text unchanged, or raise if it cannot be used literally everywhere (argv, files, JSON)."""
    if "\0" in text:
        raise ValueError("must not contain NUL")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"must not contain half a character (U+{ord(text[error.start]):04X})") from error
    return text


class _Representer(SafeRepresenter):
    def represent_str(self, data: str) -> ScalarNode:
        # ruamel.yaml takes U+0085 and its like for line ends in its other styles, and would read back something else.
        node: ScalarNode = self.represent_scalar(f"{_CORE}str", data, style=None if data.isprintable() else '"')
        return node


_Representer.add_representer(str, _Representer.represent_str)


class _Builder:
    def __init__(self, document: Document, place: Callable[[int], Place]) -> None:
        self._document = document
        self._place = place
        self._nodes = 0

    def value(self, node: Node, location: Location) -> Any:
        self._nodes += 1
        here = self._place(node.start_mark.line + 1)
        if self._nodes > _MOST_NODES:
            raise here.error(f"more than {_MOST_NODES} values (aliases of aliases?)")
        self._document.values[location] = here
        kind = str(node.tag).removeprefix(_CORE)
        if isinstance(node, MappingNode) and kind == "map":
            return dict(self._items(node, location))
        if isinstance(node, SequenceNode) and kind == "seq":
            return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node, kind, here)
        raise here.error(f"the tag {node.tag} is not accepted")

    def _items(self, node: MappingNode, location: Location) -> Iterator[tuple[str, Any]]:
        seen: dict[str, Place] = {}
        for key_node, value_node in node.value:
            here = self._place(key_node.start_mark.line + 1)
            key = self._key(key_node, here)
            if key in seen:
                raise here.error(f"the key {key!r} is here for the second time; first: {seen[key]}")
            seen[key] = here
            below = (*location, key)
            self._document.keys[below] = here
            yield key, self.value(value_node, below)
            if value_node.value == "":  # ruamel.yaml says that nothing stands where the next thing does
                self._document.values[below] = here

    def _key(self, node: Node, here: Place) -> str:
        if not isinstance(node, ScalarNode):
            raise here.error("a key must be text, not a list or mapping")
        kind = str(node.tag).removeprefix(_CORE)
        if kind == "merge":
            raise here.error("merge keys (<<) are not part of YAML 1.2", "write the keys out")
        if kind not in _LITERAL:
            raise here.error(f"a key must be text; {node.value} is not", f'quote it: "{node.value}"')
        return self._text(node.value, here)

    def _scalar(self, node: ScalarNode, kind: str, here: Place) -> Any:
        text: str = node.value
        if kind in _LITERAL:
            return self._text(text, here)
        plain = text.replace("_", "").lower()
        try:
            match kind:
                case "null":
                    return None
                case "bool":
                    return {"true": True, "false": False}[plain]
                case "int":
                    return _whole_number(plain)
                case "float":
                    return float(plain.replace(".inf", "inf").replace(".nan", "nan"))
        except (ValueError, KeyError) as error:
            reason = str(error) if isinstance(error, ValueError) else f"{shown(text)} is not true or false"
            raise here.error(reason, f'if it is meant as text, quote it: "{text}"') from error
        raise here.error(f"the tag {node.tag} is not accepted")

    def _text(self, text: str, here: Place) -> str:
        try:
            # JSON, which YAML includes, writes a character above U+FFFF as two escapes.
            return literal_text(text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))
        except ValueError as error:
            raise here.error(f"{shown(text)} {error}") from error


def _whole_number(text: str) -> int:
    digits = text.lstrip("+-")
    if digits[:2] in {"0x", "0o", "0b"}:
        return int(text, 0)
    if len(digits) > 1 and digits[0] == "0":
        raise ValueError(f"{text} is octal in YAML 1.1 and decimal in YAML 1.2: write it without leading zeros")
    return int(text)
