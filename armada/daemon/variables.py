"""The environment variables of a daemon: those that it may keep, and those that name its home from any folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from armada.store.running_operations import BY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.paths import HomePaths

# The variables that locate the program, its user, ssh's agent and the desktop. All others are dropped: the command that
# starts a daemon may carry secrets for a run, which a process that lives for days does not need.
_KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"),
        *("SSH_AUTH_SOCK", "KRB5CCNAME", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
_KEPT_PREFIXES = ("ARMADA_", "LC_", "XDG_", "PYTHON")


def environment(own: Mapping[str, str], home: HomePaths) -> dict[str, str]:
    """Return the environment variables that a daemon gets from the process that starts it.

    Args:
        own: The variables of that process.
        home: The home that the daemon serves, which need not be the one that `own` names.
    """
    kept = {name: value for name, value in own.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    kept.pop(BY, None)  # what the daemon does later, nobody has asked for
    kept.pop("ARMADA_HOME", None)
    return {**kept, **locating(own, home)}


def locating(own: Mapping[str, str], home: HomePaths) -> dict[str, str]:
    """Return the variables by which a process finds a home and the ssh configuration, whatever folder it works in.

    Args:
        own: The variables of this process. Relative paths in them count from the current folder.
        home: The home.
    """
    found = {}
    base = home.state.absolute().parent
    if (home.config.absolute(), home.state.absolute()) == (base / "config", base / "state"):
        found["ARMADA_HOME"] = str(base)
    else:
        # From the folders, not from the variables: a relative one is ignored, as its specification wants it.
        folders = {"XDG_CONFIG_HOME": home.config, "XDG_DATA_HOME": home.state}
        found |= {name: str(folder.absolute().parent) for name, folder in folders.items() if own.get(name)}
    if config := own.get("ARMADA_SSH_CONFIG"):
        found["ARMADA_SSH_CONFIG"] = str(Path(config).expanduser().absolute())
    return found
