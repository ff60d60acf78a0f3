"""The run's folder as the payload uses it, the rank of this process, and what the user permits it."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)  # slots need Python 3.10; scripts bring older ones
class RunFolder:
    """Paths in `<root>/runs/<run_id>/`, and this process's rank among the ranks of the attempt."""

    path: Path
    attempt: int = 1
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    restart_permit: str | None = None
    """Set if the user permits to start from the beginning where every checkpoint is damaged: a name for the permit."""
    accepts_changes: bool = False
    """Whether the user permits to continue although settings differ, as `resume.accept_changes` does for every attempt."""

    @classmethod
    def from_environment(cls, path: Path, environment: Mapping[str, str]) -> RunFolder:
        """Read the attempt from the supervisor's variables and the ranks from torchrun's.

        accelerate's launcher for one process does not set torchrun's variables: that is rank 0 of 1.
        """

        def number(name: str, default: int) -> int:
            return int(environment.get(name) or default)

        return cls(
            path=path,
            attempt=number("ARMADA_ATTEMPT", 1),
            rank=number("RANK", 0),
            local_rank=number("LOCAL_RANK", 0),
            world_size=number("WORLD_SIZE", 1),
            local_world_size=number("LOCAL_WORLD_SIZE", 1),
            restart_permit=_permit(environment.get("ARMADA_RESTART_IF_DAMAGED")),
            accepts_changes=_permit(environment.get("ARMADA_ACCEPT_CHANGES")) is not None,
        )

    @property
    def attempt_folder(self) -> Path:
        return self.path / "attempts" / str(self.attempt)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def outbox(self) -> Path:
        return self.path / "outbox"

    @property
    def model(self) -> Path:
        """The folder of a model created by this run, where later attempts find it."""
        return self.path / "model"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def samples(self) -> Path:
        return self.path / "samples.jsonl"

    @property
    def heartbeat(self) -> Path:
        return self.path / f"heartbeat-{self.rank}.json"

    @property
    def rank_among(self) -> int | None:
        """Which of several ranks this is; None if there is only one."""
        return self.rank if self.world_size > 1 else None

    @property
    def is_main(self) -> bool:
        return self.rank == 0


def _permit(given: str | None) -> str | None:
    """Return the number of the submission that permits something; anything else permits nothing."""
    return given if given is not None and given.isdecimal() else None


def replace_json(path: Path, content: Mapping[str, object]) -> None:
    """Replace a JSON file so that a reader sees the old or the new content, never a part of one."""
    part = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    part.write_text(json.dumps(content) + "\n", encoding="utf-8")
    try:
        part.replace(path)
    except IsADirectoryError:
        set_aside(path)
        part.replace(path)


def clear_place(path: Path) -> None:
    """Rename what lies in the place of a file that lines are appended to, and is none. The agent follows no link there."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        set_aside(path)


def set_aside(path: Path) -> None:
    """Rename what is not armada's, because a person may want it."""
    path.rename(path.with_name(f"{path.name}.set-aside-{uuid.uuid4().hex}"))


def remove(path: Path) -> None:
    """Delete a file or a folder, or a link without what it leads to; nothing happens if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
