"""Keep outputs at home that a sync must not replace: they go to `runs/<run_id>/replaced/<time>/` under their own names."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.regular_files import open_regular
from armada.sync.outputs.listing import END_AT, FOLDER, touched, touched_when_fetched
from armada.sync.outputs.long_logs import END, LOG
from armada.verdicts.replacing import Copies, may_replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from armada.sync.outputs.long_logs import Listed

REPLACED = "replaced"
ONLY_GROW = frozenset({LOG, "metrics.jsonl", "telemetry.jsonl", "events.jsonl", "samples.jsonl"})
_BLOCK_BYTES = 1 << 20


class Keeper:
    """Moves outputs of one run aside, all to one folder.

    Args:
        folder: The run's folder at home.
        index: What was fetched, as `read_index` returns it.

    Attributes:
        kept: The names of what was moved.
    """

    def __init__(self, folder: Path, index: Mapping[str, Sequence[float]]) -> None:
        self._folder = folder
        self._index = index
        self._aside: Path | None = None
        self._was_put_back = False
        self.kept: list[str] = []

    def before(self, item: Listed, came: Path) -> None:
        """Keep the output at home that what came is about to replace, if that is needed.

        Raises:
            OSError: It cannot be moved.
            ArmadaError: Something is in the place of the folder that keeps it.
        """
        here = self._folder / FOLDER / item.path
        if here.is_symlink() or (here.exists() and not here.is_file()):
            self.keep(item.path)  # a person's link, or a folder that the host replaced by a file
            return
        if not here.exists():
            return
        entry = self._index.get(item.path) or (0, 0.0)
        only_grows, continues = item.path in ONLY_GROW, _begins_with(came, here)
        self._was_put_back |= (only_grows and not continues) or self._is_shorter(item)
        seen = Copies(
            only_grows=only_grows,
            continues=continues,
            is_as_it_came=_is_same(touched_when_fetched(entry), touched(here)),
            is_newer=item.mtime > entry[1],
            is_beginning=not continues and _begins_with(here, came),
            was_put_back=self._was_put_back,
        )
        if not may_replace(seen):
            self.keep(item.path)

    def _is_shorter(self, item: Listed) -> bool:
        """Whether this is the end of a log that was longer when its end came last."""
        if item.path != END or END_AT not in self._index or END not in self._index:
            return False
        return item.offset + item.size_bytes < self._index[END_AT][0] + self._index[END][0]

    def drop_part(self, name: str, whole: str) -> None:
        """Delete an output whose bytes another one has; move it aside if that lacks them.

        Raises:
            OSError: It cannot be moved.
            ArmadaError: Something is in the place of the folder that keeps it.
        """
        outputs = self._folder / FOLDER
        if not outputs.joinpath(name).is_file() or _has(outputs / whole, outputs / name):
            outputs.joinpath(name).unlink(missing_ok=True)
        else:
            self.keep(name)

    def keep(self, name: str) -> None:
        """Move a file or a folder aside.

        Raises:
            OSError: It cannot be moved.
            ArmadaError: Something is in the place of the folder that keeps it.
        """
        if self._aside is None:
            self._aside = _new_folder(self._folder / REPLACED)
        target = self._aside / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.move(self._folder / FOLDER / name, target)  # it may be on another disk, through a link
        self.kept.append(name)


def _is_same(fetched: Sequence[float], now: Sequence[float]) -> bool:
    """Whether a file has the size and time that it was fetched with; of the same inode, also the time of its change.

    A copy of home has other inodes, and other times of their changes.
    """
    if list(fetched[:2]) != list(now[:2]) or len(now) < 4:
        return False
    return list(fetched[3:]) != list(now[3:]) or list(fetched) == list(now)


def _new_folder(above: Path) -> Path:
    try:
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        what = f"{above} is no folder, so what must not be replaced cannot be kept"
        raise ArmadaError(what, hint="move it away, then armada sync now") from None
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time()))
    names = itertools.chain([now], (f"{now}-{number}" for number in itertools.count(2)))
    folder = next(folder for name in names if not os.path.lexists(folder := above / name))
    folder.mkdir(mode=0o700)
    return folder


def _has(whole: Path, part: Path) -> bool:
    """Whether a file has all bytes of another, which is short, in one piece. What cannot be read has not."""
    try:
        with open_regular(part) as stream, open_regular(whole) as longer:
            wanted, held = stream.read(), b""
            if not wanted:
                return True
            while block := longer.read(max(_BLOCK_BYTES, len(wanted))):
                held += block
                if wanted in held:
                    return True
                held = held[len(held) - len(wanted) + 1 :] if len(held) >= len(wanted) else held
            return False
    except OSError:
        return False


def _begins_with(longer: Path, shorter: Path) -> bool:
    """Whether a file begins with all bytes of another. What cannot be read is no beginning."""
    try:
        with open_regular(longer) as one, open_regular(shorter) as other:
            while block := other.read(_BLOCK_BYTES):
                if one.read(len(block)) != block:
                    return False
    except OSError:
        return False
    return True
