"""Read a uv.lock: this machine's uv says which versions it pins, without asking any network."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from armada.config.documents import Place, read_text, shown
from armada.config.requirements import Requirement, read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_EXPORT = (
    *("export", "--frozen", "--offline", "--no-progress", "--no-emit-project", "--no-header", "--no-annotate"),
    # A host's own index may have other builds of the same versions.
    *("--no-hashes", "--no-default-groups", "--format", "requirements-txt"),
)
_PATIENCE_S = 60.0


def read_lock(path: Path, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> tuple[Requirement, ...]:
    """Read the versions that a uv.lock pins for its project, and for what the named extras and groups add.

    Raises:
        ConfigError: There is no uv here, it cannot read the file, or a package is nothing that a host can fetch.
    """
    text = read_text(path)
    program = shutil.which("uv")
    if program is None:
        raise Place(path, 1).error(
            "only uv can read a uv.lock, and this machine has none on its PATH",
            "install uv, or name a requirements.txt that `uv export --no-emit-project` made",
        )
    named = [word for name in extras for word in ("--extra", name)] + [
        word for name in groups for word in ("--group", name)
    ]
    try:
        done = subprocess.run(
            [program, *_EXPORT, *named],
            cwd=path.absolute().parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Place(path, 1).error(f"{program} does not read it: {error}") from error
    if done.returncode:
        words = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise Place(path, 1).error(f"uv does not read it: {shown(words, 600)}", "uv lock makes it anew")
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return read_lines([(line.strip(), _place(path, text, line)) for line in lines if line.strip()])


def _place(path: Path, text: str, line: str) -> Place:
    """Find where the lock begins a package."""
    name = line.partition("==")[0].strip()
    before, found, _ = text.partition(f'name = "{name}"\nversion')
    return Place(path, before.count("\n") + 1 if found else 1)
