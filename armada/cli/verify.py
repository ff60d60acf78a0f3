"""`armada sync verify`: check published checkpoints, and repair damaged ones from home or from their host."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import ArmadaError, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.store.runs import Run
    from armada.sync.checkpoints.verify import Finding


def verify(context: Context, chosen: Sequence[Run], options: argparse.Namespace) -> bool:
    """Verify runs, repair what can be repaired, and print the result.

    Args:
        context: The command's.
        chosen: The runs.
        options: `read_data`, `no_repair`, `json`.

    Returns:
        Whether anything stays damaged, or is not seen.
    """
    from armada.cli.progress import Reporter
    from armada.sync.checkpoints.verify import look_over
    from armada.sync.errors import FolderAway

    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    looked_at = away = 0
    damaged: list[tuple[Run, Finding]] = []
    for run in chosen:

        def told(name: str, run_id: str = run.run_id) -> None:
            reporter.now("verify", f"{run_id} {name}")

        try:
            findings = look_over(context.database, run.run_id, read_data=options.read_data, told=told)
        except FolderAway as error:
            away += 1
            sys.stderr.write(f"armada: {sanitize_line(error)}\n")
            continue
        looked_at += len(findings)
        damaged += [(run, finding) for finding in findings if not finding.good]
    for _, finding in damaged:
        name = finding.damaged[0].path if finding.damaged else "MANIFEST.json"
        more = f" and {len(finding.damaged) - 1} more" if len(finding.damaged) > 1 else ""
        reporter.stage("damaged", f"{finding.place}: {sanitize_line(name)}{more}")
    whys = [None] * len(damaged) if options.no_repair else _mend(context, damaged, reporter)
    repaired = 0 if options.no_repair else whys.count(None)
    if options.json:
        listed = [
            {"path": str(finding.place), "damaged": [f.path for f in finding.damaged], "why_not_repaired": why}
            for (_, finding), why in zip(damaged, whys, strict=True)
        ]
        print_json({"checkpoints": looked_at, "damaged": listed, "repaired": repaired})
    else:
        how = "every byte read" if options.read_data else "names and sizes; --read-data reads every byte"
        seen = counted(looked_at, "checkpoint")
        reporter.line(f"{seen} checked ({how}): {len(damaged)} damaged, {repaired} repaired")
    return away > 0 or len(damaged) > repaired


def _mend(context: Context, damaged: Sequence[tuple[Run, Finding]], reporter: Reporter) -> list[str | None]:
    """Put right what can be, in three rounds: from home, from hosts, and from home what the hosts brought.

    Checkpoints share equal files. One that its host has lost is whole again once another brought the same bytes.

    Returns:
        Why each could not be repaired; None where it was.
    """
    from armada.sync.checkpoints.repair import repair_from_home
    from armada.sync.checkpoints.verify import note_damage

    left = [finding for _, finding in damaged]
    whys: list[str | None] = [None] * len(damaged)
    for ask in (None, _ask_host, None):
        for number, (run, _) in enumerate(damaged):
            if left[number].good:
                continue
            try:
                left[number] = repair_from_home(context.database, context.home, left[number])
                if not left[number].good and ask is not None:
                    left[number] = ask(context, run, left[number], reporter)
                    whys[number] = None
            except (ArmadaError, OSError) as error:
                whys[number] = "the host no longer has it" if isinstance(error, NotFound) else str(error)
    for (_, finding), still, why in zip(damaged, left, whys, strict=True):
        if still.good:
            what = (
                "every byte verified" if still.is_read else "what was wrong is verified; --read-data reads every byte"
            )
            reporter.stage("repaired", f"{finding.place} ({what})")
            continue
        note_damage(context.database, still, why or "no host has an intact copy")
        reporter.stage("lost", f"{finding.place}: {sanitize_line(why or 'no host has an intact copy')}")
    return [None if still.good else why for still, why in zip(left, whys, strict=True)]


def _ask_host(context: Context, run: Run, finding: Finding, reporter: Reporter) -> Finding:
    """Fetch what is damaged from the run's host; gives a finding without damage.

    Raises:
        ArmadaError: It cannot be had there.
    """
    from armada.sync.checkpoints.repair import repair
    from armada.sync.context import SyncContext

    with context.session_about(run, patience_s=10) as session:
        name = finding.place.name
        wanted = SyncContext(context.database, session, context.home, run.run_id)
        return repair(wanted, finding, lambda seen: reporter.transfer("repair", name, seen))
