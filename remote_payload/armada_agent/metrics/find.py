"""Find files below a job's working folder, without following links and without reading all of a large folder at once."""

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
    """Searches repeatedly for files of several kinds. A longer pause follows a search that took long.

    Args:
        folder: The job's working folder.
        kinds: Path patterns below it, by kind: `*` and `?` do not match `/`, `**` does.
        clock: Monotonic seconds.

    Attributes:
        is_cut: Whether the last search stopped before it had seen everything.
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
        """Whether the folder is a link, whose target is not the job's."""
        return os.path.islink(self._folder)

    def refresh(self, at_once: bool = False) -> None:
        """Search again if the pause is over."""
        began = self._clock()
        if self._patterns and not self._is_moved and (at_once or began >= self._due):
            self._found = self._search()
            took = max(0.0, self._clock() - began)
            self._due = began + max(_SHORTEST_PAUSE_S, _PAUSES_TO_WORK * took)

    def find(self, kind: str) -> List[str]:
        """Return the paths of a kind's files relative to the folder: the 32 that changed last, the newest at the end."""
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
    """Return whether a path is a pattern."""
    return any(sign in path for sign in "*?[")


def is_below(path: str) -> bool:
    """Return whether a relative path stays below its folder."""
    return bool(path) and not os.path.isabs(path) and ".." not in path.split("/") and "\0" not in path


def matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern.

    Each `**` matches any number of folders. The time is proportional to the product of both lengths.
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
