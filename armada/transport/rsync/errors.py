"""Explain rsync's exit codes and messages."""

from __future__ import annotations

import re
import shlex

from armada.errors import (
    ArmadaError,
    AuthenticationFailed,
    HostUnreachable,
    LinkLost,
    NotFound,
    ProvisionFailed,
    RsyncUnusable,
)
from armada.transport.ssh.host_keys import PinnedKeys
from armada.transport.ssh.key_errors import key_changed, key_unpinned

_USAGE = {1, 3, 4, 6}
_NOT_CLEAN = 2
_DISK = 11
_SOURCE = {23, 24}

# Messages of ssh, which shares rsync's standard error; LogLevel ERROR lets these through.
_UNREACHABLE = re.compile(
    r"Connection refused|timed out|No route to host|Could not resolve|Network is unreachable", re.IGNORECASE
)
NO_SESSION = "Session open refused by peer"
_EXPOSED = re.compile(r'Load key "([^"\n]{1,300})": bad permissions')
_NOT_LET_IN = re.compile(r"Permission denied \([a-z]")
_NO_RSYNC = re.compile(
    r"rsync:? *(command )?not found|rsync: No such file|Unknown command.*rsync|not found.*\brsync\b", re.IGNORECASE
)
# The remote rsync prints this and exits. The local one, whose version was checked, then reports a lost connection.
_TOO_OLD = re.compile(r"unknown option|syntax or usage error \(code 1\)")
_BROKEN = re.compile(r"error while loading shared libraries|symbol lookup error|version `.*' not found")
_CHANGED = re.compile(r"Host key for (\S+) has changed")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def explain_exit(status: int, said: str, *, host: str, pinned: PinnedKeys, reuse_only: bool = False) -> ArmadaError:
    """Convert an exit status of rsync into an error for the user.

    Args:
        status: The exit status, not zero; negative for a signal.
        said: Its standard error, sanitized, including what ssh wrote to it.
        host: The host's name.
        pinned: The pinned keys, by alias.
        reuse_only: Whether ssh could only use a session on the shared connection.
    """
    if reuse_only and NO_SESSION in said:
        return no_session(host)
    return (
        _explain_connection(said, host=host, pinned=pinned)
        or _explain_files(status, said, host=host)
        or LinkLost(
            f"the transfer was interrupted (rsync {_ending(status)}): {_last(said)}", hint="run it again", host=host
        )
    )


def no_session(host: str) -> HostUnreachable:
    """Return the error for a connection that allows no more sessions."""
    return HostUnreachable(
        "it opens no more sessions on this connection", hint="its sshd has a low MaxSessions", host=host
    )


def _explain_connection(said: str, *, host: str, pinned: PinnedKeys) -> ArmadaError | None:
    if "HOST IDENTIFICATION HAS CHANGED" in said:
        offered, changed = _FINGERPRINT.search(said), _CHANGED.search(said)
        known = pinned.get(changed[1], ()) if changed else ()
        where = "the host" if changed and changed[1] == f"armada-{host}" else "the host, or of a jump host"
        fingerprints = [key.fingerprint for key in known] or ["another"]
        return key_changed(fingerprints, offered[0] if offered else "another", where, host=host)
    if "host key is known for" in said or "Host key verification failed" in said:
        return key_unpinned(None, "the host, or for a jump host", host=host)
    if found := _EXPOSED.search(said):
        return AuthenticationFailed(
            f"rsync's ssh did not use the private key {found[1]}: others can read it",
            hint=f"chmod 600 {shlex.quote(found[1])}",
            host=host,
        )
    if _NOT_LET_IN.search(said):
        return AuthenticationFailed(
            f"rsync's ssh was refused: {_last(said)}",
            hint="if the key has a passphrase, add it to an SSH agent",
            host=host,
        )
    if _NO_RSYNC.search(said):
        return RsyncUnusable("no rsync on this host", hint="install rsync there, e.g. apt-get install rsync", host=host)
    if _TOO_OLD.search(said):
        said = next(line for line in said.splitlines() if _TOO_OLD.search(line))
        return RsyncUnusable(
            f"the host's rsync does not support an option of this one: {_last(said)}",
            hint="install rsync 3.1 or newer there",
            host=host,
        )
    if _BROKEN.search(said):
        return RsyncUnusable(
            f"the host's rsync does not start: {_last(said)}",
            hint="check whether a start-up file there sets LD_LIBRARY_PATH",
            host=host,
        )
    if _UNREACHABLE.search(said):
        return HostUnreachable(f"rsync's ssh could not connect: {_last(said)}", host=host)
    return None


def _explain_files(status: int, said: str, *, host: str) -> ArmadaError | None:
    if status == _DISK or "No space left" in said or "Disk quota exceeded" in said:
        return ProvisionFailed(
            f"the files cannot be written; the disk may be full: {_last(said)}",
            hint="make room and run it again",
            host=host,
        )
    if status in _SOURCE:
        missing = "No such file" in said or "vanished" in said
        return (NotFound if missing else ProvisionFailed)(f"not every file could be copied: {_last(said)}", host=host)
    if status == _NOT_CLEAN:
        return RsyncUnusable(
            "the host's shell prints text where rsync expects its protocol",
            hint="put this at the top of its ~/.bashrc: case $- in *i*) ;; *) return ;; esac",
            host=host,
        )
    if status in _USAGE:
        return ProvisionFailed(f"rsync cannot do this ({_ending(status)}): {_last(said)}", host=host)
    return None


def _ending(status: int) -> str:
    return f"exit {status}" if status > 0 else f"killed by signal {-status}"


def _last(said: str) -> str:
    """Return the most useful line: the one before rsync's closing summary has the reason."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("rsync error:")]
    return (lines or said.splitlines() or ["it printed nothing"])[-1][:500]
