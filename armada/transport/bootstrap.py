"""Start the agent on a host that may have nothing but python3.

One constant command line, the same for every host and every login shell (bash, csh, fish), starts sh, which reads a
program from standard input. No name, path or secret is ever part of a command line.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import zlib
from typing import TYPE_CHECKING

from armada.paths import bundled
from armada.protocol.version import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = b"@@ARMADA "  # begins the lines meant for armada, as opposed to output of a shell's start-up files

LOADER = "import sys;exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())).decode())"

# A start-up file's LD_LIBRARY_PATH may keep the host's own python3 from starting, decompressing or using TLS. It is
# removed only if that helps, because a python3 from a module may need it. Costs nothing if none is set.
_MODULES = 'python3 -I -c "import zlib,ssl" 2>/dev/null </dev/null'
START_PYTHON = (
    # Where `armada hosts provision HOST python` puts one, on a host that has none and no root to install it.
    'command -v python3 >/dev/null || PATH="$PATH:$HOME/.local/bin"; '
    f'[ -z "$LD_LIBRARY_PATH" ] || {_MODULES} || if LD_LIBRARY_PATH= {_MODULES}; then'
    ' export ARMADA_LEFT_OUT="$LD_LIBRARY_PATH"; unset LD_LIBRARY_PATH; fi; exec'
)
"""Shell code that goes before `python3` in a line for sh."""

COMMAND = f"sh -c '{START_PYTHON} python3 -c \"{LOADER}\"'"

# Python 3.6. No import before the working folder is removed from sys.path: it is the user's home folder, where a file
# called json.py is not unusual. PYTHONPATH is removed for the same reason.
BEGIN = """\
import os, sys

strangers = {"", os.getcwd()} | set(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
sys.path[:] = [entry for entry in sys.path if entry not in strangers]

"""

_MAIN = """\
import base64, errno, hashlib, json

try:
    import zlib
except ImportError:
    zlib = None


class Refused(Exception):
    def __init__(self, kind, message):
        Exception.__init__(self, message)
        self.kind = kind


class Absent(Refused):
    def __init__(self, message, name):
        Refused.__init__(self, "not_found", message)
        self.name = name


def read_name(path):
    try:
        with open(path, "rb") as stream:
            return stream.read(65536).decode("utf-8", "replace")
    except OSError:
        return ""


def say(nonce, **message):
    sys.stdout.write("\\n@@ARMADA " + json.dumps(dict(message, nonce=nonce)) + "\\n")
    sys.stdout.flush()


def make_private(folder):
    if not os.path.isdir(folder):
        login_umask = os.umask(0o022)
        os.umask(login_umask | 0o022)
        try:
            os.makedirs(os.path.dirname(folder), exist_ok=True)
        finally:
            os.umask(login_umask)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise


def holds(path, sha256):
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def receive(stdin, pending):
    while True:
        line = stdin.readline()
        if not line.endswith(b"\\n"):
            sys.exit(0)
        message = json.loads(line.decode())
        if "agent" in message:
            data = base64.b64decode(message["agent"])
            return zlib.decompress(data) if message.get("packed") else data
        pending.append(line)


def keep(path, data, nonce):
    part = path + "." + nonce + ".part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(part, path)
    except BaseException:
        os.unlink(part)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def prepare(head, stdin, pending):
    if sys.version_info < (3, 6):
        raise Refused("environment", "python3 is %d.%d here; 3.6 is the oldest that works" % sys.version_info[:2])
    root = os.path.expanduser(head["root"])
    if root.startswith("~"):
        raise Refused("environment", "no home folder for " + head["root"])
    root = os.path.abspath(root)
    require_way(root)
    if head.get("looks") and not any(os.path.isdir(os.path.join(root, name)) for name in ("agent", "runs")):
        raise Absent("nothing of armada's is below " + root, read_name(os.path.join(root, "root.json")))
    if not os.path.isdir(root):
        make_private(root)
        require_way(root)
    require_below(root)
    make_private(os.path.join(root, "agent"))
    path = os.path.join(root, "agent", head["sha256"] + ".pyz")
    require_below(root, [os.path.join("agent", head["sha256"] + ".pyz")])
    if not holds(path, head["sha256"]):
        say(head["nonce"], need="agent", packed=zlib is not None)
        data = receive(stdin, pending)
        if hashlib.sha256(data).hexdigest() != head["sha256"]:
            raise Refused("io", "the agent arrived damaged")
        keep(path, data, head["nonce"])
    return root, path


def main():
    stdin, pending = sys.stdin.buffer, []
    head = json.loads(stdin.readline().decode())
    try:
        root, path = prepare(head, stdin, pending)
        sys.path.insert(0, path)
        from armada_agent.rpc.serve import serve
    except Exception as error:
        kind = getattr(error, "kind", "internal")
        if isinstance(error, OSError):
            kind = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "io"
        told = {"kind": kind, "message": str(error) or type(error).__name__}
        if isinstance(error, UntrustedError):
            told.update(kind="environment", hint=error.hint)
        if isinstance(error, Absent):
            told["root"] = error.name
        say(head["nonce"], error=told)
        sys.exit(1)
    asked = {"setup": head["setup"]} if "setup" in head else {}
    serve(root=root, nonce=head["nonce"], agent_path=path, stdin=stdin, pending=pending, **asked)


main()
"""


@functools.cache
def stage_1() -> str:
    """Compose the program that receives the agent. It checks who may write below the root before it executes anything there.

    The rules are the agent's own (`host/ownership.py`), without docstrings, because they are sent with each connection.
    """
    rules = bundled("remote_payload", "armada_agent", "host", "ownership.py").read_text("ascii")
    return BEGIN + re.sub(r'(?m)^ *"""[^"]*"""\n', "", rules) + "\n\n" + _MAIN


def opening(*, root: str, sha256: str, nonce: str, setup: Sequence[str] = (), looks: bool = False) -> bytes:
    """Compose the first bytes for the command's standard input; requests may follow without waiting for an answer.

    Args:
        root: The host's folder, as written in its configuration.
        sha256: Hash of the agent.
        nonce: Marks the lines meant for armada.
        setup: Shell lines that the host needs first.
        looks: Create nothing on a host that has neither an agent nor runs; report that instead.
    """
    program = stage_1().encode("ascii")
    head: dict[str, object] = {"root": root, "sha256": sha256, "nonce": nonce, "protocol": PROTOCOL}
    if setup:
        head["setup"] = list(setup)
    if looks:
        head["looks"] = True
    return b"%d\n%s%s\n" % (len(program), program, json.dumps(head).encode("ascii"))


def upload(agent: bytes, *, packed: bool) -> bytes:
    """Compose the answer to `need: agent`; compressed, for slow links, if the host's Python can decompress."""
    if not packed:
        return b'{"agent": "%s"}\n' % base64.b64encode(agent)
    return _packed(agent)


@functools.lru_cache(maxsize=1)
def _packed(agent: bytes) -> bytes:
    """Compress the agent once for all hosts that this process sends it to; it takes most of the time of a first contact."""
    return b'{"agent": "%s", "packed": true}\n' % base64.b64encode(zlib.compress(agent))
