"""Provide the entries of `files:` on the host, the web and the hub for a run: the host downloads them, or home does."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from armada.config.hosts import LOCAL, Host
from armada.errors import ArmadaError, ProvisionFailed
from armada.foundation.sanitize import sanitize_line
from armada.protocol.sources import FetchSource, HostSource, HubSource, LookUpSources, WebSource
from armada.protocol.spec import JobLink
from armada.provision.content import send, take_stock
from armada.provision.object_stores import Objects, download, list_objects
from armada.rpc.session import HostSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.files import FileSource
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.protocol.sources import FoundSource, Source

FETCH_S = 24 * 3600.0
_LOOK_UP_S = 300.0
_WAY = ("HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_GATED = "correct `files:`, or accept its terms on its page at the hub and add HF_TOKEN to `secrets:`"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """An entry of `files:` that is not a path at home, and its server's answer.

    Attributes:
        name: Its name in the job's working folder.
        written: The source as written in the experiment.
        source: The source to ask; None for an object store that cannot be read.
        link: The target of the job's link; None until the host has the files.
        through_home: The host cannot reach the source, but home can: home downloads it and sends it.
        problem: Why it cannot be fetched.
        remedy: What to do about it; None: correct the entry.
    """

    name: str
    written: str
    source: Source | Objects | None
    identity: str | None
    size_bytes: int | None
    link: JobLink | None = None
    through_home: bool = False
    problem: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class _Asker:
    """Queries sources, with the experiment's hub settings and token."""

    home: HomePaths
    variables: dict[str, str]
    token: str | None

    def look_up(self, session: HostSession, sources: list[Source]) -> tuple[FoundSource, ...]:
        request = LookUpSources(sources=tuple(sources), variables=self.variables, token=self.token)
        found = session.call(request, timeout_s=_LOOK_UP_S).found
        if len(found) != len(sources):
            raise ArmadaError(f"the host answered {len(found)} of {len(sources)} files", host=session.host.name)
        return found


def look_up(
    session: HostSession,
    home: HomePaths,
    files: Mapping[str, FileSource],
    variables: Mapping[str, str],
    secrets: tuple[str, ...],
) -> list[FoundFile]:
    """Look up every entry of `files:` that is not a path at home; nothing is downloaded.

    Args:
        session: A session with the host.
        home: The folder of home's own downloads.
        files: The entries, by name.
        variables: The run's variables; HF_ENDPOINT and proxies apply to the host too.
        secrets: Names of secrets; `HF_TOKEN` among them gives access to gated repositories.
    """
    stored = [_look_into_store(name, source) for name, source in files.items() if source.is_stored]
    elsewhere = {name: source for name, source in files.items() if source.path is None and not source.is_stored}
    if not elsewhere:
        return stored
    asker = _asker(home, variables, secrets)
    sources = [_request(name, source) for name, source in elsewhere.items()]
    found = asker.look_up(session, sources)
    out_of_reach = [
        index
        for index, (source, each) in enumerate(zip(sources, found, strict=True))
        if each.problem and not each.refused and source.kind != "host"
    ]
    at_home: dict[int, FoundSource] = {}
    if out_of_reach and not session.host.local:
        with _here(home) as here:
            answers = asker.look_up(here, [sources[index] for index in out_of_reach])
        at_home = dict(zip(out_of_reach, answers, strict=True))
    return stored + [
        _found(session, name, written.written, source, each, at_home.get(index))
        for index, ((name, written), source, each) in enumerate(zip(elsewhere.items(), sources, found, strict=True))
    ]


def fetch(
    session: HostSession,
    home: HomePaths,
    file: FoundFile,
    variables: Mapping[str, str],
    secrets: tuple[str, ...],
    progress: Progress,
) -> JobLink:
    """Put a file on the host, and return the target of the job's link.

    Raises:
        ProvisionFailed: Its server refused the request or closed the connection, or there is no space.
        Conflict: It has changed since it was looked up.
    """
    asker = _asker(home, variables, secrets)
    if isinstance(file.source, Objects):
        folder = download(file.source, home.downloads, progress)
        names = [name for name, _, _ in file.source.files]
        return _send(session, folder, names, "" if file.source.is_folder else names[0], file.name, progress)
    if not file.through_home:
        return _link(session, file.name, _fetch(session, asker, file, progress))
    with _here(home) as here:
        there = Path(_fetch(here, asker, file, progress))
        top = Path(str(here.paths.root)) / "data"
    folder = top / there.relative_to(top).parts[0]
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return _send(session, folder, names, there.relative_to(folder).as_posix(), file.name, progress)


def _send(session: HostSession, folder: Path, names: list[str], linked: str, name: str, progress: Progress) -> JobLink:
    """Send what home has downloaded; `linked` is what the job's link leads to, below the folder."""
    content = take_stock("data", folder, names)
    send(session, content, functools.partial(progress.transfer, "provision", "files"))
    return JobLink(content=str(session.paths.content("data", content.sha) / linked), name=name)


def _look_into_store(name: str, source: FileSource) -> FoundFile:
    try:
        objects = list_objects(source.url or "")
    except ProvisionFailed as error:
        return FoundFile(
            name, source.written, None, None, None, through_home=True, problem=error.message, remedy=error.hint
        )
    return FoundFile(name, source.written, objects, objects.identity, objects.size_bytes, through_home=True)


def _fetch(session: HostSession, asker: _Asker, file: FoundFile, progress: Progress) -> str:
    source = file.source
    if source is None or isinstance(source, Objects):
        raise ProvisionFailed(f"{file.written} cannot be downloaded", hint=file.remedy)
    request = FetchSource(source=source, identity=file.identity, variables=asker.variables, token=asker.token)
    where = "" if session.host.local else f"on {session.host.name}: "
    answer = session.call(
        request,
        timeout_s=FETCH_S,
        on_progress=lambda message, fraction: progress.now("provision", where + message, fraction),
    )
    return answer.path


def _here(home: HomePaths) -> HostSession:
    return HostSession(Host(name=LOCAL, local=True), home)


def _asker(home: HomePaths, variables: Mapping[str, str], secrets: tuple[str, ...]) -> _Asker:
    way = {name: value for name, value in variables.items() if name.upper() in _WAY}
    return _Asker(home, way, os.environ.get("HF_TOKEN") or None if "HF_TOKEN" in secrets else None)


def _request(name: str, source: FileSource) -> Source:
    if source.host is not None:
        return HostSource(kind="host", path=source.host)
    if (hub := source.hub) is not None:
        return HubSource(kind="hub", collection=hub.collection, repo=hub.repo, revision=hub.revision, path=hub.path)
    request = WebSource(kind="web", url=source.url or "", name=PurePosixPath(name).name)
    return request if source.sha256 is None else request.model_copy(update={"sha256": source.sha256})


def _found(
    session: HostSession, name: str, written: str, source: Source, there: FoundSource, here: FoundSource | None
) -> FoundFile:
    through_home = here is not None and here.problem is None
    said = here if here is not None and through_home else there
    link = None
    if said.present and said.path is not None and source.kind == "host":
        link = JobLink(content=said.path, name=name, outside=True)
    elif said.present and said.path is not None and not through_home:
        link = _link(session, name, said.path)
    problem = sanitize_line(said.problem, 600) if said.problem is not None else None
    return FoundFile(
        name=name,
        written=written,
        source=source,
        identity=said.identity,
        size_bytes=said.size_bytes,
        link=link,
        through_home=through_home,
        problem=problem,
        remedy=_GATED if said.problem is not None and said.refused and source.kind == "hub" else None,
    )


def _link(session: HostSession, name: str, path: str) -> JobLink:
    """Return a link to the place that the host reports.

    Raises:
        ProvisionFailed: The place is not in its content store.
    """
    top = session.paths.root / "data"
    place = PurePosixPath(path)
    below = place.relative_to(top).parts if place.is_relative_to(top) else ()
    if not below or not _DIGEST.fullmatch(below[0]) or ".." in below:
        said = sanitize_line(path, 200)
        raise ProvisionFailed(
            f"the host put {name} at {said}, which is not in its content store", host=session.host.name
        )
    return JobLink(content=path, name=name)
