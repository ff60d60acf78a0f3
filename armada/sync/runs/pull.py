"""Bring a run's checkpoints home now: one sync whose troubles are raised, for the command line."""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, UsageError
from armada.monitor.observe import observe
from armada.store import checkpoints, run_sync
from armada.sync.checkpoints.apply_retention import candidates
from armada.sync.checkpoints.manifest import NAME
from armada.sync.checkpoints.staging import PARTIAL, check_space, is_right, left_out, read_published
from armada.sync.checkpoints.verify import complete
from armada.sync.runs.sync_run import sync_run, sync_whole
from armada.sync.schedule.due import NOT_WANTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.transport.interface import TransferProgress

_DIGEST = re.compile("[0-9a-f]{16,64}")


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pull did: checkpoints published, bytes they hold, and how many were home before.

    `completed`: so many files came into a checkpoint that was home without them. `lacking`: it stays without some, and why.
    """

    published: tuple[Path, ...]
    size_bytes: int
    already: int
    completed: int = 0
    lacking: str | None = None


class _Progress:
    def __init__(self, tell: Callable[[str, TransferProgress], None]) -> None:
        self._tell = tell

    def transfer(self, what: str, seen: TransferProgress) -> None:
        self._tell(what, seen)

    def done(self, what: str) -> None:
        pass


def pull(
    database: Database,
    session: HostSession,
    home: HomePaths,
    run_id: str,
    *,
    progress: Callable[[str, TransferProgress], None],
    hashing: Callable[[int], None],
    only: Checkpoint | None = None,
) -> Pulled:
    """Bring home what the run's settings want, or one checkpoint, whole, whatever they want.

    Args:
        database: The store.
        session: With the run's host.
        home: Home's folders.
        run_id: Which run.
        progress: Told what is moving and how far it is.
        hashing: Told how many checkpoints the host has yet to hash, which is waited for.
        only: The one checkpoint.

    Raises:
        DiskFull: Something does not fit at home.
        SourceChanged: A file stays wrong after three fetches.
        ManifestRejected: A manifest breaks a rule.
        HostUnreachable: The link stayed down; what arrived stays in staging.
    """
    if only is not None:
        is_home = only.home_path is not None and only.home_path.is_dir()
        if only.home_path is not None and not is_home:
            checkpoints.mark_not_home(database, run_id, only.digest, None)  # a person deleted it, and wants it back
        checkpoints.pin(database, run_id, only.digest)  # or the next sync would delete what was just asked for
        if is_home:
            return _make_whole(database, session, home, only, progress)
    listener = _Progress(progress)
    if only is None:
        outcome = sync_whole(database, session, home, run_id, listener=listener, hashing=hashing)
    else:
        outcome = sync_run(database, session, home, run_id, listener=listener, insist=True, only=only.digest)
    if outcome.troubles:
        raise outcome.troubles[0].error
    return Pulled(outcome.published, outcome.size_bytes, outcome.already)


def pull_from_home(
    database: Database, run: Run, word: str | None, why: ArmadaError
) -> tuple[Pulled, Checkpoint | None]:
    """What a pull gives where the host cannot be asked: what is home is there, and nothing more comes.

    Args:
        database: The store.
        run: Which.
        word: The one checkpoint that was asked for; None for all.
        why: What keeps the host from being asked.

    Raises:
        NotFound: The one checkpoint is not at home.
        ArmadaError: `why`, where something may still lie on the host.
    """
    if word is None:
        known = checkpoints.of_run(database, run.run_id)
        home = [c for c in known if c.home_path is not None and c.home_path.is_dir()]
        left = [c for c in known if c not in home and c.nowhere is None and c.trouble != NOT_WANTED]
        if left or run.is_guess or not run.ended or not run_sync.find(database, run.run_id).final_done:
            raise why
        return Pulled((), 0, len(home)), None
    only = choose(database, None, run, word)
    if only.home_path is None or not only.home_path.is_dir():
        raise why
    checkpoints.pin(database, run.run_id, only.digest)
    lacking = why.message if left_out(only.home_path) else None
    return Pulled((), 0, 1, lacking=lacking), only


def _make_whole(
    database: Database,
    session: HostSession,
    home: HomePaths,
    checkpoint: Checkpoint,
    progress: Callable[[str, TransferProgress], None],
) -> Pulled:
    """Add what was left out of a checkpoint that is home; where it cannot be had any more, what is here is still good."""
    tell = functools.partial(progress, f"checkpoint-{checkpoint.step}")
    try:
        return Pulled((), 0, 1, completed=complete(database, session, home, checkpoint, tell))
    except (HostUnreachable, NotFound) as error:
        return Pulled((), 0, 1, lacking=f"{session.host.name}: {error.message}")


def choose(database: Database, session: HostSession | None, run: Run, word: str) -> Checkpoint:
    """Find the checkpoint that a person names: a step, `best`, `last`, or the beginning of its digest.

    Where the host does not answer, or there is no session with it, one that is home is found all the same.

    Raises:
        UsageError: The word is none of these.
        NotFound: There is no such checkpoint, here or there.
    """
    digest = _DIGEST.fullmatch(word) is not None
    if word not in ("best", "last") and not word.isdecimal() and not digest:
        raise UsageError(f"{word!r} is not a step, `best` or `last`", hint="--checkpoint 500")
    reached = session is not None
    if session is not None:
        try:
            observe(database, session, [run])
        except HostUnreachable:
            reached = False
    known = [c for c in checkpoints.of_run(database, run.run_id) if c.home_path is not None or (c.on_host and reached)]
    if word == "last":
        matching = known[-1:]
    elif word == "best":
        losses = {c.digest: c.loss for c in candidates(database, run.run_id, known) if c.loss is not None}
        matching = sorted((c for c in known if c.digest in losses), key=lambda c: losses[c.digest])[:1]
    elif digest:
        matching = [c for c in known if c.digest.startswith(word)][:1]
    else:
        matching = [c for c in known if c.step == int(word)][-1:]  # after a resume the later one of a step counts
    if not matching:
        steps = ", ".join(str(c.step) for c in known[-8:]) or "none"
        lacking = " with an evaluation loss" if word == "best" and known else ""
        why = "does not answer" if session is not None else "was not asked"
        where = "" if reached else f"; {run.host} {why}, so only the checkpoints at home were searched"
        raise NotFound(f"{run.run_id} has no checkpoint {word}{lacking}{where}", hint=f"known steps: {steps}")
    return matching[0]


def copy_to(checkpoint: Checkpoint, target: Path) -> Path:
    """Copy a checkpoint that is home to a new folder, to work with; each file is verified as it is copied.

    Raises:
        Conflict: The folder is there and holds something.
        ArmadaError: A file at home is damaged, or the folder cannot be written.
    """
    if checkpoint.home_path is None:
        raise NotFound(f"checkpoint-{checkpoint.step} did not come home")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise _taken(target)
    manifest, files = read_published(checkpoint.home_path, checkpoint.digest)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        check_space(part, f"a copy of checkpoint-{checkpoint.step}", sum(file.size for file in files))
        for file in files:
            place = part / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint.home_path / file.path, place)
            if not is_right(part, file):
                raise ArmadaError(
                    f"{checkpoint.home_path / file.path} is damaged", hint=f"armada sync verify {checkpoint.run_id}"
                )
        (part / NAME).write_text(manifest.text)
        if left_out(checkpoint.home_path):
            shutil.copyfile(checkpoint.home_path / PARTIAL, part / PARTIAL)
        part.replace(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(target) from error  # somebody made it while we copied
        raise ArmadaError(f"cannot copy to {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} exists already", hint="name a folder that does not exist")
