"""`files:` of an experiment: names in the job's working folder, and the source of each file or folder."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from armada.config.documents import shown
from armada.config.settings import FilePath, FilledText, Settings, problem, shaped

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HUB = re.compile(
    r"hf://(?:(?P<collection>models|datasets)/)?(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})"
    r"(?:@(?P<revision>[A-Za-z0-9][\w.-]{0,120}))?(?:/(?P<path>.+))?",
    re.ASCII,
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FORMS = "a path, host:/path/there, https://…, hf://owner/name, s3://bucket/path, or gs://bucket/path"
_STORE = re.compile(r"(?:s3|gs)://[^/\s]+(?:/.*)?")


class HubAddress(Settings):
    """The parts of `hf://[datasets/]owner/name[@revision][/path]`."""

    collection: Literal["models", "datasets"]
    repo: str
    revision: str
    path: str


class FileSource(Settings):
    """The source of a file or folder: one of `path`, `host` and `url`."""

    other_names: ClassVar[dict[str, str]] = {"source": "path", "file": "path", "sha": "sha256", "checksum": "sha256"}

    path: FilePath | None = None
    """A file or folder at home; it is sent once per host."""
    host: FilledText | None = None
    """An absolute path on the host, which is linked and not copied."""
    url: FilledText | None = None
    """`https://…`, `hf://[datasets/]owner/name[@revision][/path]`, `s3://bucket/path` or `gs://bucket/path`."""
    sha256: Annotated[FilledText, shaped(_SHA256)] | None = None
    """The SHA-256 of the file at `url`: another file is refused."""

    @property
    def hub(self) -> HubAddress | None:
        """The repository on the hub, if `url` names one."""
        found = _HUB.fullmatch(self.url or "")
        if found is None:
            return None
        parts = found.groupdict()
        return HubAddress(
            collection="datasets" if parts["collection"] == "datasets" else "models",
            repo=parts["repo"],
            revision=parts["revision"] or "main",
            path=(parts["path"] or "").strip("/"),
        )

    @property
    def is_stored(self) -> bool:
        """Whether `url` is on an object store, which home reads."""
        return (self.url or "").startswith(("s3://", "gs://"))

    @property
    def written(self) -> str:
        """The source as the user writes it, without its query, which may contain a key."""
        if self.url is not None:
            return self.url.partition("?")[0]
        return f"host:{self.host}" if self.host is not None else str(self.path)

    @field_validator("host")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "~/")):
            raise problem(f"must be an absolute path on the host, not {shown(value)}", hint="host:/data/corpus")
        if value is not None and any(ord(letter) < ord(" ") or letter == "\x7f" for letter in value):
            raise problem(f"{shown(value)} has a control character", hint="rename it on the host")
        return value

    @field_validator("sha256")
    @classmethod
    def _is_a_digest(cls, value: str | None) -> str | None:
        if value is not None and not _SHA256.fullmatch(value):
            raise problem(f"must be 64 hexadecimal digits in lower case, not {shown(value)}")
        return value

    @field_validator("url")
    @classmethod
    def _can_be_fetched(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if any(letter.isspace() or not letter.isprintable() for letter in value):
            raise problem(f"{shown(value)} contains blanks", hint="write %20 for a blank")
        if value.startswith("hf://"):
            if not _HUB.fullmatch(value):
                raise problem(
                    f"{shown(value)} names no repository", hint="hf://[datasets/]owner/name[@revision][/path]"
                )
            return value
        if value.startswith(("s3://", "gs://")):
            if not _STORE.fullmatch(value):
                raise problem(f"{shown(value)} names no bucket", hint="s3://bucket/path")
            return value.rstrip("/")
        return _web_address(value)

    @model_validator(mode="after")
    def _one_origin(self) -> FileSource:
        if sum(origin is not None for origin in (self.path, self.host, self.url)) != 1:
            raise problem("needs one of `path`, `host` and `url`")
        is_web = self.url is not None and self.hub is None and not self.is_stored
        if self.sha256 is not None and not is_web:
            raise problem("is for files on the web", key="sha256", hint="leave it out")
        if is_web and self.sha256 is None and self.url is not None and self.url.startswith("http://"):
            host = urlsplit(self.url).hostname
            if host not in _LOOPBACK:
                raise problem("can be changed on its way: http:// needs `sha256`", key="url", hint="https://…")
        return self


def _web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise problem(f"{shown(value)} is not an address") from None
    if parts.scheme not in ("http", "https"):
        raise problem(f"cannot be fetched: {shown(value)}", hint=_FORMS)
    if not parts.hostname:
        raise problem(f"{shown(value)} names no server")
    if parts.username or parts.password:
        raise problem("must not contain a password: it would be recorded with the run", hint="a signed address")
    return value


def _source(value: Any) -> Any:
    """Parse the short form, a single string."""
    if not isinstance(value, str):
        return value
    if value.startswith("host:"):
        return {"host": value.removeprefix("host:")}
    return {"url": value} if _SCHEME.match(value) else {"path": value}


def _name(value: str) -> str:
    name = value.rstrip("/")
    parts = name.split("/")
    if name.startswith("~") or any(part in ("", ".", "..") for part in parts) or not name.isprintable():
        raise problem(f"{shown(value)} must be a path below the folder the job works in", hint="data/train.jsonl")
    if len(name) > 200:
        raise problem(f"{shown(value)} is longer than 200 characters")
    return name


def _apart(value: dict[str, FileSource]) -> dict[str, FileSource]:
    for name in value:
        for other in value:
            if name.startswith(other + "/"):
                raise problem(f"{shown(name)} would lie in {shown(other)}, which is a link", key=name)
    return value


Files = Annotated[
    dict[
        Annotated[FilledText, AfterValidator(_name)],
        Annotated[FileSource, BeforeValidator(_source, json_schema_input_type=FilledText | FileSource)],
    ],
    AfterValidator(_apart),
    Field(max_length=1000),
]
"""Sources by the names under which the job finds them."""
