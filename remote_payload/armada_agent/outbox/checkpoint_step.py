"""Find the step of a checkpoint that a job did not announce: in the file itself, or in its name."""

import os
import re
from typing import Optional

from armada_agent.foundation import files

_NUMBER = re.compile(r"\d{1,12}")
_NAMED = re.compile(r"(?<![a-z])steps?[=_.-]?(\d{1,12})", re.IGNORECASE)
_VERSION = re.compile(r"(?:^|(?<=/))version_\d+/")  # Lightning's folder of one start of the program
_HEAD_BYTES = 4096
_METADATA = "meta.pt"  # in the folder that Lightning writes for a sharded model
# What torch.save writes: a zip archive whose first member is an uncompressed pickle, here of protocol 2.
_ARCHIVE = b"PK\x03\x04"
_LIGHTNING = b"pytorch-lightning_version"
_GLOBAL_STEP = re.compile(
    rb"X\x0b\x00\x00\x00global_step(?:q.|r.{4})?(?:K(?P<one>.)|M(?P<two>.{2})|J(?P<four>.{4}))", re.DOTALL
)


def find_step(work: str, path: str) -> Optional[int]:
    """Find the step of a checkpoint.

    Lightning's checkpoints contain it, whatever they are called (`last.ckpt`). Of a name, the number after `step`
    counts, otherwise its last number. A link whose name has none has the step of what it leads to.

    Args:
        work: The job's working folder.
        path: The checkpoint below it, a file or a folder.

    Returns:
        The step, or None where neither says one.
    """
    place = os.path.realpath(os.path.join(work, path))
    target = os.path.relpath(place, os.path.realpath(work))
    is_outside = target.split(os.sep)[0] == os.pardir
    said = None if is_outside else _read_step(os.path.join(place, _METADATA) if os.path.isdir(place) else place)
    named = named_step(path) if said is None else said
    return named_step(target) if named is None and not is_outside else named


def named_step(path: str) -> Optional[int]:
    """Return the step in the name of a checkpoint; None without a number."""
    named = _NAMED.findall(os.path.basename(path))
    numbers = named or _NUMBER.findall(_VERSION.sub("", path))
    return int(numbers[-1]) if numbers else None


def _read_step(path: str) -> Optional[int]:
    """Read the step at the beginning of a file that Lightning saved. Nothing of it is unpickled."""
    try:
        with files.open_regular(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except (OSError, ValueError):
        return None
    if not head.startswith(_ARCHIVE) or _LIGHTNING not in head:
        return None
    found = _GLOBAL_STEP.search(head)
    if found is None:
        return None
    step = int.from_bytes(found.group("one") or found.group("two") or found.group("four"), "little")
    return step if step < 1 << 31 else None
