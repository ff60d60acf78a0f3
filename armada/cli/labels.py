"""`armada tag`, `group`, `note`, `star` and `archive`: what you write about runs. Home alone knows it; no host is asked."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_named_runs, add_run, add_where
from armada.cli.several import Handled, choose_runs, handle_runs
from armada.config.labels import group_problem, plain_note, tag_problem
from armada.errors import ArmadaError, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.cli.context import Context
    from armada.store.runs import Run

    Change = Callable[[Context, Run], Run]


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tag = _command(
        commands,
        "tag",
        _tag,
        "Add or remove tags of runs",
        "Add tags to runs or remove them. Without options, list them.",
    )
    add_named_runs(tag)
    tag.add_argument("--add", action="append", default=[], metavar="TAG", help="Add this tag; repeatable")
    tag.add_argument("--remove", action="append", default=[], metavar="TAG", help="Remove this tag; repeatable")
    tag.add_argument("--clear", action="store_true", help="Remove all tags, before --add")
    group = _command(
        commands, "group", _group, "Put runs into a group", "Put runs into a group, such as a sweep, or take them out."
    )
    group.add_argument(
        "runs", nargs="*", metavar="RUN", help="Run id, or its first characters; after the runs, the group's NAME"
    )
    group.usage = "armada group [-h] [--json] [--where EXPR] [--clear] [RUN ...] NAME"
    add_where(group)
    group.add_argument("--clear", action="store_true", help="Take the runs out of their groups; every word is a RUN")
    note = _command(
        commands, "note", _note, "Write a note about a run", "Write a note about a run. Without TEXT, print the note."
    )
    add_run(note)
    note.add_argument("text", nargs="?", metavar="TEXT", help="The note, in quotes; it replaces the former one")
    note.add_argument("--edit", action="store_true", help="Edit the note with $VISUAL or $EDITOR")
    note.add_argument("--clear", action="store_true", help="Remove the note")
    star = _command(commands, "star", _star, "Star runs", "Star runs, so that `armada ps starred` finds them.")
    add_named_runs(star)
    star.add_argument("--off", action="store_true", help="Take the stars away")
    archive = _command(
        commands,
        "archive",
        _archive,
        "Hide ended runs from lists",
        "Hide runs that have ended from `armada ps` and the dashboard. Nothing else changes: their checkpoints still "
        "sync, and still keep their host from being released.",
    )
    add_named_runs(archive)
    archive.add_argument("--undo", action="store_true", help="Show the runs in lists again")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    handler: Callable[[argparse.Namespace], int],
    help: str,  # noqa: A002  # argparse's own word
    description: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help, description=description)
    several = "" if name == "note" else ". Of several runs, print all in one list"
    parser.add_argument("--json", action="store_true", help=f"Print a JSON object{several}")
    parser.set_defaults(handler=handler)
    return parser


def told(run: Run) -> dict[str, object]:
    """What `--json` prints of a run's labels."""
    names = ("run_id", "group", "tags", "note", "noted_at", "starred_at", "archived_at")
    return {name: getattr(run, name) for name in names}


def _tag(options: argparse.Namespace) -> int:
    from armada.store import labels

    for tag in (*options.add, *options.remove):
        if (wrong := tag_problem(tag)) is not None:
            raise UsageError(wrong)
    if both := sorted(set(options.add) & set(options.remove)):
        raise UsageError(f"{both[0]} is to be added and removed", hint="name it once")
    if not (options.add or options.remove or options.clear):
        return _change(options, None, _said_tags)

    def change(context: Context, run: Run) -> Run:
        return labels.change_tags(
            context.database, run.run_id, add=options.add, remove=options.remove, clear=options.clear
        )

    return _change(options, change, _said_tags)


def _said_tags(run: Run) -> str:
    return f"tags {' '.join(run.tags)}" if run.tags else "no tags"


def _group(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.store import labels, runs

    context = Context()
    name: str | None = None
    if not options.clear:
        name = _name_among(context, options)
    if name is not None and runs.is_known(context.database, name):
        raise UsageError(
            f"{name} is a run, and the last word must be the name of a group", hint="armada group RUN… NAME"
        )
    return _change(
        options,
        lambda context, run: labels.set_group(context.database, run.run_id, name),
        lambda run: f"group {run.group}" if run.group else "no group",
        context,
    )


def _name_among(context: Context, options: argparse.Namespace) -> str:
    """Take the last word, which names the group, from the words of `armada group`.

    Raises:
        UsageError: It is missing, or cannot name a group.
        NotFound: The only word is no run.
    """
    hint = "armada group RUN… NAME"
    if not options.runs:
        raise UsageError("the following arguments are required: RUN, NAME", hint=hint)
    if len(options.runs) == 1 and options.where is None:
        run = context.run(options.runs[0])
        raise UsageError(f"the name of the group of {run.run_id} is missing", hint=hint)
    *options.runs, name = options.runs
    if (wrong := group_problem(name)) is not None:
        raise UsageError(wrong)
    return str(name)


def _star(options: argparse.Namespace) -> int:
    from armada.store import labels

    return _change(
        options,
        lambda context, run: labels.star(context.database, run.run_id, on=not options.off),
        lambda run: "starred" if run.starred_at is not None else "not starred",
    )


def _archive(options: argparse.Namespace) -> int:
    from armada.store import labels

    return _change(
        options,
        lambda context, run: labels.archive(context.database, run.run_id, on=not options.undo),
        lambda run: "archived: `armada ps --archived` lists it" if run.archived_at is not None else "not archived",
    )


def _change(
    options: argparse.Namespace, change: Change | None, said: Callable[[Run], str], context: Context | None = None
) -> int:
    """Change the labels of all named runs, and print a line for each.

    Args:
        options: With the runs.
        change: Does it to one, and returns the run as it is then; None to print alone.
        said: What a person reads of it.
        context: The command's, if there is one already.
    """
    from armada.cli.context import Context
    from armada.cli.progress import Reporter

    context = context or Context()
    chosen = choose_runs(context, options)
    changed = _change_all(context, chosen, change) if change is not None else {run.run_id: run for run in chosen}

    def handle(run: Run) -> Handled:
        result = changed[run.run_id]
        if isinstance(result, ArmadaError):
            raise result
        return Handled(told(result), (f"{result.run_id}: {sanitize_line(said(result), 2000)}",))

    return handle_runs(
        chosen,
        handle,
        undone=lambda _: "its line was not printed",
        reporter=Reporter(sys.stdout),
        as_json=options.json,
        listed=options.where is not None,
    )


def _change_all(context: Context, chosen: Sequence[Run], change: Change) -> dict[str, Run | ArmadaError]:
    """Change the labels of runs in one transaction, because each one flushes the disk; then copy them beside the checkpoints.

    Returns:
        Each run as it is now, or why it could not be changed, by its id.

    Raises:
        KeyboardInterrupt: After saying how many were changed: none or all.
    """
    from armada.store import labels

    changed: dict[str, Run | ArmadaError] = {}
    try:
        with context.database.transaction():
            for run in chosen:
                try:
                    changed[run.run_id] = change(context, run)
                except ArmadaError as error:
                    changed[run.run_id] = error
    except KeyboardInterrupt:
        sys.stderr.write(f"armada: interrupted: 0 of {counted(len(chosen), 'run')} were changed\n")
        raise
    done = [after for after in changed.values() if not isinstance(after, ArmadaError)]
    copied = 0
    try:
        for after in done:
            labels.keep(context.home, after)
            copied += 1
    except KeyboardInterrupt:
        sys.stderr.write(
            f"armada: interrupted: {len(done)} of {counted(len(chosen), 'run')} were changed, and the copies that "
            f"`armada recover` reads were written for {copied}; the same command again writes the others\n"
        )
        raise
    return changed


def _note(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.printing import print_json
    from armada.store import labels

    if sum((options.text is not None, options.edit, options.clear)) > 1:
        raise UsageError("give one of TEXT, --edit and --clear")
    context = Context()
    run = context.run(options.run)
    changed = run
    if options.text is not None or options.edit or options.clear:
        text = _edited(run.note or "") if options.edit else options.text or ""
        try:
            note = plain_note(text)
        except ValueError as error:
            raise UsageError(str(error), hint="write a file, and name it in the note") from None
        if options.text is not None and not note:
            raise UsageError("the note is empty", hint=f"armada note {run.run_id} --clear removes it")
        changed = labels.set_note(context.database, run.run_id, note)
        labels.keep(context.home, changed)
    if options.json:
        print_json(told(changed))
    else:
        print(sanitize_text(changed.note) if changed.note else f"{run.run_id}: no note")
    return 0


def _edited(text: str) -> str:
    """Open an editor on a text and return what was saved.

    Raises:
        UsageError: No editor can be opened.
        NotFound: The editor does not exist.
        ArmadaError: The editor failed, and the note stays as it was.
    """
    import shlex  # not above: `armada ps` imports this module, and these three cost 10 ms
    import subprocess
    import tempfile

    if not sys.stdin.isatty():
        raise UsageError("--edit needs a terminal", hint="armada note RUN 'TEXT'")
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="armada-") as folder:
        file = Path(folder) / "note.txt"
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*editor, str(file)], check=False).returncode
        except OSError as error:
            raise NotFound(f"{editor[0]} cannot be started ({error.strerror})", hint="set EDITOR") from None
        if code:
            raise ArmadaError(f"{editor[0]} ended with {code}; the note stays as it was")
        return file.read_text(encoding="utf-8", errors="replace")


def label_lines(run: Run) -> Sequence[str]:
    """The lines of `armada show` about what you wrote."""
    line = run.labels_text
    notes = sanitize_text(run.note).splitlines() if run.note else []
    said = [f"  labels     {line}"] if line else []
    return [*said, *(f"  {'' if place else 'note':<10} {text}" for place, text in enumerate(notes))]
