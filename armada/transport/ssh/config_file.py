"""Generate one OpenSSH configuration per host, so that rsync's ssh, the streams' ssh and Fabric use the same settings.

For a host with a shared connection (`transport: openssh`), every user of the file goes through that connection.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from armada.errors import ConfigError
from armada.foundation.atomic_write import write_if_changed
from armada.paths import HomePaths
from armada.transport.interface import HostLike
from armada.transport.ssh.host_keys import pinned_keys
from armada.transport.ssh.resolve import HostSpec, resolve

LONGEST_SOCKET = 100
"""In bytes. A Unix socket's address has at most 108, on macOS 104, and OpenSSH refuses longer paths."""

KEPT_OPEN_S = 600
"""How long a shared connection stays open after its last use, in seconds, so that successive commands need no new login."""

# ServerAlive ends a silent link after 15–20 s, which rsync's own --timeout does not (rsync #164, #282). AES-GCM is the
# fastest cipher on processors with AES instructions. Compression is off: tensors do not compress.
_COMMON = """\
  BatchMode yes
  StrictHostKeyChecking yes
  GlobalKnownHostsFile /dev/null
  UpdateHostKeys no
  CheckHostIP no
  VerifyHostKeyDNS no
  PreferredAuthentications publickey
  ServerAliveInterval 5
  ServerAliveCountMax 3
  ConnectTimeout 10
  ForwardAgent no
  ForwardX11 no
  ClearAllForwardings yes
  ControlMaster no
  ControlPath none
  RequestTTY no
  Ciphers ^aes128-gcm@openssh.com
  Compression no
  LogLevel ERROR
"""


def write_ssh_config(spec: HostSpec, home: HomePaths, *, asking: bool = False) -> Path:
    """Write the configuration of a host. Refer to the host in it as `spec.alias`; run ssh in the file's folder.

    Args:
        spec: How to reach the host.
        home: Determines the file's folder.
        asking: Write a second file for a user at a terminal, whom ssh may ask for passphrases and codes.

    Raises:
        ConfigError: A path cannot be written into such a file.
    """
    path = home.ssh_config(f"{spec.name}+asking" if asking else spec.name)
    socket = shared_socket(spec, home).name if spec.shared else ""
    write_if_changed(path, render_ssh_config(spec, home.known_hosts, socket=socket, asking=asking))
    return path


def write_editor_config(host: HostLike, home: HomePaths) -> tuple[Path, str]:
    """Write the configuration of a host for an editor's Remote-SSH, which forwards ports and starts in any folder.

    Args:
        host: Has the same pinned keys, jump hosts and shared connection as in armada's own configuration.
        home: Determines the file's folder.

    Returns:
        The file, for an `Include`, and the name of the host in it.

    Raises:
        ConfigError: The host's SSH configuration cannot be used or written.
    """
    spec = resolve(host)
    path = home.ssh / f"{spec.name}.editor.conf"
    own = ["  BatchMode no", "  ClearAllForwardings no", "  RequestTTY auto"]
    if spec.shared:  # only `armada hosts connect` opens the shared connection, or the next command of armada
        socket = shared_socket(spec, home)
        if len(os.fsencode(socket)) > LONGEST_SOCKET:
            raise ConfigError(
                f"an editor cannot use the shared connection: the path of its socket has more than {LONGEST_SOCKET} bytes: {socket}",
                hint="set ARMADA_HOME to a shorter path, or use `transport: fabric` for this host",
            )
        own += [f"  ControlPath {_quoted(socket)}", "  ProxyCommand false"]
        blocks = []
    else:
        own.append(f"  ProxyJump {','.join(hop.alias for hop in spec.hops) or 'none'}")
        blocks = [_block(hop, home.known_hosts, first=["  ProxyJump none"]) for hop in spec.hops]
    text = "\n".join([*blocks, _block(spec, home.known_hosts, first=own)])
    write_if_changed(path, f"# Written by `armada code`; changes are lost.\n\n{text}")
    return path, spec.alias


def shared_socket(spec: HostSpec, home: HomePaths) -> Path:
    """Return the socket of a host's shared connection.

    The name is derived from how the host is reached and from its pinned keys, so that an old connection is not used
    after either changed. ssh uses only the name, within the folder: the whole path could exceed the 104 bytes of a
    socket's address.
    """
    known = pinned_keys(home)
    text = render_ssh_config(spec, home.known_hosts, socket="")
    pins = "".join(f"{key.alias} {key.blob}\n" for hop in (*spec.hops, spec) for key in known.get(hop.alias, ()))
    return home.ssh / f"{spec.name}+{hashlib.sha256((text + pins).encode()).hexdigest()[:12]}.ctl"


def render_ssh_config(spec: HostSpec, known_hosts: Path, *, socket: str = "", asking: bool = False) -> str:
    """Render the configuration of a host and of every hop on the way to it."""
    first = ["  BatchMode no"] if asking else []
    if not spec.shared:
        jumps = ",".join(hop.alias for hop in spec.hops)
        blocks = [_block(hop, known_hosts, first=[*first, "  ProxyJump none"]) for hop in spec.hops]
        blocks.append(_block(spec, known_hosts, first=[*first, f"  ProxyJump {jumps or 'none'}"]))
    else:
        blocks = _shared_blocks(spec, known_hosts, socket, first=first, asking=asking)
    return "# Written by armada before each connection; changes are lost.\n\n" + "\n".join(blocks)


def _shared_blocks(spec: HostSpec, known_hosts: Path, socket: str, *, first: Sequence[str], asking: bool) -> list[str]:
    """Render blocks for the hops, for the connection itself (`+master`), and for the clients that use it.

    ProxyJump would suffice for the hops, but with ControlPersist ssh discards the error messages of their ssh.
    """
    file, log = (f"{spec.name}{end}" for end in ("+asking.conf" if asking else ".conf", ".log"))
    ways = [f"  ProxyCommand ssh -F {file} -E {log} -W '[%h]:%p' {hop.alias}" for hop in spec.hops]
    ways.insert(0, "  ProxyJump none")
    blocks = [
        _block(hop, known_hosts, first=[*first, *_logins(hop, asking=asking), way, "  LogLevel INFO"])
        for hop, way in zip(spec.hops, ways, strict=False)
    ]
    kept = "yes" if spec.reuse_only else str(KEPT_OPEN_S)
    login = [*_logins(spec, asking=asking), f"  ControlPath {socket or 'none'}"]
    master = [*first, *login, ways[-1], "  ControlMaster yes", f"  ControlPersist {kept}", "  LogLevel INFO"]
    # Without the shared connection ssh would open a new one; `false` as the ProxyCommand prevents that.
    user = [*login, "  ProxyCommand false" if spec.reuse_only else ways[-1]]
    blocks.append(_block(spec, known_hosts, alias=f"{spec.alias}+master", first=master))
    blocks.append(_block(spec, known_hosts, first=user))
    return blocks


def _logins(machine: HostSpec, *, asking: bool) -> list[str]:
    """Return options for methods of authentication besides keys, if the host needs them."""
    methods = ["gssapi-with-mic"] * machine.gssapi + ["publickey"] + ["keyboard-interactive", "password"] * asking
    lines = ["  GSSAPIAuthentication yes"] if machine.gssapi else []
    return [*lines, f"  PreferredAuthentications {','.join(methods)}"]


def _block(spec: HostSpec, known_hosts: Path, *, first: Sequence[str], alias: str = "") -> str:
    """Render one host's lines. OpenSSH uses the first value that it finds, so `first` overrides the common options."""
    lines = [
        f"Host {alias or spec.alias}",
        *first,
        f"  HostName {spec.hostname.replace('%', '%%')}",
        f"  Port {spec.port}",
        f"  User {spec.user}",
        f"  HostKeyAlias {spec.alias}",
        f"  UserKnownHostsFile {_quoted(known_hosts)}",
        f"  AddressFamily {spec.address_family}",
        f"  IdentitiesOnly {'yes' if spec.identities_only else 'no'}",
        # Files that do not exist are left out: OpenSSH would complain about each of its own defaults.
        *(f"  IdentityFile {_quoted(path)}" for path in spec.identity_files if path.exists()),
        *(f"  CertificateFile {_quoted(path)}" for path in spec.certificate_files),
    ]
    if spec.identity_agent is not None:
        lines.append(f"  IdentityAgent {_quoted(Path(spec.identity_agent))}")
    return "\n".join(lines) + "\n" + _COMMON


def _quoted(path: Path) -> str:
    text = str(path)
    if '"' in text or "${" in text or "\n" in text:
        raise ConfigError(f'{text!a} cannot stand in an SSH configuration: it holds ", ${{ or a newline')
    return f'"{text.replace("%", "%%")}"'
