"""Carry out what an audit of the first release found, on a real SSH host, and say how each finding ends.

    python -m tests.tools.audit_findings [--checkout PATH] [NAME ...]

Each finding has a home of its own and a host of its own, an sshd in namespaces of this machine; those about batch
systems use the fleet's Slurm. The steps are those of the audit, typed at the command line of a checkout: of this one, or
of another commit, such as the last one with the first release's core:

    git worktree add --detach PATH c3c1673e
    python -m tests.tools.audit_findings --checkout PATH

What is printed is a table in Markdown: what armada said last, and what was so on the disks and among the processes.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import traceback
from pathlib import Path

import pytest

from tests.fleet import machines
from tests.tools.audit_findings import batch, runs, sync
from tests.tools.audit_findings.stage import Ending, Finding, stage, why_not

HERE = Path(__file__).resolve().parents[3]
FINDINGS: dict[str, Finding] = {**sync.FINDINGS, **runs.FINDINGS, **batch.FINDINGS}
_CHANCE = (
    (re.compile(r"/\S*?/armada-audit-\w+/"), ""),
    (re.compile(r"\b(s1-[a-z]+)-[a-z0-9]{6}\b"), r"\1"),
)
"""What differs each time: temporary folders, and what follows the name in a run's id."""


def carry_out(name: str, checkout: Path | None) -> Ending:
    """Carry one finding out.

    Args:
        name: Which one.
        checkout: Whose command line does it; None for the one that is imported here.
    """
    with stage(checkout, host=name not in batch.FINDINGS) as made:
        return FINDINGS[name](made)


def row(name: str, ending: Ending) -> str:
    """Return a line of the table."""
    cells = []
    for text in (ending.said, ending.truth):
        plain = text
        for pattern, instead in _CHANCE:
            plain = pattern.sub(instead, plain)
        cells.append(plain.replace("|", "\\|"))
    return f"| {name} | {' | '.join(cells)} | {'**wrong**' if ending.is_wrong else 'right'} |"


def main() -> int:
    """Print the table.

    Returns:
        0 if no finding ended wrongly, 1 if one did, 2 if one could not be carried out.
    """
    parser = argparse.ArgumentParser(prog="tests.tools.audit_findings", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkout", type=Path, default=HERE, help="whose armada is asked (default: this checkout)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(FINDINGS)}")
    parser.add_argument("--verbose", action="store_true", help="print what each command said, on standard error")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.DEBUG if asked.verbose else logging.WARNING, format="%(message)s")
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if unknown := set(asked.names) - set(FINDINGS):
        parser.error(f"no finding is called {', '.join(sorted(unknown))}; there are: {', '.join(FINDINGS)}")
    if reason := why_not():
        print(f"the findings cannot be carried out here: {reason}", file=sys.stderr)
        return 2
    print("| finding | what armada said | what was so | ending |\n|---|---|---|---|", flush=True)
    wrong = failed = 0
    with machines.used():
        for name in asked.names or FINDINGS:
            try:
                ending = carry_out(name, asked.checkout.resolve())
            except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
                failed += 1
                print(f"| {name} | could not be carried out: {error} | | |", flush=True)
                traceback.print_exc()
                continue
            wrong += ending.is_wrong
            print(row(name, ending), flush=True)
    return 2 if failed else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
