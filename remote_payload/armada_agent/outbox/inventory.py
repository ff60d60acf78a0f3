"""List the files of a checkpoint that a job wrote, with the files that its links lead to, as far as these are the run's own.

Trainers save links: `last.ckpt -> epoch=3.ckpt`, or a cache's `snapshots/x -> ../../blobs/y`. A link counts as the file
that it leads to, if that is a regular file below the run's work folder. A link to a folder there counts as its files.
Links to folders within that one do not: with `previous -> ../checkpoint-500`, each checkpoint would hold all before it.
"""

import hashlib
import os
import stat
from typing import Any, Dict, List, Optional, Tuple

from armada_agent.foundation import files
from armada_agent.outbox.listing import ANNOUNCEMENT, MANIFEST

INCOMPLETE = "checkpoint-is-incomplete.txt"
"""With this file transformers marks a checkpoint while it saves it."""

# Path below the checkpoint → (inode, size in bytes, time of the last change in ns).
Inventory = Dict[str, Tuple[int, int, int]]


class Survey:
    """What is below a path.

    Attributes:
        inventory: The regular files, and the links that lead to one; empty if the path no longer exists.
        links: Of these, the links, with the paths that they lead to.
        left_out: What else is there: devices, links that are not followed, and files with the name of armada's own.
        outside: Of these, the links to what is outside of the work folder.

    Args:
        path: A file, a folder, or a link to one.
        within: The folder that links may not leave.
    """

    def __init__(self, path: str, within: str) -> None:
        self.inventory: Inventory = {}
        self._changed_ns: Dict[str, int] = {}
        self.links: Dict[str, str] = {}
        self.left_out: List[str] = []
        self.outside: List[str] = []
        self._unseen: Optional[OSError] = None
        self._within = os.path.realpath(within)
        self._real = os.path.realpath(path)
        if os.path.isfile(path):
            self._note(os.path.basename(path), self._real)
        else:
            self._walk(self._real, "")

    @property
    def signature(self) -> str:
        """A hash of the files' names, inodes, sizes and times, and of where links lead: it changes when one of them does.

        It does not change when a file changes to which a link leads: each save may write that file again.
        """
        listed = sorted(
            (name, [os.path.relpath(self.links[name], self._within)] if name in self.links else list(facts))
            for name, facts in self.inventory.items()
        )  # type: List[Tuple[str, List[Any]]]
        return hashlib.sha256(files.encode(listed)).hexdigest()

    @property
    def is_marked(self) -> bool:
        """Whether the job says that it has not written all of it."""
        return INCOMPLETE in self.inventory

    @property
    def is_whole(self) -> bool:
        """Whether every file could be seen."""
        return self._unseen is None

    def whole(self) -> "Survey":
        """Return this survey, if every file could be seen.

        Raises:
            OSError: One could not.
        """
        if self._unseen is not None:
            raise self._unseen
        return self

    def last_own_change(self) -> float:
        """Return the unix time of the newest change of a file; of files that links lead to, only where there are no others."""
        own = [moment for name, moment in self._changed_ns.items() if name not in self.links]
        return max(own or self._changed_ns.values()) / 1e9

    def settled(self, before: float) -> Inventory:
        """Return the inventory without the links to files that changed after a moment, in unix time."""
        if len(self.links) == len(self.inventory):
            return self.inventory
        return {
            name: facts
            for name, facts in self.inventory.items()
            if name not in self.links or self._changed_ns[name] / 1e9 <= before
        }

    def _walk(self, folder: str, prefix: str) -> None:
        def note(error: OSError) -> None:
            """Count a folder that cannot be read as a file that cannot be: a checkpoint without it is not whole."""
            place = os.fsdecode(error.filename or folder)
            found = None if isinstance(error, (FileNotFoundError, NotADirectoryError)) else _folder_status(place)
            if found is not None:
                self._unseen = error
                relative = os.path.normpath(os.path.join(prefix, os.path.relpath(place, folder)))
                self.inventory[relative] = (found.st_ino, found.st_size, found.st_mtime_ns)
                self._changed_ns[relative] = changed_ns(found)

        for parent, folders, names in os.walk(folder, onerror=note):
            inner = os.path.join(prefix, os.path.relpath(parent, folder))
            for name in names:
                self._add(os.path.normpath(os.path.join(inner, name)), os.path.join(parent, name), bool(prefix))
            for name in folders:
                place = os.path.join(parent, name)
                if os.path.islink(place):
                    self._add_folder(os.path.normpath(os.path.join(inner, name)), place, is_first=not prefix)

    def _add(self, relative: str, place: str, is_behind_link: bool) -> None:
        is_link = os.path.islink(place)
        real = os.path.realpath(place) if is_link else place
        if self._note(relative, real):
            if is_link or is_behind_link:
                self.links[relative] = real
        elif os.path.lexists(place):
            self.left_out.append(relative)
            if is_link and leads_outside(place, self._within):
                self.outside.append(relative)
        if relative in (MANIFEST, ANNOUNCEMENT):
            self.left_out.append(relative)

    def _note(self, relative: str, real: str) -> bool:
        """Note a file of the checkpoint; return whether it is a regular file, and within the folder.

        One that cannot be seen now counts as a file that cannot be read: a checkpoint without it is not whole.
        """
        if not is_below(real, self._within):
            return False
        try:
            found = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._unseen = error
            self.inventory[relative] = (0, 0, 0)
            self._changed_ns[relative] = 0
            return True
        if not stat.S_ISREG(found.st_mode):
            return False
        self.inventory[relative] = (found.st_ino, found.st_size, found.st_mtime_ns)
        self._changed_ns[relative] = changed_ns(found)
        return True

    def _add_folder(self, relative: str, place: str, is_first: bool) -> None:
        real = os.path.realpath(place)
        if leads_outside(place, self._within):
            self.outside.append(relative)
        elif is_first and not is_below(self._real, real):
            self._walk(real, relative)
            return
        self.left_out.append(relative)


def is_part(now: Inventory, then: Optional[Inventory]) -> bool:
    """Return whether all that is here was there, unchanged; False if nothing is known of then."""
    return then is not None and all(tuple(then.get(name, ())) == tuple(facts) for name, facts in now.items())


def is_revised(now: Inventory, then: Optional[Inventory]) -> bool:
    """Return whether the largest file that is here was there, unchanged, under any name: what was learned is the same."""
    largest = max(now.values(), key=lambda facts: (facts[1], facts[0]))
    return then is not None and tuple(largest) in map(tuple, then.values())


def leads_outside(place: str, within: str) -> bool:
    """Return whether something is at a place, and is outside of a folder, which itself is no link."""
    return os.path.exists(place) and not is_below(os.path.realpath(place), within)


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it; both without links."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def last_change(inventory: Inventory) -> float:
    """Return the unix time of the newest file's date."""
    return max(moment for _, _, moment in inventory.values()) / 1e9


def changed_ns(found: os.stat_result) -> int:
    """Return when a file was last written or put there, in ns of unix time.

    `cp -a` and `rsync -a` give a file the date of its source, but not the time of the change of its inode. That time
    says nothing of a file with several names: taking a checkpoint gives each of its files one more.
    """
    return found.st_mtime_ns if found.st_nlink > 1 else max(found.st_mtime_ns, found.st_ctime_ns)


def is_facts(value: Any) -> bool:
    """Return whether a value of a record can be an entry of an inventory."""
    return isinstance(value, (list, tuple)) and len(value) == 3 and all(isinstance(each, int) for each in value)


def _folder_status(path: str) -> Optional[os.stat_result]:
    try:
        return os.lstat(path)
    except OSError:
        return None
