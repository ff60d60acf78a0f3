"""`armada export`: a checkpoint at home as a model for others, or the metrics of runs as a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.compare import add_metrics, metric_names
from armada.cli.options import add_named_runs
from armada.cli.printing import print_json
from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded
from armada.units import amount, counted

if TYPE_CHECKING:
    import argparse

    from armada.export.subject import Subject


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export",
        help="Export a checkpoint as a model, or metrics as a table",
        description="With --to: copy a checkpoint that is at home into a new folder or a repository of the Hugging Face hub, "
        "with what inference needs and a model card. Every byte is verified. The checkpoint itself stays as it is. "
        "With --csv or --parquet: write the metrics of one run or more as a table with the columns "
        "run, step, time, metric and value.",
        epilog="examples: armada export RUN --checkpoint best --to ./my-model; armada export RUN RUN --csv metrics.csv",
    )
    add_named_runs(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="N",
        help="Checkpoint to export: its step, `best` (lowest evaluation loss), `last` (the default), or its digest",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--to", metavar="DIR", help="New folder for the model, or a repository: hf://owner/name (private)"
    )
    target.add_argument("--csv", metavar="FILE", help="New file for the metrics, as CSV; `-` prints them")
    target.add_argument("--parquet", metavar="FILE", help="New file for the metrics, as Parquet (needs pyarrow)")
    add_metrics(parser, default="all")
    parser.add_argument("--force", action="store_true", help="With --csv or --parquet: replace the file if it exists")
    parser.add_argument("--public", action="store_true", help="Let everybody read the repository")
    parser.add_argument(
        "--all", action="store_true", help="Also export what only a training needs: optimizer, scheduler, random states"
    )
    parser.add_argument(
        "--merge",
        action="store_true",
        help="Export the model that `armada merge` made of this adapter, not the adapter",
    )
    parser.add_argument(
        "--gguf", action="store_true", help="Also convert the model to GGUF, with llama.cpp's converter"
    )
    parser.add_argument(
        "--converter", metavar="FILE", help="Path of llama.cpp's convert_hf_to_gguf.py (default: the one on PATH)"
    )
    parser.add_argument("--json", action="store_true", help="Print a JSON object: what was exported, and where it is")
    parser.set_defaults(handler=_export)


def _export(options: argparse.Namespace) -> int:
    if options.to is None:
        return _export_metrics(options)
    if options.metrics is not None or options.force:
        raise UsageError(
            f"{'--metrics' if options.metrics else '--force'} is for --csv and --parquet", hint="leave it out"
        )
    return _export_checkpoint(options)


def _export_metrics(options: argparse.Namespace) -> int:
    """Write the metrics of the named runs as a table."""
    from armada.cli.context import Context
    from armada.cli.several import choose_runs
    from armada.compare.gather import check_metrics
    from armada.compare.metric_table import load_parquet, rows_of, write_csv, write_parquet
    from armada.compare.new_file import check_new_file, new_file

    flags = ("checkpoint", "public", "all", "merge", "gguf", "converter")
    if wrong := next((flag for flag in flags if getattr(options, flag)), None):
        raise UsageError(f"--{wrong} is for checkpoints, which go --to DIR", hint="leave it out")
    if options.parquet is not None:
        load_parquet()
    context = Context(reads=True)
    chosen = choose_runs(context, options, some=True)
    names = check_metrics(context.database, chosen, metric_names(options))
    rows = rows_of(context.database, [run.run_id for run in chosen], names)
    if options.csv == "-":
        if options.json:
            raise UsageError("--csv - prints the table, so there is no room for --json", hint="--csv FILE")
        write_csv(rows, sys.stdout)
        return 0
    word, option = (options.csv, "--csv") if options.csv is not None else (options.parquet, "--parquet")
    path = check_new_file(word, option, context.home, force=options.force)
    with new_file(path, force=options.force) as temporary:
        if options.csv is None:
            count = write_parquet(rows, temporary)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                count = write_csv(rows, stream)
    if options.json:
        print_json({"runs": [run.run_id for run in chosen], "to": str(path), "rows": count})
    else:
        print(f"{counted(count, 'row')} of {counted(len(chosen), 'run')} written to {sanitize_line(path, 1000)}")
    return 0


def _export_checkpoint(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.cli.several import choose_runs
    from armada.export.folder import write_folder
    from armada.export.gguf import convert, find_converter, refuse_unconvertible
    from armada.export.hub import SCHEME, parse_repo, upload
    from armada.export.merged import find_merged
    from armada.export.subject import CARD, find_subject
    from armada.store.running_operations import operation
    from armada.sync.checkpoints.new_folder import check_target

    repo = parse_repo(options.to) if options.to.startswith(SCHEME) else None
    target = _folder(options.to) if repo is None else None
    _check(options, is_repo=repo is not None)
    converter = find_converter(options.converter) if options.gguf else None
    context = Context()
    run, *others = choose_runs(context, options, some=True)
    if others:
        matched = f", and the filter matches {1 + len(others)}" if options.where is not None else ""
        raise UsageError(
            f"--to exports a checkpoint of one run{matched}", hint="name one run, or say --csv FILE for metrics"
        )
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    if target is not None:
        check_target(target, context.home)
    find = find_merged if options.merge else find_subject
    subject = find(context.database, run, options.checkpoint or "last", everything=options.all)
    if converter is not None:
        refuse_unconvertible(subject)
    with operation(context.database, kind="export", run_id=run.run_id, host=run.host, argv=sys.argv) as recorded:
        progress = recorded.and_tell(reporter)
        if target is not None:
            name = target.name

            def finish(folder: Path) -> None:
                if converter is not None:
                    convert(converter, folder, name, progress)

            write_folder(context.database, subject, target, progress, finish)
            place = str(target)
        else:
            place = upload(context.database, subject, repo or "", public=options.public, progress=progress)
    if options.json:
        gguf = f"{place}/{Path(place).name}.gguf" if converter is not None else None
        print_json({**_told(subject, place), "gguf": gguf})
        return 0
    what = f"checkpoint-{subject.checkpoint.step} of {subject.run.run_id}"
    files = f"{counted(len(subject.files), 'file')}, {amount(subject.size_bytes)}"
    before = " before the conversion" if converter is not None else ""
    reporter.stage("exported", f"{what} to {place} ({files}, every byte verified{before})")
    if converter is not None:
        made = Path(place) / f"{Path(place).name}.gguf"
        words = f"made by {sanitize_line(Path(converter[-1]).name, 60)}; armada cannot verify what it says"
        reporter.stage("gguf", f"{made} ({amount(made.stat().st_size)}, {words})")
    if left := [name for name in subject.left_out if name != CARD]:
        names = ", ".join(sanitize_line(name, 60) for name in left[:4])
        reporter.stage("left out", f"{names}{', …' if len(left) > 4 else ''} (--all exports what a training needs)")
    return 0


def _check(options: argparse.Namespace, *, is_repo: bool) -> None:
    """Refuse options that do not belong together.

    Raises:
        UsageError: They do not.
    """
    if options.public and not is_repo:
        raise UsageError("--public is for a repository, and --to names a folder", hint="--to hf://owner/name")
    if options.gguf and is_repo:
        raise UsageError("--gguf needs a folder, and --to names a repository", hint="--to ./my-model")
    if options.converter is not None and not options.gguf:
        raise UsageError("--converter is for --gguf", hint="add --gguf")


def _folder(word: str) -> Path:
    """Return the target as an absolute path.

    Raises:
        UsageError: It is no name of a new folder.
    """
    path = expanded(word).absolute()
    if not word.strip() or path.name in ("", ".."):
        raise UsageError(f"{word!r} is not the name of a new folder", hint="--to ./my-model")
    return path


def _told(subject: Subject, place: str) -> dict[str, object]:
    """Return the object that `--json` prints."""
    return {
        "run_id": subject.run.run_id,
        "step": subject.checkpoint.step,
        "digest": subject.checkpoint.digest,
        "kind": subject.kind.value,
        "base_model": subject.base,
        "to": place,
        "files": len(subject.files),
        "size_bytes": subject.size_bytes,
        "left_out": list(subject.left_out),
        "changed": sorted(subject.rewritten),
    }
