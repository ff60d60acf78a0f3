"""Content-addressed folders: the same files are sent to a host once, whichever run needs them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from armada.errors import ArmadaError, HostUnreachable, ProvisionFailed, RsyncUnusable
from armada.protocol.content import CheckContent, ContentPlace, Mode, PublishContent
from armada.rpc.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from io import BufferedReader

    from armada.foundation.progress import TransferProgress
    from armada.rpc.session import HostSession

Kind = Literal["code", "data", "models"]

CHECK_S = 4 * 3600.0
"""In seconds: enough to read 1 TB from a slow file system."""


@dataclass(frozen=True, slots=True)
class Content:
    """Some files below a folder at home, and the name derived from their bytes.

    `manifest` holds (path, size in bytes, SHA-256, mode) ordered by path; `sha` is the SHA-256 of its canonical JSON.
    """

    kind: Kind
    source: Path
    manifest: tuple[tuple[str, int, str, Mode], ...]
    sha: str

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size, _, _ in self.manifest)

    @property
    def files(self) -> list[str]:
        return [path for path, _, _, _ in self.manifest]


def take_stock(kind: Kind, source: Path, files: Iterable[str]) -> Content:
    """Hash files below `source`.

    Args:
        kind: The kind of content, which determines its place on the host.
        source: A folder at home.
        files: Relative paths of regular files; links are not followed.

    Raises:
        ProvisionFailed: A file cannot be read, is not a regular file, or has an invalid name.
    """
    manifest: list[tuple[str, int, str, Mode]] = []
    for name in sorted(set(files)):
        path = source / name
        if not name.isprintable():
            raise ProvisionFailed(f"{name!r} below {source} has control characters in its name", hint="rename the file")
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
                found = os.fstat(stream.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise ProvisionFailed(f"{path} is not a regular file", hint="only regular files can be sent")
                sha256 = _hash(stream, found)
        except OSError as error:
            raise ProvisionFailed(f"{path} cannot be read: {error.strerror}") from error
        manifest.append((name, found.st_size, sha256, 0o755 if found.st_mode & 0o100 else 0o644))
    canonical = json.dumps(manifest, separators=(",", ":"), ensure_ascii=True)
    return Content(kind, source, tuple(manifest), hashlib.sha256(canonical.encode()).hexdigest())


_hashed: ContextVar[dict[tuple[int, ...], str] | None] = ContextVar("hashed", default=None)
"""SHA-256 of files that were read already, by what changes when a file changes."""


@contextlib.contextmanager
def hashing_once() -> Iterator[None]:
    """Read each file once inside the block, as long as it does not change: the cells of a sweep share data and models."""
    before = _hashed.get()
    token = _hashed.set({} if before is None else before)
    try:
        yield
    finally:
        _hashed.reset(token)


def _hash(stream: BufferedReader, found: os.stat_result) -> str:
    known = _hashed.get()
    if known is None:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if key not in known:
        known[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return known[key]


def find(session: HostSession, content: Content) -> ContentPlace:
    """Ask whether a host has a content. The host verifies its copy first.

    Code is read each time. Data and models are read if they were touched, or if an older armada stored them.

    Raises:
        ProvisionFailed: The folder with the content's name belongs to somebody else, or has other files.
    """
    return session.call(CheckContent(kind=content.kind, sha=content.sha), timeout_s=CHECK_S)


def find_missing_contents(session: HostSession, contents: Sequence[Content]) -> tuple[Content, ...]:
    """Ask, with one round trip, which contents a host lacks; raises as `find` does. Nothing is created there."""
    calls = [Call.of(CheckContent(kind=content.kind, sha=content.sha, only_look=True), CHECK_S) for content in contents]
    missing = []
    for content, answer in zip(contents, session.call_all(calls), strict=True):
        if isinstance(answer, ArmadaError):
            raise answer
        if not answer.present:
            missing.append(content)
    return tuple(missing)


def send(session: HostSession, content: Content, progress: Callable[[TransferProgress], None]) -> bool:
    """Put a content on a host, unless it is there; the host checks every hash before the content counts.

    Returns:
        Whether anything was sent.

    Raises:
        ProvisionFailed: The host refused the received files, or has no space.
        HostUnreachable: The link stayed down; the received bytes are kept for the next try.
    """
    found = find(session, content)
    if found.present:
        return False
    request = PublishContent(kind=content.kind, sha=content.sha, manifest=content.manifest)
    for last in (False, False, True):
        _carry(session, content, found.staging, progress)
        try:
            session.call(request, timeout_s=3600.0)
        except (HostUnreachable, ProvisionFailed):
            raise
        except ArmadaError as error:
            # The received bytes were not the right ones, and the agent has removed them. Either a file changed here
            # during the transfer, or an earlier transfer left damage of the right size, which rsync does not detect.
            if last:
                raise ProvisionFailed(error.message, hint=error.hint, host=session.host.name) from error
        else:
            break
    return True


def _carry(session: HostSession, content: Content, staging: str, progress: Callable[[TransferProgress], None]) -> None:
    """Copy the files into the staging folder by rsync, or as a tar stream if rsync cannot be used."""
    if session.without_rsync is None:
        try:
            session.push(content.source, content.files, staging, progress)
            return
        except RsyncUnusable as error:
            session.without_rsync = error.message
    from armada.provision.tar_stream import pour

    pour(session, content, progress)
