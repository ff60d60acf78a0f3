"""Options and arguments that several commands share: each is described here, once."""

from __future__ import annotations

import argparse


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="Run id, or its first characters")


def add_runs(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Any number of runs; `default` says which ones are meant where none is named."""
    more = f" (default: {default})" if default else ""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"Run id, or its first characters{more}")


def add_named_runs(parser: argparse.ArgumentParser, *, asks: bool = False) -> None:
    """One run or more: each named, or all that match a filter. `armada.cli.several.choose_runs` finds them.

    Args:
        parser: The command's.
        asks: The command lists what a filter found and asks before it does anything.
    """
    parser.add_argument("runs", nargs="*", metavar="RUN", help="Run id, or its first characters; one or more")
    add_where(parser, asks=asks)


def add_where(parser: argparse.ArgumentParser, *, asks: bool = False) -> None:
    """`--where`, in place of names of runs."""
    what = (
        "All runs that match this filter, instead of RUN: 'tag:arc state:failed'; archived ones only if it names them"
    )
    parser.add_argument("--where", metavar="EXPR", help=f"{what}. Lists them and asks first" if asks else what)
    if asks:
        parser.add_argument("--yes", "-y", action="store_true", help="With --where: do not ask")


def add_host_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="Name of the host, as in hosts.yaml")


def add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", metavar="NAME", help="Use this profile instead of the host's own")


def add_experiment(parser: argparse.ArgumentParser, *, host: str, required: bool, on: str | None = None) -> None:
    """An experiment with its host, its profile, and what is changed on the command line.

    Args:
        parser: The command's.
        host: What is done with the host, for the help.
        required: Whether experiment and host must be named.
        on: What is done with a host named by its address; None where it must be known.
    """
    what = "Experiment file (YAML), or `quickstart` for the bundled one"
    parser.add_argument("experiment", nargs=None if required else "?", metavar="EXPERIMENT", help=what)
    if on is None:
        parser.add_argument("--host", required=required, metavar="NAME", help=host)
    else:
        where = parser.add_mutually_exclusive_group(required=required)
        where.add_argument("--host", metavar="NAME", help=host)
        where.add_argument("--on", metavar="TARGET", help=on)
    add_profile(parser)
    add_changes(parser)


def add_changes(parser: argparse.ArgumentParser) -> None:
    """What is changed of an experiment on the command line."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=c",
        dest="overrides",
        help="Override a setting of the experiment; repeatable",
    )
    parser.add_argument("--gpus", metavar="N", help="Use this many GPUs, or `all`, instead of resources.gpus")


def add_following(parser: argparse.ArgumentParser, *, what: str, results: str, daemon: str) -> None:
    """What happens after a run was started, and how it is told.

    Args:
        parser: The command's.
        what: That is watched, such as `run`.
        results: That come home at its end, such as `its checkpoints`.
        daemon: What the daemon does for it.
    """
    follow = f"Watch the {what} until it ends, then bring {results} home"
    parser.add_argument("--follow", "-f", action="store_true", help=follow)
    parser.add_argument("--no-daemon", action="store_true", help=f"Do not start the daemon, which {daemon}")
    parser.add_argument(
        "--json", action="store_true", help="Print one JSON object on stdout and the progress on stderr"
    )


def seconds(text: str) -> float:
    """Parse a number of seconds from 0, below a day."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value
