"""The samples of runs at home: what a model answered to the same prompts after some steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.compare.report.samples import read_history
from armada.foundation.validation import mapping, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from armada.compare.report.samples import Sample
    from armada.paths import HomePaths

History = dict[str, dict[int, "Sample"]]
"""By prompt and step."""


def samples_file(home: HomePaths, run_id: str) -> Path:
    """Return the file with the samples of a run, as sync brings it home."""
    return home.run(run_id) / "outputs" / "samples.jsonl"


def stamp_of(path: Path) -> object:
    """Return what changes when a file does; None if it is not there."""
    try:
        stat = path.lstat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def why_none(spec: Mapping[str, Any], *, all_home: bool) -> str:
    """Say why there are no samples of a run at home.

    Args:
        spec: Its plan.
        all_home: It has ended, and everything of it was synced.
    """
    asked = whole(mapping(mapping(spec.get("experiment")).get("evaluation")).get("samples"))
    if not asked:
        return (
            "This run writes no samples: its experiment asks for none. `evaluation: {samples: 8}` in a training does."
        )
    if all_home:
        return "This run ended and wrote no samples."
    return "No samples of this run are at home yet. It writes them after each evaluation; y syncs it now."


class SampleBook:
    """Samples by run, read again when a file changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, History]] = {}

    def read(self, path: Path) -> History:
        """Return the samples in a file; empty if there is none."""
        stamp = stamp_of(path)
        if stamp is None:
            return {}
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = (stamp, read_history(path))
        return known[1]


def prompts_of(histories: Sequence[History]) -> list[str]:
    """Return the prompts, those of the first run first."""
    return list(dict.fromkeys(prompt for history in histories for prompt in history))


def steps_of(histories: Sequence[History], prompt: str) -> list[int]:
    """Return the steps after which a run answered, the newest first."""
    return sorted({step for history in histories for step in history.get(prompt, {})}, reverse=True)
