"""Copy files between this machine and a host for a person: `armada cp`, over the same way as `armada exec`.

The far side is `armada_agent.runs.copying`; both directions carry a tar stream of regular files and folders.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import secrets
import stat
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from armada.errors import ArmadaError, Conflict, HostUnreachable, LinkLost, NotFound
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.transport.terminal import program_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.transport.terminal import Way

_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 20
_MOST_NOISE_BYTES = 16 << 20
_STDERR_BYTES = 64 << 10

OnBytes = Callable[[int, int], None]
"""Told how many bytes of how many have been copied."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied, and where it is now; `left` could not travel: links to folders, devices."""

    place: str
    files: int
    size_bytes: int
    left: tuple[str, ...] = ()
    left_count: int = 0


def fetch(way: Way, asked: Mapping[str, object], destination: Path, on_bytes: OnBytes) -> Copied:
    """Copy a file or folder from a host.

    Args:
        way: How to start programs there.
        asked: `agent`, `root`, `run_id`, `path`.
        destination: A folder to put it into, or the name it gets.
        on_bytes: Called as bytes arrive.

    Raises:
        NotFound: The host has no such file, or there is no such folder here.
        Conflict: A folder of that name is here already.
        LinkLost: The connection was lost; nothing is left here.
        ArmadaError: The host sent what is no file or folder, or another one than the one you named.
    """
    with _Conversation(way, "send", asked) as far:
        said = far.hear()
        is_folder = said.get("is_folder") is True
        name = _checked_name(said.get("name"), str(asked.get("path", "")), is_folder=is_folder)
        target = _choose_target(destination, name, is_folder=is_folder)
        total = said["size_bytes"] if isinstance(said.get("size_bytes"), int) else 0
        with tempfile.TemporaryDirectory(prefix=".armada-cp-", dir=target.parent) as folder:
            files, size = _extract(far, Path(folder), lambda done: on_bytes(done, total))
            far.end()
            if files != said.get("files"):
                raise LinkLost(f"the copy broke off after {files} of {said.get('files')} files", hint="run it again")
            arrived = Path(folder) / name
            if not arrived.exists() or arrived.is_dir() != is_folder:
                raise ArmadaError(f"the host sent something else than {sanitize_line(name, 200)}")
            arrived.replace(target)
    listed = said.get("left")
    left = tuple(sanitize_line(each, 200) for each in listed) if isinstance(listed, list) else ()
    count = said.get("left_count")
    return Copied(str(target), files, size, left, count if isinstance(count, int) else len(left))


def send(way: Way, asked: Mapping[str, object], source: Path, on_bytes: OnBytes) -> Copied:
    """Copy a file or folder to a host.

    Args:
        way: How to start programs there.
        asked: `agent`, `root`, `run_id`, `path`: where to.
        source: A file or folder here.
        on_bytes: Called as bytes go.

    Raises:
        NotFound: It is not here, or the host has no such folder.
        Conflict: A folder of that name is there already.
        LinkLost: The connection was lost; what arrived is removed there.
    """
    real = Path.cwd() / source
    real = real.parent.resolve() / real.name
    if not real.exists():
        raise NotFound(f"there is no {source} here")
    if not real.is_dir() and not real.is_file():
        raise ArmadaError(f"{source} is neither a file nor a folder")
    members, left = _list_files(real)
    total = sum(place.stat().st_size for place, _ in members if place.is_file())
    files = sum(place.is_file() for place, _ in members)
    wanted = {**asked, "name": real.name, "is_folder": real.is_dir(), "files": files}
    with _Conversation(way, "take", wanted) as far:
        target = sanitize_line(far.hear().get("target", ""), 500)
        counting = _Counting(far.stdin, lambda done: on_bytes(min(done, total), total))
        try:
            with tarfile.open(
                fileobj=cast("IO[bytes]", counting), mode="w|", format=tarfile.PAX_FORMAT, dereference=True
            ) as archive:
                for place, member in members:
                    archive.add(place, arcname=member, recursive=False)
            far.stdin.close()
        except BrokenPipeError:
            pass  # the host's own words, or its silence, say why
        far.hear()
        far.end()
    return Copied(target, files, total, tuple(left[:5]), len(left))


class _Conversation:
    """The program on the host: its input, its output behind a marker, and what it says on standard error."""

    def __init__(self, way: Way, verb: str, asked: Mapping[str, object]) -> None:
        self._mark = secrets.token_hex(16)
        program = program_text("copying", verb, {**asked, "mark": self._mark})
        arguments = way.arguments(program, ["-T"])
        try:
            self._process = subprocess.Popen(
                arguments,
                cwd=way.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C ends us first, and we end it
            )
        except FileNotFoundError as error:
            raise HostUnreachable(f"cannot start {arguments[0]}: {error.strerror}") from error
        self.stdin = cast("IO[bytes]", self._process.stdin)
        self.stdout = cast("IO[bytes]", self._process.stdout)
        self._errors = bytearray()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def hear(self) -> dict[str, Any]:
        """Wait for the next line of ours.

        Raises:
            NotFound, Conflict, ArmadaError: It is a refusal.
            LinkLost: There is none.
        """
        prefix = f"@@ARMADA-CP {self._mark} ".encode()
        passed = 0
        while line := self.stdout.readline(_LONGEST_LINE):
            if line.startswith(prefix):
                try:
                    said = dict(json.loads(line[len(prefix) :]))
                except (ValueError, TypeError, RecursionError):
                    raise ArmadaError("the host's answer cannot be read") from None
                if "error" in said:
                    raise _refusal(sanitize_text(str(said["error"]), 1000).strip())
                return said
            passed += len(line)
            if passed > _MOST_NOISE_BYTES:
                raise ArmadaError("the host sends something else than files")
        raise self.lost()

    def end(self) -> None:
        """Wait until the program has ended well.

        Raises:
            LinkLost: It has not.
        """
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        while self.stdout.read(_BLOCK_BYTES):
            pass
        if self._process.wait() != 0:
            raise self.lost()

    def lost(self, otherwise: str = "") -> LinkLost:
        """End the program, and return the error with its last words, or with others if it has none."""
        self._process.kill()
        status = self._process.wait()
        self._listener.join(2.0)
        said = (
            sanitize_line(bytes(self._errors).decode("utf-8", "replace").strip().rpartition("\n")[2], 300) or otherwise
        )
        return LinkLost(f"the copy broke off (exit code {status}){f': {said}' if said else ''}", hint="run it again")

    def _listen(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (data := stderr.read1(4096)):  # type: ignore[attr-defined]  # a buffered reader
            self._errors += data
            del self._errors[:-_STDERR_BYTES]

    def __enter__(self) -> _Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        self._listener.join(2.0)


class _Counting:
    """A writer that says how many bytes went through it."""

    def __init__(self, stream: IO[bytes], told: Callable[[int], None]) -> None:
        self._stream = stream
        self._told = told
        self._done = 0

    def write(self, data: bytes) -> int:
        self._stream.write(data)
        self._done += len(data)
        self._told(self._done)
        return len(data)


def _extract(far: _Conversation, folder: Path, told: Callable[[int], None]) -> tuple[int, int]:
    """Write regular files and folders below a new folder; return how many files came, and their bytes."""
    count = size = 0
    try:
        with tarfile.open(fileobj=far.stdout, mode="r|") as archive:
            for member in _checked(archive):
                place = folder.joinpath(*member.name.split("/"))
                if member.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                    place.chmod(member.mode & 0o755 | 0o700)
                    continue
                content = archive.extractfile(member)
                if content is None:
                    raise ArmadaError(f"{sanitize_line(member.name, 200)} has no content")
                with place.open("xb") as written:
                    while block := content.read(_BLOCK_BYTES):
                        written.write(block)
                        size += len(block)
                        told(size)
                place.chmod(member.mode & 0o755 | 0o600)  # a private file stays private
                with contextlib.suppress(OverflowError, ValueError):  # a date that no file can have
                    os.utime(place, (member.mtime, member.mtime))
                count += 1
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise far.lost(sanitize_line(error, 200)) from error
    return count, size


def _checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        parts = member.name.split("/")
        if not (member.isfile() or member.isdir()) or any(part in ("", ".", "..") for part in parts):
            raise ArmadaError(f"the host sent {sanitize_line(member.name, 200)!r}, which is no file or folder")
        yield member


def _list_files(source: Path) -> tuple[list[tuple[Path, str]], list[str]]:
    """List folders and files with the names they get, and what cannot travel: links to folders, devices, broken links."""
    members, left = [(source, source.name)], []
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        if path.is_file() or (path.is_dir() and not path.is_symlink()):
            members.append((path, f"{source.name}/{path.relative_to(source).as_posix()}"))
        else:
            left.append(str(path.relative_to(source)))
    return members, left


def _choose_target(destination: Path, name: str, *, is_folder: bool) -> Path:
    target = destination / name if destination.is_dir() else destination
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent} here")
    if target.is_dir() or (is_folder and os.path.lexists(target)):
        raise Conflict(f"{target} is there already", hint="name another place, or remove it")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise Conflict(f"{target} is neither a file nor a folder", hint="name another place")
    return target


def _checked_name(name: object, path: str, *, is_folder: bool) -> str:
    """Return the name that the host gives, if it is the one in the path that the user wrote.

    A host that could choose it would replace any file of the folder here: CVE-2019-6111 of scp. Only the name of a
    folder that the path does not name (`RUN:`, `HOST:~`) is the host's choice, and no folder replaces anything.
    """
    last = posixpath.basename(posixpath.normpath(path))
    is_named = last not in ("", ".", "..") and not (last.startswith("~") and last == posixpath.normpath(path))
    if not isinstance(name, str) or not name or "/" in name or name in (".", "..") or "\0" in name:
        raise ArmadaError("the host names no file")
    if name != last if is_named else not is_folder or not name.isprintable():
        raise ArmadaError(f"the host sent {sanitize_line(name, 200)!r}, which is not {path or 'what you asked for'}")
    return name


def _refusal(message: str) -> ArmadaError:
    if message.startswith("there is no "):
        return NotFound(message)
    return Conflict(message) if "is there already" in message else ArmadaError(message)
