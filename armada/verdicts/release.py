"""Decide what destroying a host would lose, run by run. Anything not seen counts as lost.

| of a run on the host                                           | lost                                                                |
|----------------------------------------------------------------|---------------------------------------------------------------------|
| it was listed, but is missing from a later answer              | yes: its file system may be away                                    |
| it was launched or resumed while the host was checked          | yes                                                                 |
| its job lives, may live, or may be started                     | yes                                                                 |
| its scheduler no longer lists its job: `gone`, a guess         | yes                                                                 |
| its records cannot be read                                     | yes: nobody knows whether its job lives                             |
| home does not know the run                                     | yes                                                                 |
| another home that registered for it has not fetched everything | yes                                                                 |
| a checkpoint: every byte was read at home, and none changed    | no                                                                  |
| … so, but without its optimizer state, and it is the newest    | yes, unless `include_optimizer` wants none                          |
| … it is damaged at home                                        | yes                                                                 |
| … it is not at home                                            | yes, unless `keep_home` does not want it and what it keeps is whole |
| … its manifest on the host cannot be read                      | yes, unless it is proven at home, or unwanted as above              |
| a checkpoint is announced but not finished                     | yes                                                                 |
| a checkpoint, or a link in one, leads out of its work folder   | yes, unless the user says that it does not count                    |
| a log or an output differs from the copy at home               | yes                                                                 |
| … its name is not valid at home, or it cannot be listed        | yes                                                                 |
| files that no `sync.outputs` pattern matches                   | yes, unless the user says that they do not count                    |
| … a checkpoint proven to be at home has the same bytes         | no                                                                  |
| … an output that is home as the host has it has the same bytes | no, if both were read now                                           |
| the middle of a log that is longer than `sync.log_limit`       | yes, unless the user says that it does not count                    |
| code with uncommitted changes                                  | no, but it is reported                                              |

| of a run that was there and is not seen                      | lost                                                        |
|--------------------------------------------------------------|-------------------------------------------------------------|
| processes of it live there                                   | yes                                                         |
| its root has another name: a file system may be away         | yes, unless all of it was at home and is still proven there |
| its folder was removed before a batch system's job had ended | yes: nobody knows whether the job still waits or runs       |
| … or reset to before that job was submitted                  | yes, for the same reason                                    |
| its folder was removed                                       | no                                                          |
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.units import amount, counted
from armada.verdicts.presence import AWAY_WORDS, UNKNOWN_WORDS, There
from armada.verdicts.proof import Proof
from armada.verdicts.state import of_newest_submission
from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.protocol.records import Evidence


class Life(enum.Enum):
    """What a host shows of a run's job."""

    NONE = "none"
    LIVES = "lives"
    """Also if it may live: its state is unknown."""
    ENDING = "ending"
    """It ended, and the host is completing its records."""
    MAY_BEGIN = "may begin"
    """Its launch or resume is claimed, as of a job in a queue, and nothing says that it was started or has ended."""
    GUESSED_GONE = "gone"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the verdict; `lost` says whether destroying the host would lose it."""

    run_id: str
    what: str
    lost: bool
    hint: str | None = None


def does_without(kept: Sequence[Proof]) -> bool:
    """Whether home still needs no copy of a checkpoint that `keep_home` excluded beside others.

    Where what it kept is damaged or gone, it may want this one again.

    Args:
        kept: What home has of each checkpoint of the run that it keeps.
    """
    return bool(kept) and all(proof is Proof.PROVEN for proof in kept)


@dataclass(frozen=True, slots=True)
class CheckpointThere:
    """A finished checkpoint on a host, and what home has of it.

    Attributes:
        step: Its training step; None if nobody knows it.
        size_bytes: Its total size; None if nobody knows it.
        here: What home has, judged by bytes that were read.
        unwanted: `keep_home` does not want it, and everything that home keeps of the run is proven.
        lacking: Home has it without its optimizer state, which the settings want of it.
        unreadable: Its folder, relative to the run's, if its manifest there cannot be read; else None.
    """

    step: int | None
    size_bytes: int | None
    here: Proof
    unwanted: bool = False
    lacking: bool = False
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class OtherHome:
    """Another home that registered for a run.

    Attributes:
        id: The home's id.
        named: Its name for people.
        seen_at: When it last sent anything about the run, unix time; None: never.
        missing: Number of checkpoints on the host that it has neither fetched nor given up.
        settled: Whether it has all of the run's logs and outputs.
    """

    id: str
    named: str
    seen_at: float | None
    missing: int
    settled: bool


@dataclass(frozen=True, slots=True)
class RunThere:
    """What was just seen of one run on a host.

    Attributes:
        run_id: The run.
        host: The host's name at home.
        known: Whether home's store has the run.
        life: Whether its job lives.
        others: The other homes that registered for it.
        checkpoints: The finished checkpoints there.
        announced: Number of checkpoints waiting to be finished.
        finishing: Number of these that are being hashed.
        outside: Checkpoints, and links in checkpoints, that lead out of the run's work folder: their number, some of
            their paths.
        stale: Logs and outputs that differ from the copies at home, as path and bytes.
        unnameable: Names that are not valid at home.
        log_left: Bytes of its log that `sync.log_limit` leaves there, and the length of the log.
        problem: Why its outputs cannot be listed.
        truncated: It has more outputs than can be listed.
        unnamed: Files that no `sync.outputs` pattern matches: their number, their bytes, some of their paths.
        dirty: Its code had uncommitted changes.
    """

    run_id: str
    host: str
    known: bool
    life: Life
    others: Sequence[OtherHome] = ()
    checkpoints: Sequence[CheckpointThere] = ()
    announced: int = 0
    finishing: int = 0
    outside: tuple[int, Sequence[str]] = (0, ())
    stale: Sequence[tuple[str, int]] = ()
    unnameable: Sequence[str] = ()
    log_left: tuple[int, int] = (0, 0)
    problem: str | None = None
    truncated: bool = False
    unnamed: tuple[int, int, Sequence[str]] = field(default=(0, 0, ()))
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class RunMissing:
    """What is known of a run that was submitted to a host and is not seen there now.

    Attributes:
        run_id: The run.
        there: What became of its folder.
        settled: Everything came home, and what the host had last is proven to be at home still.
        processes: Number of its processes seen there; None if the host does not say, and home knows of no end.
        queued: The command that ends its job by name, if a batch system may still have one; else None.
        left: How many things that no sync brings its host had when the last sync listed it; None if that is not known.
        shown: The submission that the host shows, an earlier one than was seen there; None if it shows none.
    """

    run_id: str
    there: There
    settled: bool
    processes: int | None
    queued: str | None
    left: int | None
    shown: int | None = None


def may_go(host: str, scheduler: str) -> str:
    """Say that nothing would be lost with a host. A cluster is not the user's to destroy."""
    if scheduler == "direct":
        return f"{host} can be destroyed: nothing would be lost"
    return f"{host}: everything is at home; nothing of yours is needed there"


def must_stay(host: str, scheduler: str, what: str) -> str:
    """Say that something would be lost with a host.

    Args:
        host: Its name.
        scheduler: `direct`, or its batch system.
        what: What would be lost.
    """
    if scheduler == "direct":
        return f"{host} must not be destroyed yet: {what} would be lost"
    return f"{host}: not everything is at home; {what} would be lost if you deleted your files there"


def judge_missing(seen: RunMissing, *, ignore_work: bool = False) -> list[Item]:
    """List what may be lost of a run that is not seen on its host.

    Args:
        seen: The evidence.
        ignore_work: As for `judge`.
    """
    if seen.processes:
        what = f"its folder is missing, but its job runs (processes: {seen.processes})"
        return [Item(seen.run_id, what, lost=True, hint=f"armada stop {seen.run_id}")]
    if seen.there is not There.REMOVED:
        return _of_away(seen, ignore_work=ignore_work)
    if seen.queued is not None:
        was = (
            "its folder there was removed"
            if seen.shown is None
            else f"only submission {seen.shown} of it is seen there"
        )
        what = f"{was}, but its scheduler may still have its job"
        return [
            Item(
                seen.run_id, what, lost=True, hint=f"{seen.queued}  # on the host; then armada rm {seen.run_id} --force"
            )
        ]
    if seen.processes is None:
        what = "its folder is missing, and its host does not say whether its job runs"
        return [Item(seen.run_id, what, lost=True, hint=f"armada stop {seen.run_id}")]
    return []


def _of_away(seen: RunMissing, *, ignore_work: bool) -> list[Item]:
    words, hint = AWAY_WORDS, "mount it, then run the command again"
    if seen.there is There.UNKNOWN:
        words, hint = UNKNOWN_WORDS, f"{hint}; or armada rm {seen.run_id} --force if its folder was removed"
    if not seen.settled:
        return [Item(seen.run_id, words, lost=True, hint=hint)]
    if seen.left == 0:
        return []
    left = "other files of it" if seen.left is None else counted(seen.left, "other file")
    what = f"{words}; what comes home of it is home, but {left} may be there only"
    return [Item(seen.run_id, what, lost=not ignore_work, hint=f"{hint}; or --ignore-work")]


def life_of(evidence: Evidence | None) -> Life:
    """Decide from a run's part of a `run.observe` answer whether its job lives."""
    if evidence is None:
        return Life.UNREADABLE
    # A value that is not a number proves nothing, so processes may live.
    if evidence.processes != 0:
        return Life.LIVES
    if evidence.lacks_end:
        return Life.ENDING
    newest = of_newest_submission(evidence)
    exit_ = newest.attempt.exit if newest.attempt is not None else None
    ended = any(each is not None and each.state in ENDED for each in (newest.state, exit_))
    if evidence.scheduler is not None and evidence.scheduler.state == "gone" and not ended:
        return Life.GUESSED_GONE
    if evidence.supervisor not in ("dead", "none"):
        return Life.LIVES
    # A resumed run that nothing has started yet may still start, although its previous submission has ended.
    waits = newest.submission is not None and newest.submission.claimed and newest.submission.job is None
    if not waits or ended:
        return Life.NONE
    return Life.LIVES if newest.state is not None and newest.state.state == "running" else Life.MAY_BEGIN


def was_stopped_and_forgotten(evidence: Evidence | None) -> bool:
    """Tell whether the user stopped the newest submission and its batch system no longer lists its job.

    No process records the end of such a run; a second stop does.
    """
    return evidence is not None and life_of(evidence) is Life.GUESSED_GONE and evidence.stop_wished


def unseen(run_id: str, host: str) -> Item:
    """Judge a run that the host listed and that is missing from a later answer."""
    what = "it was there a moment ago, but is missing now"
    return Item(run_id, what, lost=True, hint=f"armada hosts release {host}")


def unlisted(run_id: str, host: str) -> Item:
    """Judge a run that a host did not list among its runs, although it shows the run's folder, or cannot read it."""
    what = "its host did not list it a moment ago, and shows its folder now, or cannot read it"
    return Item(run_id, what, lost=True, hint=f"armada hosts release {host}")


def no_run(name: str) -> Item:
    """Judge what lies among the runs of a host and is none."""
    what = "lies among the runs there and is none: somebody renamed a run's folder, or put files there"
    return Item(name, what, lost=True, hint="give it its name back, or move it out of the folder of runs")


def may_be_renamed(run_id: str, name: str) -> Item:
    """Judge what lies among the runs of a host instead of a run's folder, with its id in its name."""
    what = (
        f"its folder is missing, and {sanitize_line(name, 100)} lies among the runs there: somebody may have renamed it"
    )
    return Item(run_id, what, lost=True, hint="give it its name back, or move it out of the folder of runs")


def put_there_meanwhile(run_id: str, host: str, came: str = "was launched or resumed") -> Item:
    """Judge a run that appeared on the host, or to which something came there, after the first listing."""
    what = f"it {came} while the host was checked"
    return Item(run_id, what, lost=True, hint=f"armada hosts release {host}")


def judge(seen: RunThere, *, ignore_work: bool = False) -> list[Item]:
    """List what would be lost of a run with its host, and what the user may want to know before.

    Args:
        seen: The evidence.
        ignore_work: The user said that files outside `sync.outputs`, and the middle of long logs, do not count.
    """
    return [
        *_of_life(seen),
        *_of_homes(seen),
        *(item for each in seen.checkpoints if (item := _of_checkpoint(seen, each))),
        *_of_announced(seen),
        *_of_outside(seen, ignore_work=ignore_work),
        *_of_outputs(seen),
        *_of_work(seen, ignore_work=ignore_work),
    ]


def _of_life(seen: RunThere) -> list[Item]:
    if seen.life is Life.GUESSED_GONE:
        what = "its scheduler no longer lists its job, and no end was recorded: it may still run"
        hint = f"armada stop {seen.run_id}, once you know that it does not"
        return [Item(seen.run_id, what, lost=True, hint=hint)]
    if seen.life is Life.UNREADABLE:
        what = "its records there cannot be read: it is unknown whether its job is alive"
        return [Item(seen.run_id, what, lost=True, hint=f"armada show {seen.run_id}")]
    if seen.life is Life.MAY_BEGIN:
        what = "nothing there says that its job has started or ended: it may still start"
        return [Item(seen.run_id, what, lost=True, hint=f"armada stop {seen.run_id}")]
    if seen.life is Life.ENDING:
        what = "its job ended, and its supervisor died before it recorded that: the host is completing its records"
        return [Item(seen.run_id, what, lost=True, hint=f"armada hosts release {seen.host}  # in a minute")]
    if seen.life is Life.LIVES:
        return [Item(seen.run_id, "its job is running", lost=True, hint=f"armada stop {seen.run_id}")]
    return []


def _of_homes(seen: RunThere) -> list[Item]:
    items = []
    if not seen.known:
        whose = " and ".join(home.named for home in seen.others) or "another home"
        what = f"{whose} started it, and this home has no record of it"
        items.append(Item(seen.run_id, what, lost=True, hint="ask its owner, or add it here: armada recover"))
    for home in seen.others:
        if home.settled and not home.missing:
            continue
        what = counted(home.missing, "checkpoint") if home.missing else "the end of its logs and outputs"
        last = f", last here on {time.strftime('%Y-%m-%d', time.localtime(home.seen_at))}" if home.seen_at else ""
        forget = f"armada hosts forget-home {seen.host} {home.id[:8]}"
        hint = f"sync there; or, if that home is gone or agrees: {forget}"
        items.append(Item(seen.run_id, f"{home.named}{last}, has not fetched {what}", lost=True, hint=hint))
    return items


def _of_checkpoint(seen: RunThere, each: CheckpointThere) -> Item | None:
    if each.unreadable is not None and (each.here is not Proof.PROVEN or each.lacking):
        return _of_unreadable(seen, each)
    if each.here is Proof.PROVEN:
        if not each.lacking:
            return None
        what = f"checkpoint-{each.step} is at home without its optimizer state, which a resume needs"
        return Item(seen.run_id, what, lost=True, hint=f"armada pull {seen.run_id} --checkpoint {each.step}")
    if each.here is Proof.DAMAGED:
        what = f"checkpoint-{each.step} is damaged at home: the only intact copy is there"
        return Item(seen.run_id, what, lost=True, hint=f"armada sync verify {seen.run_id} --read-data")
    size = "" if each.size_bytes is None else f" ({amount(each.size_bytes)})"
    what = f"checkpoint-{each.step}{size} is only there"
    what += "; sync.keep_home excludes it" if each.unwanted else ""
    hint = f"armada pull {seen.run_id} --checkpoint {each.step}"
    return Item(seen.run_id, what, lost=not each.unwanted, hint=hint)


def _of_unreadable(seen: RunThere, each: CheckpointThere) -> Item:
    named = "a checkpoint" if each.step is None else f"checkpoint-{each.step}"
    where = f"{each.unreadable}/MANIFEST.json"
    told = {
        Proof.PROVEN: "at home without its optimizer state, which cannot be fetched",
        Proof.DAMAGED: "damaged at home, and cannot be fetched again",
    }.get(each.here, "only there, and cannot be fetched")
    what = f"{named} is {told}: {where} there cannot be read"
    what += "; sync.keep_home excludes it" if each.unwanted else ""
    hint = "make it readable on the host, or copy the folder yourself"
    return Item(seen.run_id, what, lost=not each.unwanted, hint=hint)


def _of_announced(seen: RunThere) -> list[Item]:
    if not seen.announced:
        return []
    named = counted(seen.announced, "checkpoint")
    if seen.finishing >= seen.announced or seen.life is not Life.NONE:
        what, hint = f"{named} announced and still being hashed", "check again later"
    else:
        what = f"{named} announced that cannot be hashed"
        hint = "its supervisor.log on the host says why; copy it yourself"
    return [Item(seen.run_id, what, lost=True, hint=hint)]


def _of_outside(seen: RunThere, *, ignore_work: bool) -> list[Item]:
    count, examples = seen.outside
    if not count:
        return []
    hint = "copy what you need, then --ignore-work"
    return [Item(seen.run_id, outside_words(count, examples), lost=not ignore_work, hint=hint)]


def outside_words(count: int, examples: Sequence[str]) -> str:
    """Say that checkpoints, or links in them, lead to where armada does not follow."""
    named = ", ".join(sanitize_line(path, 60) for path in examples[:3])
    lead = "leads" if count == 1 else "lead"
    return (
        f"of its checkpoints, {counted(count, 'link')} {lead} out of its work folder, and so did not come home: {named}"
    )


def _of_outputs(seen: RunThere) -> list[Item]:
    items = []
    if seen.stale:
        named = ", ".join(sanitize_line(path, 60) for path, _ in seen.stale[:3])
        size = amount(sum(size_bytes for _, size_bytes in seen.stale))
        what = f"not home of its logs and outputs: {counted(len(seen.stale), 'file')} ({size}): {named}"
        items.append(Item(seen.run_id, what, lost=True, hint=f"armada sync now {seen.run_id}"))
    if seen.unnameable:
        example = sanitize_line(ascii(seen.unnameable[0]), 60)
        what = f"file names that cannot be transferred: {counted(len(seen.unnameable), 'output')}, such as {example}"
        items.append(Item(seen.run_id, what, lost=True, hint="rename them on the host"))
    if seen.problem is not None:
        items.append(Item(seen.run_id, f"its files there cannot be listed: {sanitize_line(seen.problem)}", lost=True))
    elif seen.truncated:
        what = "it has more outputs than can be listed, or folders that let nobody in"
        items.append(Item(seen.run_id, what, lost=True, hint="copy them yourself"))
    return items


def _of_work(seen: RunThere, *, ignore_work: bool) -> list[Item]:
    items = []
    count, size_bytes, examples = seen.unnamed
    if count:
        named = ", ".join(sanitize_line(path, 60) for path in examples[:3])
        what = f"{counted(count, 'file')} it wrote ({amount(size_bytes)}), that no sync.outputs names: {named}"
        hint = "copy what you need, then --ignore-work"
        items.append(Item(seen.run_id, what, lost=not ignore_work, hint=hint))
    left_bytes, log_bytes = seen.log_left
    if left_bytes:
        what = f"{amount(left_bytes)} in the middle of its log of {amount(log_bytes)} are only there (sync.log_limit)"
        hint = f"armada logs {seen.run_id} --from 0 > FILE, if you need them; then --ignore-work"
        items.append(Item(seen.run_id, what, lost=not ignore_work, hint=hint))
    if seen.dirty:
        what = "its code had uncommitted changes; the snapshot that ran is only on the host"
        items.append(Item(seen.run_id, what, lost=False, hint="commit them if you want to keep them"))
    return items
