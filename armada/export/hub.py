"""Upload an export to the Hugging Face hub as one commit, and compare what the hub then has with what is at home.

The user's own huggingface_hub does the upload. It finds the token itself: in HF_TOKEN, or where `hf auth login` put it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, Conflict, HostUnreachable, OutcomeUnknown, UsageError
from armada.export.card import make_card
from armada.export.subject import CARD
from armada.foundation.extras import install_command
from armada.foundation.sanitize import sanitize_line
from armada.sync.checkpoints.new_folder import damaged
from armada.sync.checkpoints.proof import doubt
from armada.sync.transfer.staging import is_right

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from armada.export.subject import Subject
    from armada.foundation.progress import Progress
    from armada.store.database import Database

SCHEME = "hf://"
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_OF_THE_HUB = ".gitattributes"
"""The file that a new repository has."""


@dataclass(frozen=True, slots=True)
class _Hub:
    """The hub's client, and what its messages must not show."""

    api: Any
    library: Any
    repo: str
    token: str

    @property
    def url(self) -> str:
        return f"{self.api.endpoint}/{self.repo}"


@dataclass(frozen=True, slots=True)
class _File:
    """One file of an upload: its place at home, or its content; `sha256` is that of the manifest."""

    content: Path | bytes
    sha256: str

    def git_hash(self) -> str | None:
        """Return git's hash of the content; None if it does not have this SHA-256."""
        content = self.content if isinstance(self.content, bytes) else self.content.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.sha256:
            return None
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def parse_repo(word: str) -> str:
    """Return the repository of `hf://owner/name`.

    Raises:
        UsageError: It is not of this form.
    """
    repo = word.removeprefix(SCHEME).rstrip("/")
    if not _REPO.fullmatch(repo):
        raise UsageError(f"{word!r} is not a repository of the hub", hint="--to hf://owner/name")
    return repo


def upload(database: Database, subject: Subject, repo: str, *, public: bool, progress: Progress) -> str:
    """Upload an export to a new or empty repository.

    Args:
        database: The store; damage is recorded there.
        subject: The export.
        repo: `owner/name`; from `parse_repo`.
        public: Let everybody read it; otherwise only its owners.
        progress: Receives how far it is.

    Returns:
        The address of the repository.

    Raises:
        UsageError: huggingface_hub or a token is missing, or the hub refuses the token.
        Conflict: The repository has other files, or the other visibility.
        HostUnreachable: The hub does not answer; nothing was uploaded.
        OutcomeUnknown: The upload broke off.
        ArmadaError: A file at home is damaged, or the hub has other bytes than home.
    """
    hub = _open(repo)
    progress.now("export", f"asking {hub.api.endpoint} for {repo}")
    found = _ask(hub)
    _verify(database, subject, progress)
    wanted = {file.path: _File(subject.place / file.path, file.sha256) for file in subject.files}
    made = {**subject.rewritten, CARD: make_card(database, subject, repo).encode("utf-8", "replace")}
    wanted |= {name: _File(content, hashlib.sha256(content).hexdigest()) for name, content in made.items()}
    if found is not None:
        is_done = _has(found, wanted)  # an earlier upload, which may have broken off after the commit
        _check_repo(hub, found, public=public, is_done=is_done)
        if is_done:
            return hub.url
    if found is None:
        with _explained(hub, started=False):
            hub.api.create_repo(repo, private=not public)
        found = _ask(hub)
    progress.now("export", f"uploading to {hub.url}")
    with _explained(hub, started=True):
        hub.api.create_commit(
            repo,
            [
                hub.library.CommitOperationAdd(
                    path_in_repo=name,
                    path_or_fileobj=file.content if isinstance(file.content, bytes) else str(file.content),
                )
                for name, file in wanted.items()
            ],
            commit_message=f"checkpoint-{subject.checkpoint.step} of {subject.run.run_id}",
            parent_commit=getattr(found, "sha", None),  # another upload meanwhile is refused, not overwritten
        )
    if not _has(_ask(hub), wanted):
        raise ArmadaError(
            f"{hub.url} does not have the same bytes as home",
            hint=f"delete it there, then export again to {SCHEME}{repo}",
        )
    return hub.url


def _open(repo: str) -> _Hub:
    try:
        import huggingface_hub
        from huggingface_hub.utils import disable_progress_bars
        from huggingface_hub.utils import logging as hub_log
    except ImportError:
        raise UsageError("there is no huggingface_hub here to upload with", hint=install_command("hub")) from None
    hub_log.set_verbosity_error()
    if not sys.stderr.isatty():
        disable_progress_bars()
    token = huggingface_hub.get_token()
    if not token:
        raise UsageError(
            "there is no token for the hub", hint="export HF_TOKEN=…, or `hf auth login`; it needs the right to write"
        )
    return _Hub(huggingface_hub.HfApi(token=token), huggingface_hub, repo, token)


def _ask(hub: _Hub) -> Any:
    """Return what the hub has of a repository; None if it does not exist."""
    from huggingface_hub.errors import RepositoryNotFoundError

    with _explained(hub, started=False):
        try:
            return hub.api.model_info(hub.repo, files_metadata=True)
        except RepositoryNotFoundError as error:
            if _status(error) == 404:
                return None
            raise
    raise AssertionError("every error is explained")


def _check_repo(hub: _Hub, found: Any, *, public: bool, is_done: bool) -> None:
    """Refuse a repository that has other files, or that others can read unless this was asked for."""
    names = sorted(each.rfilename for each in found.siblings or () if each.rfilename != _OF_THE_HUB)
    if names and not is_done:
        raise Conflict(
            f"{hub.url} exists already and has other files ({sanitize_line(', '.join(names[:3]), 200)})",
            hint="name a repository that does not exist",
        )
    if bool(found.private) == public:
        now, asked = ("private", "with --public") if found.private else ("public", "without --public")
        raise Conflict(f"{hub.url} exists already and is {now}, and you export {asked}", hint="change it at the hub")


def _verify(database: Database, subject: Subject, progress: Progress) -> None:
    for number, file in enumerate(subject.files):
        progress.now("export", f"verifying {sanitize_line(file.path, 100)}", number / len(subject.files))
        if not is_right(subject.place, file):
            doubt(database, subject.checkpoint, file.path)
            raise damaged(subject.checkpoint, file.path)


def _has(found: Any, wanted: Mapping[str, _File]) -> bool:
    """Tell whether a repository has exactly these files, by the hashes that the hub computed."""
    listed = (found.siblings or ()) if found is not None else ()
    there = {each.rfilename: each for each in listed if each.rfilename != _OF_THE_HUB}
    return set(there) == set(wanted) and all(_is_same(there[name], file) for name, file in wanted.items())


def _is_same(there: Any, file: _File) -> bool:
    """Compare by SHA-256, or by git's own hash for a file that the hub keeps in git, which is small."""
    if there.lfs is not None:
        return bool(there.lfs.sha256 == file.sha256)
    return there.blob_id is not None and bool(there.blob_id == file.git_hash())


@contextlib.contextmanager
def _explained(hub: _Hub, *, started: bool) -> Iterator[None]:
    """Turn an error of the client into one of armada's; `started` says whether something may have been uploaded."""
    try:
        yield
    except Exception as error:  # those of huggingface_hub, httpx, requests and hf_xet, by version
        if isinstance(error, ArmadaError) or _is_of_this_machine(error):
            raise
        raise _explain(hub, error, started=started) from None


def _is_of_this_machine(error: Exception) -> bool:
    """Tell whether it is about a file here; the errors of the clients are classes of their own, some of them OSErrors too."""
    is_plain = type(error).__module__ == "builtins" and isinstance(error, OSError)
    return is_plain and not isinstance(error, ConnectionError | TimeoutError)


def _explain(hub: _Hub, error: Exception, *, started: bool) -> ArmadaError:
    status = _status(error)
    words = sanitize_line(str(error).replace(hub.token, "***") or type(error).__name__, 600)
    if status == 401:
        return UsageError(f"{hub.api.endpoint} refuses the token: {words}", hint="`hf auth login` makes a new one")
    if status == 403:
        owner = hub.repo.partition("/")[0]
        return UsageError(
            f"the token may not write to {hub.repo}: {words}", hint=f"it needs the right to write as {owner}"
        )
    if status in (409, 412):
        return Conflict(f"{hub.url} changed during the export: {words}", hint="name a repository that does not exist")
    if started:
        return OutcomeUnknown(f"the upload to {hub.url} broke off: {words}", hint="run the same command again")
    return HostUnreachable(f"{hub.api.endpoint} does not answer as a hub: {words}", hint="run the same command again")


def _status(error: Exception) -> int | None:
    code = getattr(getattr(error, "response", None), "status_code", None)
    return code if isinstance(code, int) else None
