"""Find a run's offline W&B folders at home, and upload them with home's own `wandb` program."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import OutcomeUnknown, UsageError
from armada.foundation.extras import install_command
from armada.foundation.sanitize import sanitize_line
from armada.sync.outputs.listing import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.paths import HomePaths

_OFFLINE = re.compile(r"offline-run-\d{8}_\d{6}-[A-Za-z0-9_.-]+")
_SHOWN_LINES = 8
_NO_KEY = re.compile(r"no api key|api key not configured|not logged in|WANDB_API_KEY", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OfflineRun:
    """One attempt's records; `uploaded` if their current content was uploaded."""

    folder: Path
    records: Path
    uploaded: bool


def offline_runs(home: HomePaths, run_id: str) -> list[OfflineRun]:
    """Return the offline folders at home, ordered by time. Links and folders without records do not count."""
    found = []
    # W&B creates `wandb` below WANDB_DIR; the program of a command may have put it anywhere in its work folder.
    outputs = home.run(run_id) / FOLDER
    for top in (outputs / "wandb", *sorted((outputs / "work").rglob("wandb"))):
        for folder in sorted(top.iterdir()) if top.is_dir() else []:
            if not _OFFLINE.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
                continue
            records = [path for path in folder.glob("run-*.wandb") if path.is_file() and not path.is_symlink()]
            if len(records) == 1:
                found.append(OfflineRun(folder, records[0], _is_uploaded(records[0])))
    return sorted(found, key=lambda run: run.folder.name)


def find_program() -> list[str]:
    """Return the command that starts home's own `wandb`.

    Raises:
        UsageError: There is none.
    """
    try:
        spec = importlib.util.find_spec("wandb")
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None:  # a folder that happens to be called wandb has no origin
        return [sys.executable, "-P", "-m", "wandb"]
    if found := shutil.which("wandb"):
        return [found]
    raise UsageError("there is no `wandb` program here to upload with", hint=install_command("wandb"))


def compose_command(
    program: Sequence[str], runs: Sequence[OfflineRun], *, run_id: str | None, project: str | None, entity: str | None
) -> list[str]:
    """Return the upload command as an argument list.

    Args:
        program: From `find_program`.
        runs: The runs to upload, in the order of their records.
        run_id: The id of the one W&B run that they all belong to; None keeps the id in each record.
        project: Overrides the project in the records.
        entity: Overrides the entity in the records.
    """
    options = [("--id", run_id), ("--project", project), ("--entity", entity)]
    words = [f"{name}={value}" for name, value in options if value]
    return [*program, "sync", "--include-synced", *words, "--", *(str(run.folder.absolute()) for run in runs)]


def upload(command: Sequence[str], runs: Sequence[OfflineRun], say: Callable[[str], None]) -> None:
    """Run the upload. W&B finds the key itself: in WANDB_API_KEY or netrc, both home's own.

    It runs in an empty folder. W&B takes settings from `wandb/settings` of the folder that it runs in, the server's address
    among them, and what lies beside the records came from a host: home's key would go to the server that the host names.

    Raises:
        UsageError: There is no key, or this `wandb` does not accept the command.
        OutcomeUnknown: The upload failed otherwise. Uploaded records stay at W&B, and the same command continues.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("WANDB_MODE", "WANDB_DISABLED")}
    with tempfile.TemporaryDirectory(prefix="armada-wandb-") as empty:
        code, words = _run(command, empty, {**environment, "WANDB_DIR": empty}, say)
    if code:
        if _NO_KEY.search(words):
            raise UsageError(
                f"wandb has no key: {words}", hint="export WANDB_API_KEY=…, or `wandb login`, here at home"
            )
        raise OutcomeUnknown(
            f"wandb ended with exit code {code}: {words}", hint="run the same command again to continue"
        )
    left = [run.folder.name for run in runs if not _is_uploaded(run.records)]
    if left:
        raise OutcomeUnknown(
            f"wandb did not mark {', '.join(left)} as uploaded: {words}",
            hint="check W&B, or run the same command again",
        )


def _run(
    command: Sequence[str], folder: str, environment: dict[str, str], say: Callable[[str], None]
) -> tuple[int, str]:
    """Run a program to its end. Return its exit code, and the last lines it printed."""
    said: list[str] = []
    with subprocess.Popen(
        list(command),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        try:
            for line in child.stdout or ():
                if line.strip():
                    said.append(sanitize_line(line.strip(), 400))
                    say(said[-1])
        except BaseException:
            child.terminate()
            raise
    return child.returncode, " · ".join(said[-_SHOWN_LINES:]) or "it printed nothing"


def _is_uploaded(records: Path) -> bool:
    """Whether the records did not change since W&B marked them as uploaded."""
    mark = records.with_name(records.name + ".synced")
    try:
        return mark.stat().st_mtime >= records.stat().st_mtime
    except OSError:
        return False
