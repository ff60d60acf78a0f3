"""Find files below the folder that a job works in, without following links and without reading all of a large folder at once."""

import fnmatch
import os
import stat
import time
from typing import Callable, Dict, List, Sequence, Tuple

MOST_FILES = 32
_MOST_LOOKED_AT = 20000
_SHORTEST_PAUSE_S = 5.0
_PAUSES_TO_WORK = 50  # a search takes at most 2 % of the time
_IGNORED = frozenset(("__pycache__", ".git", ".venv", "node_modules"))


class Finder:
    """Looks for files of several kinds, again and again; a search that took long is followed by a longer pause.

    Args:
        folder: Where the job works.
        kinds: Paths below it by kind: `*` and `?` stay within a folder, `**` does not.
        clock: Seconds, never set back.

    Attributes:
        is_cut: Whether the last search ended before it had seen everything.
    """

    def __init__(
        self, folder: str, kinds: Dict[str, Sequence[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._plain = {
            kind: [path for path in paths if not is_pattern(path) and is_below(path)] for kind, paths in kinds.items()
        }
        self._patterns = [
            (kind, path.split("/"))
            for kind, paths in kinds.items()
            for path in paths
            if is_pattern(path) and is_below(path)
        ]
        self._clock = clock
        self._due = clock()
        self._found: Dict[str, List[str]] = {}
        self.is_cut = False

    @property
    def _is_moved(self) -> bool:
        """Whether the folder is a link: what is behind it is not the job's."""
        return os.path.islink(self._folder)

    def refresh(self, at_once: bool = False) -> None:
        """Search again if it is time."""
        began = self._clock()
        if self._patterns and not self._is_moved and (at_once or began >= self._due):
            self._found = self._search()
            took = max(0.0, self._clock() - began)
            self._due = began + max(_SHORTEST_PAUSE_S, _PAUSES_TO_WORK * took)

    def find(self, kind: str) -> List[str]:
        """Give the paths, relative to the folder, of the files of a kind: the 32 that changed last, the newest at the end."""
        if self._is_moved:
            return []
        return [path for path in self._plain.get(kind, ()) if self._changed_at(path)] + self._found.get(kind, [])

    def _search(self) -> Dict[str, List[str]]:
        dated: Dict[str, List[Tuple[float, str]]] = {}
        left = _MOST_LOOKED_AT
        for parent, folders, names in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if name not in _IGNORED)
            below = os.path.relpath(parent, self._folder)
            parts = [] if below == "." else below.split(os.sep)
            left -= len(names) + len(folders)
            for name in names:
                for kind in {kind for kind, pattern in self._patterns if matches(parts + [name], pattern)}:
                    path = "/".join(parts + [name])
                    dated.setdefault(kind, []).append((self._changed_at(path), path))
            if left < 0:
                break
        self.is_cut = left < 0
        return {kind: [path for moment, path in sorted(found)[-MOST_FILES:] if moment] for kind, found in dated.items()}

    def _changed_at(self, path: str) -> float:
        try:
            found = os.lstat(os.path.join(self._folder, path))
        except (OSError, ValueError):
            return 0.0
        return found.st_mtime if stat.S_ISREG(found.st_mode) else 0.0


def is_pattern(path: str) -> bool:
    """Tell whether a path stands for several."""
    return any(sign in path for sign in "*?[")


def is_below(path: str) -> bool:
    """Tell whether a path stays below the folder that it begins in."""
    return bool(path) and not os.path.isabs(path) and ".." not in path.split("/") and "\0" not in path


def matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether the parts of a path are those of a pattern.

    Each `**` is any number of folders. The time is the product of both lengths.
    """
    reached = {0}
    for part in path:
        reached = _skip_folders(reached, pattern)
        step = set()
        for place in reached:
            if place < len(pattern) and pattern[place] == "**":
                step.add(place)
            elif place < len(pattern) and fnmatch.fnmatchcase(part, pattern[place]):
                step.add(place + 1)
        reached = step
    return len(pattern) in _skip_folders(reached, pattern)


def _skip_folders(reached: "set[int]", pattern: Sequence[str]) -> "set[int]":
    found = set(reached)
    for place in sorted(reached):
        following = place
        while following < len(pattern) and pattern[following] == "**":
            following += 1
            found.add(following)
    return found
