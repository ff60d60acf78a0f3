"""Show that the simulation finds what an audit of the first release had found: tell that release's core the stories of each finding.

    python -m tests.tools.old_core

The core is that of the last commit before its defects were mended. The simulation is the first one, with two changes
that let it run on that core. Both are taken from the history of this repository, into a temporary folder.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = "c3c1673e"
"""The last commit with the core of the first release."""
SIMULATION = "36d44f78"
"""The commit that added the simulation, and mended what it had found."""

_TEMPORARY = re.compile(r"/[^\s']*/tmp\w+/")
_TELL = """
import json
from armada.store import runs
runs.set_root = getattr(runs, "set_root", lambda *_args, **_options: None)  # that core noted no root
from tests.simulation.stories import outcome
from tests.simulation.test_histories import FOUND, read
for name, words in FOUND.items():
    try:
        told = outcome(read(words))
    except Exception as error:
        told = f"could not be told: {type(error).__name__}: {error}"
    print(json.dumps([name, words, told]), flush=True)
"""


def git(*words: str, folder: Path = ROOT) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)


def missing() -> list[str]:
    """Return which of the commits this clone does not have."""
    asked = (("git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}") for commit in (CORE, SIMULATION))
    absent = [subprocess.run(words, check=False, capture_output=True).returncode != 0 for words in asked]
    return [commit for commit, is_absent in zip((CORE, SIMULATION), absent, strict=True) if is_absent]


def prepare(folder: Path) -> None:
    """Put the old core into a folder, and the first simulation into it."""
    git("worktree", "add", "--detach", "--force", str(folder), CORE)
    git("checkout", SIMULATION, "--", "tests/simulation", folder=folder)
    home = folder / "tests/simulation/home.py"
    home.write_text(home.read_text().replace('["root"]', '.get("root")'))  # its agent named no root in its answers


def tell(folder: Path) -> list[tuple[str, str, str | None]]:
    """Tell the stories to the core in a folder.

    Returns:
        For each finding its name, the story, and the rule that broke; None if none did.
    """
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'remote_payload'}"}
    told = subprocess.run(
        [sys.executable, "-c", _TELL], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    if told.returncode:
        raise SystemExit(f"the stories could not be told:\n{told.stderr[-2000:]}")
    return [tuple(json.loads(line)) for line in told.stdout.splitlines() if line.startswith("[")]


def table(rows: list[tuple[str, str, str | None]]) -> str:
    """Return the findings as a table in Markdown."""
    lines = ["| finding | story | what the simulation said |", "|---|---|---|"]
    for name, story, words in rows:
        said = _TEMPORARY.sub("", " ".join((words or "**nothing**").split())).replace("|", "\\|")
        lines.append(f"| {name} | `{story}` | {said} |")
    return "\n".join(lines)


def main() -> int:
    """Print the table.

    Returns:
        0 if each story broke a rule, 1 if one did not, 2 if the history is not here.
    """
    if absent := missing():
        print(
            f"this clone does not have the commits {', '.join(absent)}; run it in a clone with the whole history: "
            "git fetch --unshallow",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="armada-old-core-") as top:
        folder = Path(top) / "tree"
        try:
            prepare(folder)
            rows = tell(folder)
        finally:
            git("worktree", "remove", "--force", str(folder))
    print(table(rows))
    broke = [words for _, _, words in rows if words is not None and not words.startswith("could not be told")]
    print(f"\n{len(broke)} of {len(rows)} stories broke a rule", file=sys.stderr)
    return 0 if rows and len(broke) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
