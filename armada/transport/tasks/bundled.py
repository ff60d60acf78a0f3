"""The tasks that armada brings. Ordinary Fabric tasks: each looks first, and does nothing where nothing is missing."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from fabric import task

from armada.errors import ProvisionFailed
from armada.transport.tasks.records import sh

_FINDS_PYTHON = (  # as armada itself does
    'command -v python3 >/dev/null || PATH="$PATH:$HOME/.local/bin"; '
    'python3 -c "import sys; sys.exit(sys.version_info < (3, 6))"'
)
_FETCH_UV = (
    'set -e; umask 077; mkdir -p "$1/tools/uv/bin"; f=$1/tools/uv/install.$$; trap "rm -f $f" EXIT; '
    "u=https://astral.sh/uv/install.sh; "
    'if command -v curl >/dev/null; then curl -LsSf "$u" -o "$f"; else wget -q "$u" -O "$f"; fi; '
    'UV_UNMANAGED_INSTALL="$1/tools/uv/bin" sh "$f"'
)
_OURS_ALONE = (  # the agent's own rule: nothing is executed that another user could have changed
    'p=$1; while :; do [ -O "$p" ] || exit 1; case $(ls -ldL "$p") in ?????w*|????????w*) exit 1;; esac; '
    '[ "$p" = "$2" ] && break; p=${p%/*}; done; [ -x "$1" ]'
)
_UV_PYTHON = (
    'set -e; umask 077; export UV_PYTHON_INSTALL_DIR="$1/tools/python"; "$2" python install --no-bin 3.12 2>/dev/null || '
    '"$2" python install 3.12; p=$("$2" python find --no-project --managed-python 3.12 || "$2" python find 3.12); '
    'mkdir -p "$HOME/.local/bin"; ln -sf "$p" "$HOME/.local/bin/python3"; "$HOME/.local/bin/python3" --version'
)


@task(name="system-packages")  # type: ignore[untyped-decorator]  # Fabric ships no types
def system_packages(c: Any, *names: str) -> None:
    """Install packages of the system that are missing."""
    manager = _package_manager(c)
    if manager is None:
        raise ProvisionFailed("neither apt-get nor dnf is on this host", hint="install there: " + " ".join(names))
    missing = [name for name in names if not _is_installed(c, manager, name)]
    if not missing:
        _say(f"already there: {' '.join(names)}")
        return
    _install(c, manager, missing)


@task  # type: ignore[untyped-decorator]  # as above
def uv(c: Any) -> None:
    """Put uv into armada's folder."""
    _say(_uv(c))


@task  # type: ignore[untyped-decorator]  # as above
def python(c: Any) -> None:
    """Get a python3 of 3.6 or newer: the system's, else uv's own build below armada's folder."""
    if _succeeds(c, _FINDS_PYTHON):
        _say("already there")
        return
    manager = _package_manager(c)
    if manager is not None and _may_be_root(c):
        _install(c, manager, ["python3"])
        if _succeeds(c, _FINDS_PYTHON):
            return
        _say("the system's python3 is too old")
    c.run(_with(_UV_PYTHON, c.armada_root, _uv(c)))
    if not _succeeds(c, _FINDS_PYTHON):
        raise ProvisionFailed(
            "a new python3 is in ~/.local/bin, but another that is older than 3.6 comes first",
            hint="PATH=$HOME/.local/bin:$PATH in ~/.bashrc there, before a line that returns",
        )


def _say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")


def _uv(c: Any) -> str:
    """Return the path of a uv on the host, fetched if there is none.

    Raises:
        ProvisionFailed: It cannot be fetched, or another user could change it.
    """
    own = f"{c.armada_root}/tools/uv/bin/uv"
    found = c.run(sh('command -v uv || ls "$HOME/.local/bin/uv"'), hide=True, warn=True)
    if found.ok and found.stdout.strip():
        return str(found.stdout.strip().splitlines()[-1])
    there = _with('[ -e "$1" ]', own)
    if not c.run(there, hide=True, warn=True).ok:
        if not _succeeds(c, "command -v curl || command -v wget"):
            words = "uv cannot be fetched there: neither curl nor wget"
            raise ProvisionFailed(words, hint="as root, or with sudo: system-packages=curl")
        c.run(_with(_FETCH_UV, c.armada_root))
    if not c.run(_with(_OURS_ALONE, own, c.armada_root), hide=True, warn=True).ok:
        raise ProvisionFailed(f"another user may change {own}", hint=f"chmod -R go-w {c.armada_root}")
    return own


def _package_manager(c: Any) -> str | None:
    for name in ("apt-get", "dnf", "microdnf", "yum"):
        if _succeeds(c, f"command -v {name}"):
            return name
    return None


def _is_installed(c: Any, manager: str, name: str) -> bool:
    package = shlex.quote(name)
    if manager == "apt-get":
        # `${…}` is dpkg-query's own. A package that was removed stays known to dpkg, with another status.
        said = c.run(f"dpkg-query -W -f '${{db:Status-Abbrev}}' {package.partition('=')[0]}", hide=True, warn=True)
        return bool(said.ok and said.stdout.startswith("ii"))
    return bool(c.run(f"rpm -q --whatprovides {package}", hide=True, warn=True).ok)


def _install(c: Any, manager: str, names: list[str]) -> None:
    words = " ".join(map(shlex.quote, names))
    if manager == "apt-get":
        # Another apt, such as a new machine's own first update, is waited for.
        apt = "env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -y"
        c.sudo(f"{apt} -q update", warn=True)  # lists that are there may do
        c.sudo(f"{apt} --no-install-recommends install {words}")
    else:
        c.sudo(f"{manager} -y install {words}")


def _may_be_root(c: Any) -> bool:
    return bool(c.is_root or c.config.sudo.password is not None or _succeeds(c, "sudo -n true"))


def _succeeds(c: Any, script: str) -> bool:
    return bool(c.run(sh(script), hide=True, warn=True).ok)


def _with(script: str, *arguments: str) -> str:
    """A script for sh, with arguments that any login shell passes on unchanged."""
    return " ".join([sh(script), "sh", *map(shlex.quote, arguments)])
