"""`armada completion bash | zsh | fish`: print the script that completes commands, options, run ids, hosts and settings.

The words that never change are in the script, by shtab; run ids and the like are asked for when Tab is pressed (`candidates`).
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from armada.verdicts.states import STATES

SHELLS = ("bash", "zsh", "fish")

_ACTIVE_ONLY = frozenset({"stop"})
_NEW_NAMES = frozenset({"add"})
"""Verbs whose `name` is one that is not there yet."""

_BASH_WORDS = """
# Readline ends a word at each `=`; one such as train.seed=7 is one word here.
_armada() {
  local -a whole=()
  local place last=0 at=0 head typed="${COMP_WORDS[COMP_CWORD]}"
  for ((place = 0; place < ${#COMP_WORDS[@]}; place++)); do
    last=$((${#whole[@]} - 1))
    if ((place > 1)) && [[ ${whole[last]} != -* && ( ${COMP_WORDS[place]} == "=" || ${whole[last]} == *= ) ]]; then
      whole[last]+="${COMP_WORDS[place]}"
    else
      whole+=("${COMP_WORDS[place]}")
    fi
    ((place == COMP_CWORD)) && at=$((${#whole[@]} - 1))
  done
  local -a COMP_WORDS=("${whole[@]}")
  local COMP_CWORD=$at
  _shtab_armada "$@"
  if [[ ${whole[at]} == *=* ]]; then
    head="${whole[at]%"${typed#=}"}"
    COMPREPLY=("${COMPREPLY[@]#"$head"}")
  fi
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}

complete -o bashdefault -F _armada armada
"""
_PREAMBLE = {
    "bash": """
_armada_offer() {
  compgen -W "$(armada __complete "$1" 2>/dev/null | cut -f1)" -- "$2"
}
_armada_settings() {
  compgen -W "$(armada __complete settings "$1" 2>/dev/null | cut -f1)" -- "$1"
}
"""
    + "".join(
        f'_armada_{kind}() {{ _armada_offer {kind} "$1"; }}\n' for kind in ("runs", "active", "hosts", "profiles")
    ),
    "zsh": """
_armada_offer() {
  local -a found
  local name about
  while IFS=$'\\t' read -r name about; do
    found+=("${name//:/\\\\:}:$about")
  done < <(armada __complete "$1" 2>/dev/null)
  _describe "$2" found -V armada
}
_armada_settings() {
  local -a found
  found=(${(f)"$(armada __complete settings "$PREFIX" 2>/dev/null | cut -f1)"})
  compadd -S '' -V armada -a found
}
"""
    + "".join(
        f"_armada_{kind}() {{ _armada_offer {kind} {word}; }}\n"
        for kind, word in (("runs", "run"), ("active", "run"), ("hosts", "host"), ("profiles", "profile"))
    ),
}


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "completion",
        help="Print a completion script for bash, zsh or fish",
        description="Print a script that completes armada's commands, options, run ids, hosts and profiles "
        "in your shell.",
        epilog="""bash: armada completion bash > ~/.local/share/bash-completion/completions/armada
zsh:  armada completion zsh > "${fpath[1]}/_armada"
fish: armada completion fish > ~/.config/fish/completions/armada.fish""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="Your shell")
    parser.set_defaults(handler=_print)


def _print(options: argparse.Namespace) -> int:
    import shtab

    from armada.cli.main import build_parser

    parser = build_parser()
    _mark(parser, "")
    script = shtab.complete(parser, options.shell, preamble=_PREAMBLE)  # type: ignore[arg-type]  # it says str, and takes both
    if options.shell == "zsh":
        # shtab writes "(*):", which zsh reads as one argument; "*:" is any number of them.
        script = re.sub(r'^( *)"\(\*\)::?', r'\1"*:', script, flags=re.MULTILINE)
    print(script)
    if options.shell == "bash":
        print(_BASH_WORDS)
    return 0


def _mark(parser: argparse.ArgumentParser, verb: str) -> None:
    """Say of each argument what can stand there."""
    import shtab

    from armada.cli.main import COMMANDS
    from armada.cli.topics import TOPICS

    files = {
        "FILE": shtab.FILE,
        "SCRIPT": shtab.glob("*.py"),
        "EXPERIMENT": shtab.glob("*.yaml", "*.yml"),
        "DIR": shtab.DIRECTORY,
    }
    for action in parser._actions:  # noqa: SLF001 - argparse has no public name for them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, below in action.choices.items():
                _mark(below, name)
        elif kind := kind_of(action, verb):
            _complete(action, _by_shell(kind))
        elif action.metavar in files:
            _complete(action, files[str(action.metavar)])
        elif verb in {"pull", "export"} and action.dest == "checkpoint":
            action.choices = ["best", "last"]
        elif verb == "ps" and action.dest == "states":
            action.choices = STATES
        elif verb == "help" and action.dest == "topic":
            action.choices = [*(word for group in COMMANDS.values() for word in group), *TOPICS]


def kind_of(action: argparse.Action, verb: str) -> str | None:
    """Return what a word of a command names: runs, active (runs), hosts, profiles or settings; None if it is something else."""
    if action.metavar == "RUN":
        return "active" if verb in _ACTIVE_ONLY else "runs"
    if action.dest in {"profile", "profiles"}:
        return "profiles"
    if action.dest == "overrides":
        return "settings"
    of_hosts = action.dest in {"host", "hosts", "names", "source", "environments_from"} and action.metavar in {
        "NAME",
        "HOST",
    }
    of_verb = action.dest == "name" and not action.option_strings and verb not in _NEW_NAMES
    return "hosts" if of_hosts or of_verb else None


def _by_shell(kind: str) -> dict[str, str]:
    if kind == "settings":
        asked = "(armada __complete settings (commandline -ct) 2>/dev/null)"
        return {"bash": "_armada_settings", "zsh": "_armada_settings", "fish": asked}
    return {"bash": f"_armada_{kind}", "zsh": f"_armada_{kind}", "fish": f"(armada __complete {kind} 2>/dev/null)"}


def _complete(action: argparse.Action, how: Any) -> None:
    vars(action)["complete"] = how  # the attribute shtab looks for, which argparse does not know
