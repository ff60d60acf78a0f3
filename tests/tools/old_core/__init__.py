"""Show that the simulation finds what an audit of the first release had found: tell that release's core the stories of each finding.

    python -m tests.tools.old_core

The core is that of the last commit before its defects were mended. The simulations are the first one, and a later one
that has clusters, scripts and second homes; `first.py` and `later.py` let them run on that core. All of it is taken from
the history of this repository, into a temporary folder.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CORE = "c3c1673e"
"""The last commit with the core of the first release."""
SIMULATIONS = {"36d44f78": "first.py", "77de8700": "later.py"}
"""By commit: what tells the stories of its simulation. The first is the one that added it, and mended what it had found."""

_TEMPORARY = re.compile(r"/[^\s']*/tmp\w+/")


def git(*words: str, folder: Path = ROOT) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)


def missing() -> list[str]:
    """Return which of the commits this clone does not have."""
    commits = (CORE, *SIMULATIONS)
    asked = (("git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}") for commit in commits)
    absent = [subprocess.run(words, check=False, capture_output=True).returncode != 0 for words in asked]
    return [commit for commit, is_absent in zip(commits, absent, strict=True) if is_absent]


def place(simulation: str, folder: Path) -> None:
    """Put a simulation into a folder with the old core."""
    git("checkout", simulation, "--", "tests/simulation", folder=folder)
    home = folder / "tests/simulation/home.py"
    text = home.read_text().replace('["root"]', '.get("root")')  # its agent named no root in its answers
    home.write_text(text.replace('"home": own(self.paths).as_json()}', "}"))  # nor did it take a home's name


def tell(folder: Path, teller: str) -> list[tuple[str, str, str | None]]:
    """Tell the stories to the core in a folder.

    Returns:
        For each finding its name, the story, and the rule that broke; None if none did.
    """
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'remote_payload'}"}
    told = subprocess.run(
        [sys.executable, str(HERE / teller)], cwd=folder, env=environment, check=False, capture_output=True, text=True
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
        rows: list[tuple[str, str, str | None]] = []
        try:
            git("worktree", "add", "--detach", "--force", str(folder), CORE)
            for simulation, teller in SIMULATIONS.items():
                place(simulation, folder)
                known = {name for name, *_ in rows}
                rows += [row for row in tell(folder, teller) if row[0] not in known]
        finally:
            git("worktree", "remove", "--force", str(folder))
    print(table(rows))
    broke = [words for _, _, words in rows if words is not None and not words.startswith("could not be told")]
    print(f"\n{len(broke)} of {len(rows)} stories broke a rule", file=sys.stderr)
    return 0 if rows and len(broke) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
