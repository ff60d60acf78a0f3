"""The result of a sync: what it fetched, and what failed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.sync.outputs.download import Outputs

if TYPE_CHECKING:
    from pathlib import Path

    from armada.errors import ArmadaError
    from armada.sync.causes import Cause


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something was not fetched; `digest` is None if it does not concern one checkpoint."""

    cause: Cause
    error: ArmadaError
    digest: str | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What one sync did.

    Attributes:
        published: Folders of the fetched checkpoints, ordered by step.
        size_bytes: Their total size.
        already: Number of checkpoints that were at home before.
        pending: Digests that are wanted and not at home, including those whose retry is not due yet.
        deleted_home: Folders that retention deleted at home.
        deleted_host: Digests that retention deleted on the host.
        outputs: Logs and other files.
        troubles: Problems that did not end the sync.
        left: More could be fetched at once, but was not requested.
        saw_end: The host was listed after the run had ended, so `pending` is everything there will ever be.
        lags: The host showed an earlier submission than was seen there shortly before, so its answer shows no end.
        finishing: Number of checkpoints that the host still hashes, without their supervisor.
        missing: Why more may come; None if everything is at home.
        submission: The newest submission that home knew of before it listed the host.
        on_host: Digests on the host from which `missing` was concluded.
        busy: Why the sync was put off, if another command works on the run's checkpoints.
        left_there: How many things the host has that no sync brings; None if it did not say.
    """

    run_id: str
    published: tuple[Path, ...] = ()
    size_bytes: int = 0
    already: int = 0
    pending: tuple[str, ...] = ()
    deleted_home: tuple[Path, ...] = ()
    deleted_host: tuple[str, ...] = ()
    outputs: Outputs = field(default_factory=Outputs)
    troubles: tuple[Trouble, ...] = ()
    left: bool = False
    saw_end: bool = False
    lags: bool = False
    finishing: int = 0
    missing: str | None = "not checked yet"
    submission: int = 0
    on_host: frozenset[str] = frozenset()
    busy: str | None = None
    left_there: int | None = None

    @property
    def final(self) -> bool:
        """Whether the run has ended and nothing of it is still to come."""
        return self.missing is None

    def then(self, later: SyncOutcome) -> SyncOutcome:
        """Combine this sync with the one that continued it."""
        known = {(trouble.cause, trouble.digest) for trouble in self.troubles}
        news = tuple(trouble for trouble in later.troubles if (trouble.cause, trouble.digest) not in known)
        return dataclasses.replace(
            later,
            published=later.published + self.published,  # the newest comes first
            size_bytes=self.size_bytes + later.size_bytes,
            already=self.already,
            deleted_home=self.deleted_home + later.deleted_home,
            deleted_host=self.deleted_host + later.deleted_host,
            outputs=self.outputs.then(later.outputs),
            troubles=self.troubles + news,
        )
