"""What a sync says while it goes on, what it brought, and what it could not do."""

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
    """Why something did not come; `digest` is None where it is not about one checkpoint."""

    cause: Cause
    error: ArmadaError
    digest: str | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What one sync did.

    Attributes:
        published: Folders of the checkpoints that came, in order of step.
        size_bytes: What they hold.
        already: How many were home before.
        pending: Digests that are wanted and not home, those that are not to be tried yet among them.
        deleted_home: Folders that retention deleted here.
        deleted_host: Digests that retention deleted there.
        outputs: Logs and other files.
        troubles: What went wrong without ending the sync.
        left: More could be brought at once; it was not asked for.
        saw_end: The host was looked at after the run had ended, so that what is pending is all there will ever be.
        finishing: Checkpoints that the host still hashes, without their supervisor.
        missing: Why more may come of it; None: all of it is home.
        submission: The newest that home knew of before it looked.
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
    finishing: int = 0
    missing: str | None = "not checked yet"
    submission: int = 0

    @property
    def final(self) -> bool:
        """The run has ended and nothing of it is still to come."""
        return self.missing is None

    def then(self, later: SyncOutcome) -> SyncOutcome:
        """This sync and the one that went on with it, as one."""
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
