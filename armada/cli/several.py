"""Commands that take several runs: resolve all of them before anything is done, handle each, print a line for each."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.cli.asking import confirm
from armada.cli.printing import as_error, error_fields, print_json
from armada.errors import ArmadaError, HostUnreachable, Interrupted, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class Handled:
    """What a command did with one run.

    Attributes:
        told: The object that `--json` prints.
        lines: What a person reads.
    """

    told: Mapping[str, object]
    lines: tuple[str, ...]


class Patience:
    """How long a command waits for a host: as usual the first time, not again once it did not answer.

    Args:
        usual_s: Seconds.
    """

    def __init__(self, usual_s: float) -> None:
        self._usual_s = usual_s
        self._down = set[str]()

    @contextlib.contextmanager
    def for_host(self, name: str) -> Iterator[float]:
        """Give the seconds to wait for it inside; an error that says that it does not answer is noted, and raised."""
        try:
            yield 0.0 if name in self._down else self._usual_s
        except HostUnreachable:
            self._down.add(name)
            raise


def find_runs(context: Context, prefixes: Sequence[str]) -> list[Run]:
    """Find each named run, in the order of the command line.

    Raises:
        NotFound: A run does not exist. Of several wrong words, each has a sentence; the first decides the class.
        UsageError: A word matches several runs, or two words mean the same run.
    """
    words: dict[str, str] = {}
    found: list[Run] = []
    wrong: list[ArmadaError] = []
    for prefix in prefixes:
        try:
            run = context.run(prefix)
        except (NotFound, UsageError) as error:
            wrong.append(error)
            continue
        if run.run_id in words:
            both = f"{words[run.run_id]!r} and {prefix!r} are both {run.run_id}"
            said = f"{run.run_id} is named twice" if words[run.run_id] == prefix else both
            wrong.append(UsageError(said, hint="name each run once"))
            continue
        words[run.run_id] = prefix
        found.append(run)
    if wrong:
        raise _joined(wrong) if len(prefixes) > 1 else wrong[0]
    return found


def choose_runs(
    context: Context, options: argparse.Namespace, *, asks: str = "", active: bool = False, some: bool = False
) -> list[Run]:
    """Find the runs that the command line names, or those that its filter finds in the store.

    Args:
        context: The command's.
        options: With what `add_named_runs` added.
        asks: What the command is about to do, such as `stop`: it lists what a filter found and asks; empty for no question.
        active: Leave out what a filter found and has ended.
        some: A filter that finds no run is an error, because the command has nothing to show without one.

    Raises:
        NotFound: A named run does not exist, or the filter finds none and `some` are needed.
        UsageError: There are neither names nor a filter, or both; the filter is wrong; or nobody can be asked.
        Conflict: The answer was not yes.
    """
    if options.where is None:
        if not options.runs:
            raise UsageError("the following arguments are required: RUN", hint="name runs, or give --where EXPR")
        return find_runs(context, options.runs)
    if options.runs:
        raise UsageError("give either RUN or --where, not both", hint="--where 'tag:arc id:…' takes ids too")
    from armada.cli.expressions import say_no_match
    from armada.filters.run_facts import RunFacts, matching
    from armada.store import runs

    facts = RunFacts(context)
    wanted = facts.filter(options.where)
    if not wanted.text.strip():
        raise UsageError("the filter is empty, so it would mean every run", hint="--where 'age>0s' is every run")
    found = matching(facts, wanted, runs.every(context.database))
    if active:
        found = [run for run in found if not run.ended or run.is_guess]
    if not found and some:
        raise NotFound(f"no run matches {sanitize_line(options.where, 200)}", hint="armada ps lists runs")
    if not found:
        say_no_match(options.where)
    elif asks and not options.yes:
        _ask(found, asks)
    return found


def _ask(found: Sequence[Run], verb: str) -> None:
    """List runs and ask before something is done to them.

    Raises:
        UsageError: There is no terminal to ask on.
        Conflict: The answer was not yes.
    """
    for run in found:
        sys.stderr.write(f"  {run.run_id}  {sanitize_line(run.host, 60)}  {run.state}\n")
    confirm(f"{verb.capitalize()} {counted(len(found), 'run')}?", nothing="nothing was done")


def _joined(wrong: Sequence[ArmadaError]) -> ArmadaError:
    """One error with a sentence for each; nothing was done yet."""
    sentences = [*(str(error) for error in wrong), "Nothing was done."]
    hints = dict.fromkeys(error.hint for error in wrong if error.hint)
    return type(wrong[0])("\n".join(sentences), hint="; ".join(hints) or None)


def handle_runs(
    runs: Sequence[Run],
    handle: Callable[[Run], Handled],
    *,
    undone: Callable[[Run], str],
    reporter: Reporter,
    as_json: bool,
    indent: int | None = 1,
    listed: bool = False,
) -> int:
    """Handle each run and print what became of it. The failure of one of several keeps no other from being handled.

    Args:
        runs: As `find_runs` found them.
        handle: Does it to one run.
        undone: Says what an interruption left of a run, such as `it was not removed`.
        reporter: Prints lines.
        as_json: Print one object for one run, a list for several.
        indent: Of the object of one run.
        listed: Print a list even for one run or none, because a filter found them.

    Returns:
        The exit code of the first failure.

    Raises:
        ArmadaError: It failed for the only run.
        KeyboardInterrupt: After saying what was done and what was not.
    """
    if len(runs) == 1 and not listed:
        handled = handle(runs[0])
        if as_json:
            print_json(dict(handled.told), indent=indent)
        for line in () if as_json else handled.lines:
            reporter.line(line)
        return 0
    results: dict[str, Handled | ArmadaError] = {}
    try:
        for run in runs:
            try:
                results[run.run_id] = handle(run)
            except ArmadaError as error:
                results[run.run_id] = error
            except OSError as error:
                results[run.run_id] = as_error(error)
    except (KeyboardInterrupt, Exception):
        _report(runs, results, undone, reporter, as_json=as_json)
        raise
    return _report(runs, results, undone, reporter, as_json=as_json)


def _report(
    runs: Sequence[Run],
    results: Mapping[str, Handled | ArmadaError],
    undone: Callable[[Run], str],
    reporter: Reporter,
    *,
    as_json: bool,
) -> int:
    """Print a line for each run; give the first failure's exit code. What has no result was interrupted."""
    reporter.clear()
    listed: list[dict[str, object]] = []
    code = 0
    for run in runs:
        result = results.get(run.run_id) or Interrupted(f"interrupted: {undone(run)}")
        if isinstance(result, Handled):
            listed.append(dict(result.told))
            for line in () if as_json else result.lines:
                reporter.line(line)
            continue
        code = code or result.exit_code
        listed.append({"run_id": run.run_id, "error": error_fields(result)})
        whose = "" if run.run_id in str(result) else f"{run.run_id}: "
        sys.stderr.write(f"armada: {whose}{sanitize_line(result, 2000)}\n")
        if result.hint:
            sys.stderr.write(f"  → {sanitize_line(result.hint, 2000)}\n")
        sys.stderr.flush()
    if as_json:
        print_json(listed)
    failed = sum(1 for run in runs if not isinstance(results.get(run.run_id), Handled))
    if failed:
        sys.stderr.write(f"armada: not completed for {failed} of {counted(len(runs), 'run')}\n")
    return code
