"""Resolve a name in your SSH configuration with OpenSSH itself (`ssh -G`)."""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from armada.errors import ConfigError
from armada.foundation.sanitize import sanitize_text
from armada.foundation.user_folder import expanded, expanded_or_same
from armada.transport.interface import HostLike
from armada.transport.ssh.names import has_control_characters

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ADDRESS = re.compile(r"[\w.:%-]+")
_RESOLVE_TIMEOUT_S = 20.0
_MAX_HOPS = 8


@dataclass(frozen=True, slots=True)
class HostSpec:
    """How to reach one machine, with every setting resolved.

    `hops` are the machines on the way, the first one reachable directly; hops have no hops of their own. An
    `identity_agent` of None means the one in SSH_AUTH_SOCK. `shared`: use the one connection that OpenSSH keeps open.
    `reuse_only`: only the user opens that connection. `gssapi`: Kerberos may log in, which Paramiko does not support.
    """

    name: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None
    address_family: str = "any"
    gssapi: bool = False
    shared: bool = False
    reuse_only: bool = False
    hops: tuple[HostSpec, ...] = ()

    @property
    def alias(self) -> str:
        """The name under which the key is pinned: addresses of rented machines are reused, this name is not."""
        return f"armada-{self.name}"

    @property
    def place(self) -> tuple[object, ...]:
        """Where it is and as whom one logs in there, whatever it is called: two of the same are the same account of a machine."""
        return (self.hostname, self.port, self.user, *(hop.place for hop in self.hops))

    @property
    def target(self) -> str:
        """The destination as a user would type it."""
        address = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Destination:
    """`[user@]host[:port]` parsed, without any look-up."""

    host: str
    user: str | None = None
    port: int | None = None


def resolve(host: HostLike) -> HostSpec:
    """Ask OpenSSH how to reach `host`. ARMADA_SSH_CONFIG names a file to use instead of the user's own configuration.

    Raises:
        ConfigError: The address cannot be used, or OpenSSH rejects its configuration.
    """
    if not _NAME.fullmatch(host.name):
        raise ConfigError(f"{host.name!a} cannot be a host's name: use letters, digits, dot, dash and underscore")
    if host.ssh is None:
        raise ConfigError(f"host {host.name} has no address", hint="give it `ssh: user@address:port` or an alias")
    spec = _resolve(host.ssh, host.name, depth=0)
    if host.identity is not None:
        chosen = expanded(host.identity).absolute()
        _checked(str(chosen), "identity file", spaces=True)
        spec = replace(spec, identity_files=(chosen,), certificate_files=(), identities_only=True)
    hops = tuple(replace(hop, name=f"{host.name}+hop{k}") for k, hop in enumerate(spec.hops, start=1))
    return replace(spec, hops=hops, shared=host.transport == "openssh", reuse_only=host.reuse_only)


def parse_destination(text: str) -> Destination:
    """Parse `[ssh://][user@]host[:port]`; IPv6 addresses with a port need brackets.

    Raises:
        ConfigError: The text is not an address, or OpenSSH could take it for an option.
    """
    rest = _checked(text, "address").removeprefix("ssh://").removesuffix("/")
    user, at, address = rest.rpartition("@")
    if at:
        _checked(user, "user")
    match = re.fullmatch(
        r"\[(?P<v6>[^\[\]]+)\](?::(?P<port>[0-9]{1,5}))?|(?P<host>[^:\[\]]+)(?::(?P<port2>[0-9]{1,5}))?", address
    )
    if match is None:
        if address.count(":") > 1 and re.fullmatch(r"[0-9A-Fa-f:.]+(%[\w.-]+)?", address):
            return Destination(host=address, user=user or None)
        raise ConfigError(
            f"{text!a} is not an SSH address", hint="write alias, user@host, user@host:port, user@[IPv6]:port"
        )
    port = match["port"] or match["port2"]
    if port is not None and not 0 < int(port) < 65536:
        raise ConfigError(f"{port} in {text!a} is not a port")
    name = _checked(match["v6"] or match["host"], "host name")
    return Destination(host=name, user=user or None, port=int(port) if port else None)


def _resolve(address: str, name: str, *, depth: int) -> HostSpec:
    if depth > _MAX_HOPS:
        raise ConfigError(f"ProxyJump of {address!a} forms a loop")
    answers = _ask_openssh(parse_destination(address))
    first = {key: values[0] for key, values in answers.items()}
    if first.get("proxycommand", "none") != "none":
        raise ConfigError(
            f"{address!a} is reached by a ProxyCommand, which armada does not run",
            hint="use ProxyJump instead, if you can",
        )
    tokens = _tokens(first, address)
    return HostSpec(
        name=name,
        hostname=_checked_address(first["hostname"]),
        port=int(first["port"]),
        user=_checked(first["user"], "user"),
        identity_files=_paths(answers.get("identityfile", []), tokens),
        certificate_files=_paths(answers.get("certificatefile", []), tokens),
        identities_only=first.get("identitiesonly") == "yes",
        identity_agent=_identity_agent(first.get("identityagent", "SSH_AUTH_SOCK"), tokens),
        address_family=first.get("addressfamily", "any"),
        gssapi=first.get("gssapiauthentication") == "yes",
        hops=_resolve_hops(first.get("proxyjump", "none"), name, depth=depth),
    )


def _resolve_hops(proxy_jump: str, name: str, *, depth: int) -> tuple[HostSpec, ...]:
    if proxy_jump == "none":
        return ()
    nearest, *others = proxy_jump.split(",")
    # As in OpenSSH, only the nearest hop's own ProxyJump counts; the list gives the way to the others.
    first = _resolve(nearest, name, depth=depth + 1)
    rest = [replace(_resolve(hop, name, depth=depth + 1), hops=()) for hop in others]
    return (*first.hops, replace(first, hops=()), *rest)


def _ask_openssh(destination: Destination) -> dict[str, list[str]]:
    command = ["ssh", "-G", "-T"]
    if config := os.environ.get("ARMADA_SSH_CONFIG"):
        command += ["-F", config]
    if destination.user is not None:
        command += ["-l", destination.user]
    if destination.port is not None:
        command += ["-p", str(destination.port)]
    command += ["--", destination.host]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_RESOLVE_TIMEOUT_S,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise ConfigError("there is no `ssh` on this machine", hint="install OpenSSH's client") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"`ssh -G {destination.host}` did not answer", hint="a `Match exec` may hang") from error
    if done.returncode != 0:
        raise ConfigError(f"OpenSSH rejects {destination.host!a}: {sanitize_text(done.stderr, limit=1000).strip()}")
    answers: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        answers.setdefault(key, []).append(value)
    return answers


def _tokens(first: dict[str, str], address: str) -> dict[str, str]:
    """Return OpenSSH's values for %h and other tokens in key paths, which `ssh -G` does not expand."""
    return {
        "%": "%",
        "d": str(Path.home()),
        "h": first["hostname"],
        "i": str(os.getuid()),
        "L": socket.gethostname().partition(".")[0],
        "l": socket.gethostname(),
        "n": parse_destination(address).host,
        "p": first["port"],
        "r": first["user"],
        "u": pwd.getpwuid(os.getuid()).pw_name,
    }


def _identity_agent(value: str, tokens: dict[str, str]) -> str | None:
    if value.startswith("$"):
        value = os.environ.get(value.strip("${}"), "none")
    if value in {"SSH_AUTH_SOCK", "none"}:
        return None if value == "SSH_AUTH_SOCK" else value
    return str(_paths([value], tokens)[0])


def _paths(values: list[str], tokens: dict[str, str]) -> tuple[Path, ...]:
    named = (
        re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), value) for value in values if value != "none"
    )
    return tuple(expanded_or_same(_checked(value, "identity file", spaces=True)) for value in named)


def _checked_address(value: str) -> str:
    """Return a host name or address without shell characters: ssh runs the command for a hop through a shell."""
    if not _ADDRESS.fullmatch(_checked(value, "host name")):
        raise ConfigError(f"{value!a} cannot be a host name: use letters, digits and . : % _ -")
    return value


def _checked(value: str, what: str, *, spaces: bool = False) -> str:
    """Return a value that can neither be taken for an option nor end a line of a configuration file."""
    if not value or value.startswith("-"):
        raise ConfigError(f"{value!a} cannot be a {what}: OpenSSH would take it for an option")
    if has_control_characters(value) or '"' in value or (not spaces and any(mark.isspace() for mark in value)):
        raise ConfigError(f"{value!a} cannot be a {what}: it contains a space, a quote or a control character")
    return value
