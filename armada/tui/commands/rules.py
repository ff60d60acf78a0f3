"""What a command does, as far as the dashboard must know: whether it reads, asks first, or needs a terminal of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from armada.tui.commands.registry import OWN

if TYPE_CHECKING:
    from armada.tui.commands.typed import Typed

Manner = Literal["own", "reads", "prints", "acts", "lent", "refused"]
"""own: the dashboard's; reads: its output is shown; prints: it acts, and its output is shown; acts: an operation; lent: it gets
the terminal; refused: it cannot work here."""

_READS = frozenset(
    {
        "code", "compare", "completion", "config schema", "config show", "costs", "daemon logs", "daemon status", "data show", "diff",
        "doctor", "help", "hosts homes", "hosts ls", "logs", "plan", "profiles ls", "profiles show", "profiles validate", "ps", "show",
        "store check", "sweep best", "sweep show", "sync ls", "why",
    }
)  # fmt: skip
_AT_HOME = frozenset(
    {
        "compare", "completion", "config schema", "costs", "daemon logs", "daemon status", "diff", "help", "hosts ls", "profiles ls",
        "profiles show", "profiles validate", "sync ls",
    }
)  # fmt: skip
"""Those that read this machine's files alone: a read-only dashboard starts them."""
_CACHED = frozenset({"ps", "sweep best", "sweep show"})
"""Those that do so with --cached, which a read-only dashboard adds."""
_WRITES = {
    "bench": frozenset({"--apply", "--chart", "--csv"}),
    "config edit": frozenset({"--to"}),
    "profiles detect": frozenset({"--save"}),
}
"""Options with which commands that read write something, too."""
_READS_WITH = {"bench": "--show", "hosts provision": "--list"}
"""Commands that act, and the option with which they only read."""
_PRINTS = frozenset({"exec", "report", "sync verify"})
_ASKS = frozenset(
    {
        "daemon stop", "hosts forget-home", "hosts reap", "hosts release", "hosts rm", "recover", "resume", "rm", "stop", "sweep retry",
        "sweep stop", "sync retention",
    }
)  # fmt: skip
"""Acts that cannot be undone, or that cost money: the dashboard asks first."""
_CONFIRMED = frozenset({"hosts reap"})
"""Those of them that ask at a terminal, too: a yes here is `--yes` there. `stop` and `rm` ask only about a filter, which is
replaced by the runs that it finds."""
_TERMINAL = {
    "daemon run": "it does not end; `daemon start` starts it in the background",
    "dashboard": "it is open already",
    "mcp": "it is for an assistant's program, which starts it itself",
}
_TERMINAL_FLAGS = {
    ("logs", "--follow"): "l on a run follows its log",
    ("daemon logs", "--follow"): "leave it out; the output then ends",
}
_FOLLOWS = frozenset({"-f", "--follow"})
_LENT = frozenset({"forward", "ssh"})
"""Commands that get the terminal, and give it back when they end."""
_LENT_WITH = {
    "exec": frozenset({"-t", "--tty"}),
    "hosts provision": frozenset({"--ask-sudo-password"}),
    "note": frozenset({"--edit"}),
}
"""Those that get it with one of these options."""


FORMS = {"hosts add": "opens the form for a new host", "launch": "opens Launch"}
"""Commands that open a form when nothing is typed after them."""


def form(typed: Typed) -> str | None:
    """Return what a command without arguments opens in place of a refusal; None if it opens nothing."""
    return FORMS.get(typed.command.name) if not (typed.given or typed.flags) else None


def manner(typed: Typed) -> Manner:
    """Return how a command is carried out."""
    name = typed.command.name
    if refusal(typed) is not None:
        return "refused"
    if name in OWN:
        return "own"
    if {"-h", "--help"} & typed.flags:
        return "reads"
    if name in _LENT or typed.flags & _LENT_WITH.get(name, frozenset()):
        return "lent"
    if "--dry-run" in typed.flags or _only_reads(name, typed.flags):
        return "reads"
    return "prints" if name in _PRINTS or _READS_WITH.get(name) in typed.flags else "acts"


def _only_reads(name: str, flags: frozenset[str]) -> bool:
    if name in _READS_WITH and _READS_WITH[name] not in flags:
        return False
    reads = name in _READS or name in _WRITES or name in _READS_WITH
    return reads and not flags & _WRITES.get(name, frozenset()) and "--remember" not in flags


def refusal(typed: Typed) -> str | None:
    """Return why a command cannot be started from here; None if it can."""
    name = typed.command.name
    if name in OWN:
        return _too_much(typed)
    if name in _TERMINAL:
        return f"{name}: {_TERMINAL[name]}"
    for flag in sorted(typed.flags):
        if (name, flag) in _TERMINAL_FLAGS:
            return f"{name} {flag}: {_TERMINAL_FLAGS[name, flag]}"
        if flag in _FOLLOWS and name != "logs":
            return f"{name} {flag}: leave it out; the dashboard follows by itself"
    return None


def _too_much(typed: Typed) -> str | None:
    """Return which words after one of the dashboard's own it does not take; None if it takes them all."""
    name, flags = typed.command.name, sorted(typed.flags - {"--"})
    if {"-h", "--help"} & typed.flags:
        return f"{name}: {typed.command.about}"
    if flags:
        return f"{name} has no option {flags[0]}"
    if typed.given and not typed.command.words:
        return f"{name} takes no argument: leave out {' '.join(typed.given)!r}"
    return None


def changes(typed: Typed) -> bool:
    """Return whether a read-only dashboard refuses a command: it changes something, or asks a host."""
    how = manner(typed)
    if how in ("own", "refused") or {"-h", "--help"} & typed.flags:
        return typed.command.name == "undo"
    name = typed.command.name
    return not (how == "reads" and name in _AT_HOME | _CACHED)


def from_home_alone(typed: Typed, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with --cached where a command then asks no host, for a read-only dashboard."""
    if typed.command.name not in _CACHED or "--cached" in words:
        return words
    place = len(typed.command.path)
    return (*words[:place], "--cached", *words[place:])


def asks(typed: Typed) -> bool:
    """Return whether the dashboard asks before it starts a command."""
    return typed.command.name in _ASKS and manner(typed) == "acts"


def confirmed(typed: Typed, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command to which the user has said yes."""
    wants = typed.command.name in _CONFIRMED or (typed.command.name == "hosts release" and "--wipe" in typed.flags)
    if not wants or {"-y", "--yes"} & typed.flags:
        return words
    place = len(typed.command.path)
    return (*words[:place], "--yes", *words[place:])
