"""Read a provider's line, such as `ssh -p 50022 root@203.0.113.7 -i ~/.ssh/id_ed25519`, into the settings of a host."""

from __future__ import annotations

import re
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
_NAMED = {"port": "p", "user": "l", "identityfile": "i", "proxyjump": "J"}
"""Options of ssh_config that have a letter, too."""
_HARMLESS = frozenset(
    (
        "addkeystoagent", "batchmode", "checkhostip", "compression", "connectionattempts", "connecttimeout", "controlmaster",
        "controlpath", "controlpersist", "dynamicforward", "escapechar", "exitonforwardfailure", "forwardagent", "forwardx11",
        "forwardx11trusted", "globalknownhostsfile", "hashknownhosts", "hostkeyalias", "identitiesonly", "localforward",
        "loglevel", "passwordauthentication", "permitlocalcommand", "preferredauthentications", "pubkeyauthentication",
        "remoteforward", "requesttty", "sendenv", "serveralivecountmax", "serveraliveinterval", "setenv",
        "stricthostkeychecking", "tcpkeepalive", "updatehostkeys", "userknownhostsfile", "verifyhostkeydns", "visualhostkey",
    )
)  # fmt: skip
"""armada pins keys itself, offers a named key alone, and opens connections in its own way."""

_TYPOGRAPHY = str.maketrans(
    {**dict.fromkeys("“”„‟″", '"'), **dict.fromkeys("‘’‚‛′", "'"), "\u00a0": " ", "\u200b": "", "\ufeff": ""}
)
"""What pages and chats make of quotes and blanks."""
_DASH = re.compile(r"(?<!\S)[‐‑‒–—−](?=[A-Za-z])")
_PROMPT = re.compile(r"[^'\"]{0,80}?[$#%>❯➜]\s+(?=(?:\S*/)?(?:ssh|scp|sftp|rsync|mosh|gcloud|az|aws)\s)")
_OTHERS = {
    **dict.fromkeys(
        ("scp", "sftp", "rsync"), "this line copies files; the page that shows it has one for ssh, too (scp's -P is ssh's -p)"
    ),
    "gcloud": "run this line with --dry-run at its end: gcloud then prints the ssh command, which armada takes",
    "az": "az ssh config --help writes the machine into ~/.ssh/config; use its name there",
    "aws": "in the console, Connect > SSH client shows a line: ssh -i key.pem ubuntu@ec2-….amazonaws.com",
    "mosh": "the same without mosh: 'ssh user@address'",
}  # fmt: skip
"""Other programs that providers show, and what to use instead."""


@dataclass(frozen=True, slots=True)
class SshLine:
    """Where a host is, and the private key that the line names."""

    target: str
    identity: Path | None = None


def read_ssh_line(text: str) -> SshLine:
    """Read an address, or a whole command line of ssh as it is pasted: with a prompt, typographic quotes, line breaks.

    Raises:
        UsageError: It says something that a host's entry cannot hold, such as a jump host.
    """
    text = _plain(text)
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageError(f"the quotes in {shown(text)} do not close", hint=_HINT) from None
    if len(words) < 2 and _program(words) != "ssh":
        return SshLine(_bare(words[0]) if words else text)
    if _program(words) != "ssh" and "@" not in words[0]:
        hint = _OTHERS.get(_program(words), _HINT)
        raise UsageError(f"{shown(text)} is neither an address nor a line that begins with ssh", hint=hint)
    options, rest = _taken_apart(words if "@" in words[0] else words[1:])
    if len(rest) != 1:
        what = "names no host" if not rest else f"contains a command ({shown(' '.join(rest[1:]))})"
        kept = words[: len(words) - max(0, len(rest) - 1)]
        kept[-1:] = [word.rstrip(";&|") for word in kept[-1:]]  # it belongs to the command
        without = shlex.join(kept).removesuffix(" --")
        hint = f"the line without it: {shown(without, 200)}" if rest else _HINT
        raise UsageError(f"{shown(text)} {what}", hint=hint)
    _refuse_ways(options, rest[0])
    return SshLine(_target(rest[0], options), Path(options["i"]) if "i" in options else None)


def _plain(text: str) -> str:
    """The line as it was typed once: no prompt before it, no line breaks in it, quotes and dashes as a shell knows them."""
    text = re.sub(r"\\?\s*[\r\n]+\s*", " ", text.translate(_TYPOGRAPHY)).strip()
    text = _DASH.sub("-", text)
    return text if text.startswith("ssh") else _PROMPT.sub("", text, count=1)


def _program(words: list[str]) -> str:
    return words[0].rpartition("/")[2] if words and "://" not in words[0] else ""


def _bare(word: str) -> str:
    return word.removeprefix("ssh://").removesuffix("/") if word.startswith("ssh://") else word


def _taken_apart(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options that matter, by letter, and the words that are none; OpenSSH takes options after the host too."""
    options: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or len(word) < 2:
            if rest:
                return options, [*rest, word, *left]  # a command, and its own options
            rest.append(_destination(word, options))
            continue
        if word == "--":
            return options, [*rest, *left]
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
        letter = _NAMED.get(name.lower(), "o")
        if letter == "o" and name.lower() in _HARMLESS:
            return
        value = said.strip() if letter != "o" else value
    if letter == "p" and not (re.fullmatch("[0-9]{1,5}", value) and 0 < int(value) < 65536):
        raise UsageError(f"-p {shown(value)}: a port is a number from 1 to 65535", hint=_HINT)
    if letter in "pli" or letter == "o" or letter in _REFUSED:
        if not (letter == "J" and value.lower() == "none"):
            options.setdefault(letter, value)  # as for ssh, the first one counts
    elif letter not in _IGNORED:
        raise UsageError(f"ssh has no option -{letter}", hint=_HINT)


def _refuse_ways(options: dict[str, str], name: str) -> None:
    """Refuse what says how to get there: ssh_config can say it, an entry cannot.

    Raises:
        UsageError: It names the lines for ssh_config.
    """
    letter = next((letter for letter in options if letter in _REFUSED or letter == "o"), None)
    if letter is None:
        return
    value = options[letter]
    what = _REFUSED.get(letter, f"the option {shown(value)}")
    hint = "give the host a name in ~/.ssh/config, and use that name here"
    if letter == "J":
        said = {"HostName": name, "Port": options.get("p"), "User": options.get("l"), "ProxyJump": value}
        lines = ["Host NAME", *(f"{key} {each}" for key, each in said.items() if each)]
        hint = f"{hint}: {' / '.join(lines)}"
    raise UsageError(f"-{letter} {shown(value)}: {what} cannot be set in hosts.yaml", hint=hint)


def _destination(word: str, options: dict[str, str]) -> str:
    """Note the user and the port of an address among the options, and return the rest of it; as for ssh, what comes first counts."""
    user, at, address = _bare(word).rpartition("@")
    if at:
        options.setdefault("l", user)
    bracketed = re.fullmatch(r"\[([^\[\]]+)\](?::(\d+))?", address)
    name, port = bracketed.groups() if bracketed else (address, None)
    if not bracketed and address.count(":") == 1:
        name, _, port = address.partition(":")
    if port is not None:
        _keep(options, "p", port)
    return name


def _target(name: str, options: dict[str, str]) -> str:
    address = f"[{name}]" if ":" in name and "p" in options else name
    port = f":{options['p']}" if "p" in options else ""
    return f"{options['l']}@{address}{port}" if options.get("l") else f"{address}{port}"
