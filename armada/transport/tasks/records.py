"""What a host remembers of its tasks: one small file below armada's folder there for each that succeeded.

By sh alone, because tasks are how a host gets its python3. Each file names the installation that it is true of: the
machine's id and when its root file system was made, so that a reinstalled machine with the old disk of data runs them
again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from armada.errors import ConfigError, ProvisionFailed

_ANSWER_S = 60
_KEY = re.compile(r"[0-9a-f]{40}")
_UNQUOTABLE = "'\"$`\\!"
# The whole is one word in single quotes without any of these, which bash, csh and fish read alike.
_PLACE = (
    'umask 077; r="{root}"; '
    'case $r in "~/"*) r=$HOME/${{r#"~/"}};; esac; d=$r/tools/tasks; '
    'm=$( {{ cat /etc/machine-id; stat -c %W /; }} 2>/dev/null | cksum | tr " " -); '
)
_ASK = (
    'echo; echo "{nonce} uid $(id -u)"; echo "{nonce} root $r"; for k in {keys}; do if [ -f "$d/$k" ]; then '
    'read -r a b < "$d/$k"; if [ "$a" = "$m" ]; then echo "{nonce} done $k $b"; fi; fi; done'
)
_NOTE = 'mkdir -p "$d" && echo "$m $(date +%s)" > "$d/.{key}.$$" && mv "$d/.{key}.$$" "$d/{key}"'


@dataclass(frozen=True, slots=True)
class HostState:
    """What a host said.

    Attributes:
        is_root: Whether the login is root.
        root: armada's folder there, absolute.
        done_at: When each task that it knows of ended, in Unix seconds, by the task's key.
    """

    is_root: bool
    root: str
    done_at: dict[str, float]


def sh(script: str) -> str:
    """Return a line that runs a script by sh, for any login shell.

    Raises:
        ValueError: The script would need quoting.
    """
    if any(character in script for character in "'\\!\n"):
        raise ValueError(f"the script needs quoting: {script}")
    return f"sh -c '{script}'"


def ask(connection: Any, root: str, keys: Sequence[str]) -> HostState:
    """Ask a host which tasks it has seen succeed.

    Raises:
        ProvisionFailed: It does not answer as sh would.
    """
    nonce = secrets.token_hex(8)
    script = _place(root) + _ASK.format(nonce=nonce, keys=" ".join(map(_checked, keys)) or '""')
    done = connection.run(sh(script), hide=True, warn=True, timeout=_ANSWER_S)
    said = re.findall(rf"^{nonce} (uid|root|done) (.+)$", done.stdout, re.MULTILINE)
    facts = {kind: words for kind, words in said if kind != "done"}
    if not facts.get("uid", "").isdigit() or not facts.get("root", "").startswith("/"):
        words = f"{done.stdout}\n{done.stderr}".strip()[-300:]
        raise ProvisionFailed(f"its login shell does not run commands: {words or 'it says nothing'}")
    ended = {}
    for words in (words for kind, words in said if kind == "done"):
        key, _, at = words.partition(" ")
        if key in keys:
            ended[key] = float(at) if re.fullmatch(r"[0-9]{1,11}", at) else 0.0
    return HostState(facts["uid"] == "0", facts["root"], ended)


def note(connection: Any, root: str, key: str) -> None:
    """Record that a task succeeded.

    Raises:
        ProvisionFailed: The host cannot write below armada's folder.
    """
    done = connection.run(sh(_place(root) + _NOTE.format(key=_checked(key))), hide=True, warn=True, timeout=_ANSWER_S)
    if not done.ok:
        raise ProvisionFailed(f"it ran, but the host cannot record that in {root}: {done.stderr.strip()[-200:]}")


def _place(root: str) -> str:
    """Return shell code that sets `d`, the folder of the records, and `m`, the installation.

    Raises:
        ConfigError: The folder's name has a character that shells read.
    """
    if any(character in _UNQUOTABLE or not character.isprintable() for character in root):
        hint = "choose another `root` for this host"
        raise ConfigError(f"tasks cannot keep their records in {root!a}: it has one of {_UNQUOTABLE}", hint=hint)
    return _PLACE.format(root=root)


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key of a task")
    return key
