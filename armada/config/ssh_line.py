"""Read a provider's line, such as `ssh -p 50022 root@203.0.113.7 -i ~/.ssh/id_ed25519`, into the settings of a host."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from armada.config.documents import shown
from armada.errors import UsageError

_HINT = "user@address:port, an alias of ssh_config, or a whole line in quotes: 'ssh -p 50022 root@203.0.113.7'"
_FLAGS = frozenset("46AaCfGgKkMNnqsTtVvXxYy")
_IGNORED = frozenset("BDEILQRSbcemw")
"""With a word of their own: forwarded ports and the like, which say nothing about where the host is."""
_REFUSED = {"J": "a jump host", "F": "a configuration file", "W": "a way through another host"}
_HARMLESS = ("stricthostkeychecking", "userknownhostsfile", "identitiesonly", "serveraliveinterval", "loglevel")
"""armada pins keys itself, and offers a named key alone."""


@dataclass(frozen=True, slots=True)
class SshLine:
    """Where a host is, and the private key that the line names."""

    target: str
    identity: Path | None = None


def read_ssh_line(text: str) -> SshLine:
    """Read an address, or a whole command line of ssh.

    Raises:
        UsageError: It says something that a host's entry cannot hold, such as a jump host.
    """
    text = text.strip()
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageError(f"the quotes in {shown(text)} do not close", hint=_HINT) from None
    if len(words) < 2:
        return SshLine(text)
    if words[0] != "ssh" and not words[0].endswith("/ssh") and "@" not in words[0]:
        raise UsageError(f"{shown(text)} is neither an address nor a line that begins with ssh", hint=_HINT)
    options, rest = _taken_apart(words if "@" in words[0] else words[1:])
    if len(rest) != 1:
        what = "names no host" if not rest else f"contains a command ({shown(' '.join(rest[1:]))})"
        raise UsageError(f"{shown(text)} {what}", hint=_HINT)
    return SshLine(_target(rest[0], options), Path(options["i"]) if "i" in options else None)


def _taken_apart(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options that matter, by letter, and the words that are none; OpenSSH takes options after the host too."""
    options: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or len(word) < 2:
            rest.append(word)
            continue
        letter, value = word[1], word[2:]
        if letter in _FLAGS:
            left[:0] = [f"-{value}"] if value else []
            continue
        if not value and not left:
            raise UsageError(f"-{letter} is the last word, and its value is missing", hint=_HINT)
        _keep(options, letter, value or left.pop(0))
    return options, rest


def _keep(options: dict[str, str], letter: str, value: str) -> None:
    if letter == "o":
        name, _, said = value.replace("=", " ", 1).partition(" ")
        letter = {"port": "p", "user": "l", "identityfile": "i"}.get(name.lower(), "o")
        if letter == "o" and name.lower() in _HARMLESS:
            return
        value = said.strip() if letter != "o" else value
    if letter in _REFUSED or letter == "o":
        what = _REFUSED.get(letter, f"the option {shown(value)}")
        raise UsageError(
            f"-{letter} {shown(value)}: {what} cannot be set in hosts.yaml",
            hint="give the host a name in ~/.ssh/config, and use that name here",
        )
    if letter in "pli":
        options[letter] = value
    elif letter not in _IGNORED:
        raise UsageError(f"ssh has no option -{letter}", hint=_HINT)


def _target(destination: str, options: dict[str, str]) -> str:
    """The options and what stands in the address, as one address; as for ssh, what stands in the address wins."""
    user, at, address = destination.removeprefix("ssh://").removesuffix("/").rpartition("@")
    user = user if at else options.get("l", "")
    has_port = (address.startswith("[") and "]:" in address) or address.count(":") == 1
    if "p" in options and not has_port:
        bare = address.removeprefix("[").removesuffix("]")
        address = f"[{bare}]:{options['p']}" if ":" in bare else f"{bare}:{options['p']}"
    return f"{user}@{address}" if user else address
