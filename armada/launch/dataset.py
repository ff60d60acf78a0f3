"""A data file read once before anything starts: every line must be what the trainer takes, and all alike."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from armada.config.documents import shown
from armada.errors import ConfigError

_LONGEST_LINE_BYTES = (
    64 << 20
)  # one line holds one conversation; without newlines the file would be read into memory whole
_SHAPES = "messages, conversations, prompt and completion, or text"


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What was found; `kind` is the shape of its rows: messages, conversations, prompt_completion, text.

    `rows` is None where only the host, which has the libraries, can count them.
    """

    rows: int | None
    size_bytes: int
    sha256: str
    kind: str


def check_dataset(path: Path) -> DatasetFacts:
    """Read a .jsonl file through, gzip or not. Parquet and folders of `datasets` are left to the host, which has the libraries.

    Raises:
        ConfigError: It is missing or empty, or a line is wrong: with that line.
    """
    if path.is_dir() and (path / "state.json").is_file():
        return DatasetFacts(None, 0, "", "saved dataset")
    if not path.is_file():
        raise ConfigError("there is no such file" if not path.exists() else "this is not a file", path=path)
    digest = hashlib.sha256()
    size = rows = 0
    kind: str | None = None
    blank: int | None = None
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            return DatasetFacts(None, path.stat().st_size, "", "parquet")
        with gzip.open(path, "rb") if start.startswith(b"\x1f\x8b") else path.open("rb") as file:
            for number, raw in _lines(file, path):
                digest.update(raw)
                size += len(raw)
                if not raw.strip():
                    blank = blank or number
                    continue
                if blank is not None:
                    raise _Wrong("it is empty, and more rows follow", blank)
                found = _kind(_row(raw, first=number == 1))
                if kind is not None and found != kind:
                    raise _Wrong(f"this row is {found}; those before it are {kind}: a file holds one shape", number)
                kind, rows = found, rows + 1
    except _Wrong as wrong:
        raise ConfigError(wrong.reason, path=path, line=wrong.line or number, hint=wrong.hint) from wrong
    except (OSError, EOFError) as error:
        raise ConfigError(f"cannot read it: {getattr(error, 'strerror', None) or error}", path=path) from error
    if kind is None:
        raise ConfigError("it holds no rows", path=path, hint=f"one JSON object a line, with {_SHAPES}")
    return DatasetFacts(rows, size, digest.hexdigest(), kind)


class _Wrong(Exception):
    def __init__(self, reason: str, line: int | None = None, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.line, self.hint = reason, line, hint


def _lines(file: BinaryIO | gzip.GzipFile, path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    while raw := file.readline(_LONGEST_LINE_BYTES + 1):
        number += 1
        if len(raw) > _LONGEST_LINE_BYTES:
            raise ConfigError(
                f"the line is longer than {_LONGEST_LINE_BYTES >> 20} MiB",
                path=path,
                line=number,
                hint="one row a line: is it .json rather than .jsonl?",
            )
        yield number, raw


def _refuse_constant(name: str) -> NoReturn:
    raise _Wrong(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _row(raw: bytes, *, first: bool) -> dict[str, Any]:
    if first and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Wrong("the file is UTF-16, not UTF-8", hint="iconv -f UTF-16 -t UTF-8")
    if first and raw.startswith(b"\xef\xbb\xbf"):
        raise _Wrong("the file begins with a byte order mark", hint="sed -i '1s/^\\xef\\xbb\\xbf//' takes it out")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _Wrong(f"byte 0x{raw[error.start]:02x} at {error.start + 1} is not UTF-8") from error
    try:
        row = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair passes JSON and stops the tokenizer
    except json.JSONDecodeError as error:
        raise _Wrong(f"not JSON: {error.msg} (column {error.colno})") from error
    except UnicodeEncodeError as error:
        raise _Wrong("it holds half a character (\\ud800 to \\udfff alone)") from error
    except (RecursionError, ValueError) as error:
        raise _Wrong("not JSON that can be read: nested too deeply, or a number too long") from error
    if not isinstance(row, dict):
        raise _Wrong(f"a row must be a JSON object, not {shown(row)}", hint=f"with {_SHAPES}")
    return row


def _kind(row: dict[str, Any]) -> str:
    if "messages" in row:
        _check_turns(row["messages"], "messages", "role", "content")
        return "messages"
    if "conversations" in row:
        _check_turns(row["conversations"], "conversations", "from", "value")
        return "conversations"
    if "prompt" in row or "completion" in row:
        return _prompt_completion(row)
    if "text" in row:
        if not isinstance(row["text"], str):
            raise _Wrong(f"`text` must be text, not {shown(row['text'])}")
        return "text"
    keys = ", ".join(map(shown, list(row)[:5])) or "nothing"
    raise _Wrong(f"the row has {keys}; it needs {_SHAPES}")


def _prompt_completion(row: dict[str, Any]) -> str:
    for key in ("prompt", "completion"):
        if key not in row:
            raise _Wrong(f"`{key}` is missing beside `{'completion' if key == 'prompt' else 'prompt'}`")
    if all(isinstance(row[key], str) for key in ("prompt", "completion")):
        return "prompt_completion"
    for key in ("prompt", "completion"):
        if not isinstance(row[key], list):
            raise _Wrong(f"`{key}` must be text, as the other one, or both lists of messages; not {shown(row[key])}")
        _check_turns(row[key], key, "role", "content")
    return "prompt_completion of messages"


def _check_turns(turns: object, key: str, speaker: str, said: str) -> None:
    if not isinstance(turns, list) or not turns:
        raise _Wrong(f"`{key}` must be a filled list, not {shown(turns)}")
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            raise _Wrong(f"`{key}[{index}]` must be an object with {speaker} and {said}, not {shown(turn)}")
        if not isinstance(turn.get(speaker), str) or not turn[speaker]:
            raise _Wrong(f"`{key}[{index}].{speaker}` must be text, not {shown(turn.get(speaker))}")
        content = turn.get(said)
        # A turn that only calls tools says nothing; vision models take lists of parts.
        if not isinstance(content, str | list) and not (content is None and turn.get("tool_calls")):
            raise _Wrong(f"`{key}[{index}].{said}` must be text, not {shown(content)}")
