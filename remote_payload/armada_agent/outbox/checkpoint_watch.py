"""Find checkpoints of jobs that do not announce them, by a pattern, once they have not changed for a while.

They are hard-linked into the outbox, where a cleanup by the job does not delete them. Links of the job count as the
files that they lead to, within the run's work folder (`inventory.py`). A job that overwrites its last
checkpoint in place overwrites the linked bytes, too. The watch detects that, withdraws the damaged copy, and from then
on copies instead of linking.
"""

import errno
import glob
import os
import shutil
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from armada_agent.errors import is_disk_full
from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.outbox.checkpoint_step import find_step
from armada_agent.outbox.inventory import (
    Inventory,
    Survey,
    is_below,
    is_part,
    is_revised,
    last_change,
    leads_outside,
)
from armada_agent.outbox.listing import ANNOUNCEMENT, MANIFEST
from armada_agent.outbox.overwriting import find_changed, was_cut, was_only_touched
from armada_agent.outbox.quiet import Sightings, why_left
from armada_agent.outbox.settling import settling, silent_since
from armada_agent.outbox.watch_record import place_behind, read_record
from armada_agent.paths import ANNOUNCED, RunPaths, list_folder, newest
from armada_agent.records.journal import Journal
from armada_agent.records.place import is_readable, require_seen

_REMEMBERED = 50
_SHOWN = 5
_MOST_ORIGINS = 5000
_MOST_OUTSIDE = 1000
_OUTSIDE = "outside"
_PATIENCE = 10  # as many quiet times a checkpoint waits for files that its links lead to


class CheckpointWatch:
    """Watches for one run's checkpoints.

    Args:
        paths: The run's files.
        settings: `pattern`, relative to the job's working folder, and `quiet_s`.
        journal: Records what was left out, and why.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        paths: RunPaths,
        settings: Dict[str, Any],
        journal: Journal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._pattern = str(settings["pattern"])
        self._quiet_s = float(settings["quiet_s"])
        self._journal = journal
        self._clock = clock
        self._sightings = Sightings()
        self._outside: List[str] = []
        self._ended: Optional[Tuple[float, float]] = None
        self._record = read_record(paths)

    @property
    def last_step(self) -> Optional[int]:
        """The highest step taken so far."""
        return max((entry["step"] for entry in self._record["taken"]), default=None)

    def begin(self, tick: Callable[[], None] = lambda: None) -> None:
        """Process existing files before a job starts, because the job may delete them.

        Files that came with the code are not checkpoints of this run. A checkpoint of an earlier attempt is taken if it
        had not changed for a while when that attempt was last seen alive. Otherwise that attempt may have been writing
        it: it is kept aside and not taken.

        Args:
            tick: Called again and again while another process settles what an earlier attempt left (`orphans.py`).
        """
        with settling(self._paths, tick):
            self._record = read_record(self._paths)
            self._begin()

    def _begin(self) -> None:
        silent_at = silent_since(self._paths)
        found = self._find()
        if silent_at is None:
            self._record["left"].update({path: survey.signature for path, survey in found})
            self._record["came"] = dict(self._record["left"])
            self._record["came"].update(dict.fromkeys(self._outside, _OUTSIDE))
            self._save()
            return
        self._withdraw_spoilt(dict(found))
        self._retry_failed(found)
        whole = {path for path, _ in self._settled(found, silent_at)}
        for path, survey in found:
            signature = survey.signature
            if self._taken(path, survey) or self._record["came"].get(path) == signature:
                continue
            if path in whole:
                self._take_last(path, survey, silent_at - self._quiet_s)
            else:
                self._record["left"][path] = signature
                self._keep_aside(path, survey.inventory)
        self._save()
        self._drop_superseded()

    def left_behind(self, silent_at: float) -> List[str]:
        """List the checkpoints of a job that is gone that nobody has taken, and that were whole when it fell silent.

        Args:
            silent_at: When the job was last seen alive, unix time.
        """
        return [path for path, _ in self._settled(self._find(), silent_at)]

    def take_left_behind(self, silent_at: Optional[float]) -> None:
        """Take these checkpoints. One that cannot be read is left.

        Args:
            silent_at: When the job was last seen alive, unix time; None if the end of its run was recorded: then only
                those are tried again that could not be taken before.

        Raises:
            OSError: The disk is full, or cannot be reached.
        """
        found = self._find()
        self._note_outside()
        self._withdraw_spoilt(dict(found))
        self._retry_failed(found)
        if silent_at is not None:
            for path, survey in self._settled(found, silent_at):
                self._take_last(path, survey, silent_at - self._quiet_s)

    def _retry_failed(self, found: List[Tuple[str, Survey]]) -> None:
        for path, survey in found:
            signature, since = self._record["failed"].get(path, (None, None))
            if signature in ("", survey.signature):  # it is empty where a file could not be seen then
                self._take_last(path, survey, since)
            elif signature is not None:
                self._journal.record("finding", message="%s has changed since and is not taken" % path)
                self._record["failed"].pop(path)
                self._save()

    def _take_last(self, path: str, survey: Survey, since: Optional[float]) -> None:
        """Take a checkpoint of a job that is gone. One that cannot be read holds up no other: it is noted, and counts as left behind.

        Args:
            path: The checkpoint.
            survey: Its files.
            since: Links to files that changed later are left out, unix time; None takes all.

        Raises:
            OSError: The disk is full, or cannot be reached.
        """
        try:
            self._take(path, survey, survey.inventory if since is None else survey.settled(since))
        except OSError as error:
            if is_disk_full(error) or not is_readable(self._paths):
                raise
            known = [survey.signature if survey.is_whole else "", since]
            if self._record["failed"].get(path) != known:
                self._journal.record("finding", message="%s cannot be taken: %s" % (path, error))
            self._record["failed"][path] = known
            self._record["left"][path] = survey.signature
            self._save()

    def _settled(self, found: List[Tuple[str, Survey]], silent_at: float) -> List[Tuple[str, Survey]]:
        """Return the new checkpoints that had not changed for a while when their job was last seen alive."""
        return [
            (path, survey)
            for path, survey in found
            if self._is_new(path, survey)
            and not survey.is_marked
            and self._record["came"].get(path) != survey.signature
            and survey.last_own_change() + self._quiet_s <= silent_at
        ]

    def note_end(self, at: Optional[float] = None) -> None:
        """Note the job's end. What does not change afterwards says nothing: it may be half.

        Args:
            at: When it was last seen alive, unix time by the file system's clock; by default now.
        """
        self._ended = (self._now() if at is None else at, self._clock())

    def _now(self) -> float:
        return files.time_beside(self._paths.checkpoint_watch_lock)

    def look(self) -> None:
        """Take checkpoints that have not changed for long enough; withdraw those that the job overwrote."""
        now = self._ended[1] if self._ended else self._clock()
        found = self._find()
        self._note_outside()
        self._withdraw_spoilt(dict(found))
        seen = self._sightings.note(found, now)
        for path, survey in found:
            is_whole = now - seen[path].since >= self._quiet_s
            is_late = now - seen[path].own_since >= _PATIENCE * self._quiet_s
            if survey.is_marked or not self._is_new(path, survey) or not (is_whole or is_late):
                continue
            try:
                self._take(path, survey, survey.inventory if is_whole else survey.settled(self._quiet_since()))
            except OSError as error:
                if is_disk_full(error) or not is_readable(self._paths):
                    raise
                say("%s cannot be taken yet: %s" % (path, error))  # it holds up no other

    def _quiet_since(self) -> float:
        """Return since when files must not have changed, unix time by the file system's clock."""
        return (self._ended[0] if self._ended else self._now()) - self._quiet_s

    def finish(self, is_trusted: bool) -> None:
        """Take whole checkpoints after every process of the job has ended.

        Args:
            is_trusted: The job ended well on its own, so everything that it wrote is complete. Otherwise it may have
                died while it wrote a checkpoint, and only checkpoints that had not changed for a while then count.

        Raises:
            OSError: The disk is full, or cannot be reached. What was taken until then is kept: call it again.
        """
        self.look()
        quiet_since = self._quiet_since()
        ended = self._ended[1] if self._ended else self._clock()
        for path, survey in self._find():
            signature = survey.signature
            if not self._is_new(path, survey):
                continue
            by_date = survey.last_own_change() <= quiet_since
            is_quiet = is_trusted or self._sightings.was_quiet(path, ended, self._quiet_s, by_date)
            if is_quiet and not survey.is_marked:
                self._take_last(path, survey, None if is_trusted else quiet_since)
            else:
                self._journal.record("finding", message=why_left(path, survey, self._quiet_s))
                self._record["left"][path] = signature
        self._save()

    def origin(self, identity: str, attempt: int, moment: float) -> Tuple[int, float]:
        """Return the attempt and the unix time of the first occurrence of a checkpoint; the arguments if it is new.

        A resumed job may write an earlier checkpoint again. Same step and same bytes mean the same checkpoint. Another
        attempt number would change its manifest and so its name, and home would fetch it a second time.
        """
        known = self._record["origins"].get(identity)
        if known is None:
            known = [attempt, moment]
            self._record["origins"][identity] = known
            for oldest in list(self._record["origins"])[:-_MOST_ORIGINS]:
                del self._record["origins"][oldest]
            self._save()
        return known[0], known[1]

    def note_published(self, folder: str, digest: str) -> None:
        """Remember the digest under which a checkpoint lies in the outbox."""
        taken = [entry for entry in self._record["taken"] if entry["folder"] == os.path.basename(folder)]
        if not taken:
            return
        for entry in taken:
            entry["digest"] = digest
            if not self._is_linked(entry):
                entry["inventory"] = (
                    None  # the outbox already had it from before: the job's own copy can change without harm
                )
        self._record["taken"] = [
            entry for entry in self._record["taken"] if entry in taken or entry["digest"] != digest
        ]
        self._save()

    def _is_linked(self, entry: Dict[str, Any]) -> bool:
        """Return whether the checkpoint in the outbox consists of hard links to the job's files."""
        folder = self._paths.checkpoint(entry["digest"]).rstrip("/")
        there = Survey(folder, folder).inventory
        return all(name in there and there[name][0] == facts[0] for name, facts in (entry["inventory"] or {}).items())

    def _find(self) -> List[Tuple[str, Survey]]:
        """List the matching checkpoints and their files, oldest first. Empty folders do not count.

        Of several names of one checkpoint, such as `best -> step-500`, the link does not count.

        Raises:
            OSError: The work folder cannot be read. That is not said of one that is missing.
        """
        require_seen(self._paths, self._paths.work)
        root = os.path.realpath(self._paths.work)
        matches = [name.rstrip("/") for name in glob.glob(os.path.join(glob.escape(self._paths.work), self._pattern))]
        places = {os.path.realpath(match) for match in matches if not os.path.islink(match)}
        found = []
        outside = []
        for match in matches:
            path = os.path.relpath(match, self._paths.work)
            real = os.path.realpath(match)
            if not real.startswith(root + os.sep):
                outside += [path] if leads_outside(match, root) else []
                continue
            if os.path.islink(match) and real in places:
                continue
            survey = Survey(match, root)
            outside += [os.path.join(path, name) for name in survey.outside]
            if survey.inventory:
                found.append((path, survey))
        self._outside = outside
        require_seen(self._paths, self._paths.work)
        return sorted(found, key=lambda pair: (last_change(pair[1].inventory), pair[0]))

    def _note_outside(self) -> None:
        """Record checkpoints, and links in checkpoints, that lead out of the run's work folder: nothing of these is taken."""
        known = self._record["outside"]
        new = [path for path in self._outside if path not in known and self._record["came"].get(path) != _OUTSIDE]
        if not new or len(known) >= _MOST_OUTSIDE:
            return
        self._record["outside"] = (known + new)[:_MOST_OUTSIDE]
        self._save()
        message = "checkpoints, or links in them, that lead out of the run's work folder are not taken: %s"
        self._journal.record("finding", message=message % _shown(new))

    def _is_new(self, path: str, survey: Survey) -> bool:
        return self._record["left"].get(path) != survey.signature and not self._taken(path, survey)

    def _taken(self, path: str, survey: Survey) -> bool:
        """Return whether a checkpoint was taken, also if some of its files were deleted since: that makes it no other one."""
        signature = survey.signature
        return any(
            entry["signature"] == signature or is_part(survey.inventory, entry["seen"])
            for entry in self._record["taken"]
            if entry["path"] == path
        )

    def _take(self, path: str, survey: Survey, inventory: Inventory) -> None:
        source = os.path.join(self._paths.work, path)
        signature = survey.whole().signature
        step = find_step(self._paths.work, path)
        if step is None:
            step = 1 if self.last_step is None else self.last_step + 1
        name = self._free_name(step)
        part = os.path.join(self._paths.outbox, ".part-" + name)
        shutil.rmtree(part, ignore_errors=True)  # of a supervisor that was killed while it linked
        try:
            is_copied = self._put(source, inventory, part)
            after = Survey(source, self._paths.work).whole()
            if after.signature != signature or any(after.inventory.get(name) != inventory[name] for name in inventory):
                shutil.rmtree(part)
                return  # it is still changing
            moment = last_change(inventory)
            size = sum(facts[1] for name, facts in inventory.items() if name not in (ANNOUNCEMENT, MANIFEST))
            announcement = {"step": step, "kind": "periodic", "time": moment, "metrics": {}, "size_bytes": size}
            files.write_json(os.path.join(part, ANNOUNCEMENT), announcement)
            folder = ANNOUNCED + name
            os.rename(part, os.path.join(self._paths.outbox, folder))
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)  # half a copy would keep a full disk full
            if isinstance(error, FileNotFoundError):
                return  # the job has just deleted it
            raise
        entry = {
            "path": path,
            "signature": signature,
            "step": step,
            "folder": folder,
            "digest": None,
            "is_file": os.path.isfile(source),
            "inventory": None if is_copied else inventory,
            "seen": inventory,
        }
        # One that got a file or another name later is as old as it was: a script goes on from what it saved last.
        own = {name: facts for name, facts in inventory.items() if name not in survey.links} or inventory
        former = [each for each in self._record["taken"] if is_revised(own, each["seen"])]
        self._record["count"] += 1
        self._record["taken"] = [
            earlier
            for number, earlier in enumerate(reversed(self._record["taken"]))
            if number < _REMEMBERED - 1 or os.path.lexists(os.path.join(self._paths.work, earlier["path"]))
        ][::-1]  # entries whose files still exist must stay, or they would be taken again
        self._record["taken"].insert(place_behind(self._record["taken"], former), entry)
        self._record["left"].pop(path, None)
        self._record["failed"].pop(path, None)
        self._save()
        left_out = sorted(survey.left_out + [name for name in survey.inventory if name not in inventory])
        if left_out:
            message = (
                "%s comes home without %s: armada takes regular files of the run's work folder that do not change, "
            )
            message += "and writes its own %s"
            self._journal.record("finding", message=message % (path, _shown(left_out), MANIFEST))

    def _free_name(self, step: int) -> str:
        """Return a name for a new checkpoint. It contains the attempt, because an earlier one may still run on a node believed dead.

        The name is also different from folders that a killed supervisor created but did not record.
        """
        attempt, number = newest(self._paths.attempts()) or 0, self._record["count"] + 1
        while os.path.lexists(os.path.join(self._paths.outbox, ANNOUNCED + "%d-%d-%d" % (step, attempt, number))):
            number += 1
        return "%d-%d-%d" % (step, attempt, number)

    def _put(self, source: str, inventory: Inventory, part: str) -> bool:
        """Hard-link the files, or copy them where necessary. Return whether any file was copied."""
        is_copied = False
        os.makedirs(part, mode=0o700)
        for relative in inventory:
            origin = self._content(source, relative)
            target = os.path.join(part, relative)
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            if not self._record["copies"]:
                try:
                    os.link(origin, target)
                    continue
                except FileNotFoundError:
                    raise
                except OSError as error:
                    say(
                        "%s cannot be linked, so it is copied: %s" % (relative, error)
                    )  # another file system, or another owner
            shutil.copy2(origin, target)
            is_copied = True
        return is_copied

    def _content(self, source: str, relative: str) -> str:
        """Return the path of a file's content, behind all links.

        Raises:
            FileNotFoundError: The job has just made it lead out of the work folder.
        """
        origin = os.path.realpath(os.path.join(source, relative) if os.path.isdir(source) else source)
        if not is_below(origin, os.path.realpath(self._paths.work)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), origin)
        return origin

    def _withdraw_spoilt(self, found: Dict[str, Survey]) -> None:
        for entry in self._record["taken"]:
            survey, then = found.get(entry["path"]), entry["inventory"]
            if survey is None or not then or not find_changed(then, survey.inventory):
                continue
            if was_only_touched(self._paths, entry, survey):
                self._save()
                continue
            entry["inventory"] = None
            entry["signature"] = ""  # that of a checkpoint whose links lead to the changed file is still the same
            names = [entry["folder"]] + ([entry["digest"]] if entry["digest"] else [])
            for name in names:
                shutil.rmtree(os.path.join(self._paths.outbox, name), ignore_errors=True)
            if was_cut(then, survey.inventory):
                self._record["left"][entry["path"]] = survey.signature
                message = "%s is shorter than when it was taken, as after a power cut: it does not count any more"
            else:
                self._record["copies"] = True
                message = "the job overwrote %s in place, so its earlier link is withdrawn; from now on it is copied"
            self._journal.record("finding", message=message % entry["path"])
            self._save()

    def _keep_aside(self, path: str, inventory: Inventory) -> None:
        """Link a checkpoint that may be incomplete to a folder that no job deletes. Links need no space while the job keeps the files."""
        aside = os.path.join(self._paths.left, "before-attempt-%d" % (newest(self._paths.attempts()) or 1), path)
        source = os.path.join(self._paths.work, path)
        try:
            for name in inventory:
                target = os.path.join(aside, name)
                os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
                os.link(self._content(source, name), target)
        except OSError as error:
            self._journal.record("finding", message="%s may be incomplete, and cannot be copied: %s" % (path, error))
            return
        message = "%s may be incomplete: it says so, or changed shortly before the earlier attempt ended. It is kept in %s, but not used"
        self._journal.record("finding", message=message % (path, os.path.relpath(aside, self._paths.folder)))

    def _drop_superseded(self) -> None:
        """Delete checkpoints kept aside whose step is lower than that of a whole checkpoint."""
        last = self.last_step
        for name in list_folder(self._paths.left):
            folder = os.path.join(self._paths.left, name)
            for match in glob.glob(os.path.join(glob.escape(folder), self._pattern)):
                step = find_step(folder, os.path.relpath(match, folder))
                if last is not None and step is not None and step < last:
                    shutil.rmtree(match, ignore_errors=True)

    def _save(self) -> None:
        try:
            files.write_json(self._paths.checkpoint_watch, self._record)
        except OSError as error:
            say("%s cannot be written: %s" % (os.path.basename(self._paths.checkpoint_watch), error))


def open_watch(paths: RunPaths, spec: Dict[str, Any], journal: Journal) -> Optional[CheckpointWatch]:
    """Open the watch over a run's checkpoints; None if its job announces them, or has none."""
    settings = (spec.get("watch") or {}).get("checkpoints")
    return CheckpointWatch(paths, settings, journal) if settings else None


def _shown(names: List[str]) -> str:
    more = " and %d more" % (len(names) - _SHOWN) if names[_SHOWN:] else ""
    return ", ".join(names[:_SHOWN]) + more
