"""What a host remembers of its tasks: one small file below armada's folder there for each that succeeded.

By sh alone, because tasks are how a host gets its python3. Each file names the installation that it is true of: the
machine's id and when its root file system was made, so that a reinstalled machine with the old disk of data runs them
again.
"""

from __future__ import annotations

import re
import secrets
import shlex
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
# `v` enters the folder and then looks at where it is: `i` says that it got there, `w` what is wrong with it. A record is
# believed and written only in a folder that no other user can write to. As root on NFS, our files belong to `nobody`.
_ENTER = (
    "w= i=; "
    'o() {{ [ -O . ] || [ "$(id -u) $(stat -c %u .)" = "0 65534" ]; }}; '
    'v() {{ if [ -h "$d" ]; then w=link; elif [ -d "$d" ] && cd -P "$d" 2>/dev/null; then i=1; if o; then '
    "case $(ls -ld .) in ?????w*|????????w*) w=open;; esac; else w=owner; fi; "
    'elif [ -e "$d" ]; then w=folder; fi; }}; '
)
_ASK = (
    'echo; echo "{nonce} uid $(id -u)"; echo "{nonce} root $r"; v; if [ "$w" ]; then echo "{nonce} bad $w"; '
    'elif [ "$i" ]; then for k in {keys}; do if [ -d "$k" ]; then echo "{nonce} bad $k"; elif [ -f "$k" ]; then '
    'read -r a b < "$k"; if [ "$a" = "$m" ]; then echo "{nonce} done $k $b"; fi; fi; done; fi'
)
_NOTE = (
    'mkdir -p "$d"; v; if [ -d {key} ]; then w={key}; fi; if [ "$w" ]; then echo "bad $w"; exit 1; fi; [ "$i" ] && '
    'set -C && echo "$m $(date +%s)" > ".{key}.$$" && mv -f ".{key}.$$" {key}'
)
_WRONG = {
    "link": ("{path} is a link", "rm {path}"),
    "owner": ("{path} belongs to another user", "rm -r {path}"),
    "open": ("{path} can be written by others", "rm -r {path}"),
    "folder": ("{path} is no folder that you can enter", "rm -r {path}"),
}
"""What `v` finds, and what to do on the host. Records that somebody else may have written are worth nothing."""


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
        ProvisionFailed: It does not answer as sh would, or another user could have written its records.
    """
    nonce = secrets.token_hex(8)
    script = _place(root) + _ASK.format(nonce=nonce, keys=" ".join(map(_checked, keys)) or '""')
    done = connection.run(sh(script), hide=True, warn=True, timeout=_ANSWER_S)
    said = re.findall(rf"^{nonce} (uid|root|done|bad) (.+)$", done.stdout, re.MULTILINE)
    facts = {kind: words for kind, words in said if kind != "done"}
    if not facts.get("uid", "").isdigit() or not facts.get("root", "").startswith("/"):
        words = f"{done.stdout}\n{done.stderr}".strip()[-300:]
        raise ProvisionFailed(f"its login shell does not run commands: {words or 'it says nothing'}")
    if "bad" in facts:
        raise _refusal(facts["root"], facts["bad"], "")
    ended = {}
    for words in (words for kind, words in said if kind == "done"):
        key, _, at = words.partition(" ")
        if key in keys:
            ended[key] = float(at) if re.fullmatch(r"[0-9]{1,11}", at) else 0.0
    return HostState(facts["uid"] == "0", facts["root"], ended)


def note(connection: Any, root: str, key: str) -> None:
    """Record that a task succeeded.

    Raises:
        ProvisionFailed: The host cannot write below armada's folder, or another user can.
    """
    done = connection.run(sh(_place(root) + _NOTE.format(key=_checked(key))), hide=True, warn=True, timeout=_ANSWER_S)
    if not done.ok:
        if found := re.search(r"^bad (\w+)$", done.stdout, re.MULTILINE):
            raise _refusal(root, found[1], "it ran, but is not recorded: ")
        raise ProvisionFailed(f"it ran, but the host cannot record that in {root}: {done.stderr.strip()[-200:]}")


def _place(root: str) -> str:
    """Return shell code that sets `d`, the folder of the records, and `m`, the installation.

    Raises:
        ConfigError: The folder's name has a character that shells read.
    """
    if any(character in _UNQUOTABLE or not character.isprintable() for character in root):
        hint = "choose another `root` for this host"
        raise ConfigError(f"tasks cannot keep their records in {root!a}: it has one of {_UNQUOTABLE}", hint=hint)
    return (_PLACE + _ENTER).format(root=root)


def _refusal(root: str, found: str, before: str) -> ProvisionFailed:
    path = f"{root}/tools/tasks"
    words, remedy = _WRONG.get(found, (f"{{path}}/{found} is a folder", f"rm -r {{path}}/{found}"))
    quoted = path if path.startswith("~/") and " " not in path else shlex.quote(path)
    return ProvisionFailed(
        f"{before}{words.format(path=path)}; it would hold the records of tasks",
        hint=f"look at it, then remove it on the host: {remedy.format(path=quoted)}",
    )


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key of a task")
    return key
