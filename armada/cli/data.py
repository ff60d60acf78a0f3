"""`armada data show`: what a model will see of an experiment's data."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from armada.cli.experiment import read_experiment
from armada.cli.options import add_experiment
from armada.cli.printing import has_colours, print_json
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.tasks.bundled import BundledTraining
    from armada.launch.training.data_view import DataView, Example, PartView, Sample

_HOST_HELP = "Host that tokenises the rows: one where the experiment was launched or prepared (default: local)"
_LONGEST_SHOWN = 4000
_GREY, _PLAIN = "\x1b[90m", "\x1b[0m"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "data",
        help="Show what a model will see of an experiment's data",
        description="Show what a model will see of an experiment's data.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)
    show = verbs.add_parser(
        "show",
        help="Show rows as the model sees them, and their lengths",
        description="Read the data of an experiment, and show its first rows, with what is not trained on in grey (in "
        "[[ ]] without colours), and the lengths of all.",
    )
    add_experiment(show, host=_HOST_HELP, required=False)
    show.add_argument("--n", type=_count, default=3, metavar="N", help="Show this many rows of each part (default: 3)")
    show.add_argument("--json", action="store_true", help="Print a JSON object")
    show.set_defaults(handler=_show)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        message = "must be a number from 0 to 100"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def say_view(view: DataView, long_samples: str, max_length: int) -> None:
    """Print a view for people."""
    for part in view.parts:
        _say_part(part, view.unit, long_samples, max_length, in_colours=has_colours())
    for note in view.notes:
        print(f"⚠ {sanitize_line(note)}")
    if view.why is not None:
        print(f"lengths are {view.unit}: {sanitize_line(view.why, 900)}")


def _say_part(part: PartView, unit: str, long_samples: str, max_length: int, *, in_colours: bool) -> None:
    sample = part.sample
    rows = "rows that only the host can read" if sample.count is None else counted(sample.count, "row")
    print(f"{sample.part}: {rows}" + (f", which look like {sample.looks}" if sample.looks else ""))
    for number, example in enumerate(part.examples, start=1):
        of_them = "" if sample.is_prompts else f", {example.trained:,} of them trained on"
        print(f"\n  row {number}: {example.length:,} {unit}{of_them}")
        print(_text_of(example, in_colours=in_colours))
    if not part.sampled:
        print()
        return
    of = "all rows" if part.sampled == sample.count else f"the first {counted(part.sampled, 'row')}"
    lengths = f"least {part.shortest:,}, median {part.median:,}, p95 {part.p95:,}, most {part.longest:,} {unit}"
    print(f"\n  {lengths} ({of})")
    if sample.is_prompts:
        print("  the model writes the completions, which it is trained on")
    else:
        print(f"  {part.trained / max(1, part.total):.1%} of {part.total:,} {unit} are trained on")
    if part.untrained_rows:
        print(f"  ⚠ nothing is trained on in {counted(part.untrained_rows, 'row')}")
    if part.beyond is not None:
        done = {"drop": "dropped", "truncate": "cut", "split": "split"}[long_samples]
        is_are = "is" if part.beyond == 1 else "are"
        limit = f"train.max_length {max_length:,}" + (" less its completion" if sample.is_prompts else "")
        print(f"  {counted(part.beyond, 'row')} {is_are} longer than {limit}, and will be {done}")
    print()


def _text_of(example: Example, *, in_colours: bool) -> str:
    said = []
    left = _LONGEST_SHOWN
    for piece in example.pieces:
        text = sanitize_text(piece.text[:left])
        left -= len(piece.text)
        before = f"{sanitize_line(piece.of, 40)}: " if piece.of else ""
        if piece.trained:
            said.append(before + text)
        else:
            masked = before + text
            said.append(_grey(masked) if in_colours else f"[[{masked}]]")
        if left <= 0:
            said.append(f"… {-left:,} characters more" if left < 0 else "")
            break
    between = "\n" if any(piece.of for piece in example.pieces) else ""
    return between.join(said)


def _grey(text: str) -> str:
    """Each line by itself: what shows some lines of an output shows them in their colour."""
    return "\n".join(f"{_GREY}{line}{_PLAIN}" if line else "" for line in text.split("\n"))


def _show(options: argparse.Namespace) -> int:
    from armada.errors import UsageError
    from armada.launch.training.data_view import as_json, read_samples, view_characters

    if options.experiment is None:
        raise UsageError("which experiment?", hint="armada data show EXPERIMENT.yaml")
    experiment, samples = read_samples(read_experiment(options))
    found = _ask_host(options, experiment, samples)
    view = view_characters(samples, options.n, found) if isinstance(found, str) else found
    if options.json:
        print_json(as_json(view, experiment))
    else:
        say_view(view, experiment.train.long_samples, experiment.train.max_length)
    return 0


def _ask_host(options: argparse.Namespace, experiment: BundledTraining, samples: Sequence[Sample]) -> DataView | str:
    """Tokenise the rows on a host that can; otherwise return why not. A host that was named must be known."""
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.errors import ArmadaError
    from armada.launch.plans.task import Order
    from armada.launch.service import launch_of
    from armada.launch.training.data_tokens import view_tokens, why_not

    context = Context(reads=True)
    name = options.host or "local"
    host = context.host(name)
    if experiment.data.has_hook:
        return "its rows are made while training, by a hook"
    reporter = Reporter(sys.stderr)
    try:
        with context.session(host.name, looks=True) as session:
            order = Order(session, context.home, context.database, options.profile, None)
            plan = launch_of(experiment, order, only_prepare=True).plan()
            if (lacking := why_not(plan)) is not None:
                return lacking
            reporter.now("tokens", f"{name} loads the tokenizer")
            return view_tokens(plan, session, samples, options.n)
    except ArmadaError as error:
        more = f" ({error.hint})" if error.hint else ""
        ask = "" if options.host else "; --host names another host"
        return f"{name} cannot tokenise them: {error}{more}{ask}"
    finally:
        reporter.clear()
