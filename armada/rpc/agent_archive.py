"""The agent as one file to send: a zipapp of its sources, with the bytecode of home's own Python beside them.

A host whose python3 is of the same version as home's then compiles nothing, which is most of what an agent or a supervisor does when
it starts (0.1 to 0.3 s of a processor); any other passes the bytecode over and takes the sources. Bytecode differs from one compilation
to the next, so it is kept, where Python keeps that of these modules, and made anew for other sources.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import marshal
import sys
import zipfile
from pathlib import Path

from armada.foundation.atomic_write import replacing
from armada.paths import bundled

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest a zip can say; real times would change the hash
_MAIN = "import sys\n\nfrom armada_agent.__main__ import main\n\nsys.exit(main())\n"
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: by its source's hash, which nobody compares: both are in the one file
_DIGEST_BYTES = 32


@functools.cache
def build() -> tuple[bytes, str]:
    """Pack `armada_agent`; a host keeps it under its hash.

    Returns:
        The archive and its SHA-256. They stay as they are for as long as these sources and this Python do; where bytecode cannot be
        kept (`sys.dont_write_bytecode`, a folder that is not ours), they are of the sources alone.
    """
    folder = bundled("remote_payload", "armada_agent")
    sources = read_sources(folder)
    if (kept := _kept(folder, sources)) is not None:
        return kept
    content = pack(sources)
    return content, hashlib.sha256(content).hexdigest()


def read_sources(folder: Path) -> dict[str, bytes]:
    """Read what goes into the archive, by its names there."""
    sources = {
        f"armada_agent/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in folder.rglob("*.py")
    }
    sources["__main__.py"] = _MAIN.encode()
    sources["armada_log.py"] = (folder.parent / "armada_log.py").read_bytes()  # which supervisors hand on to jobs
    return sources


def pack(files: dict[str, bytes]) -> bytes:
    """Put files into an archive whose bytes follow from theirs alone."""
    buffer = io.BytesIO()
    # Stored, because compressed bytes differ between zlib versions and some hosts' Python lacks zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix; by default it says where the archive was built
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def compile_all(sources: dict[str, bytes]) -> dict[str, bytes]:
    """Compile each module for this Python, without docstrings; the sources stay beside it, for other versions and for tracebacks."""
    compiled = {}
    for name, source in sources.items():
        code = compile(source, name, "exec", dont_inherit=True, optimize=2)
        head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
        compiled[name + "c"] = head + marshal.dumps(code)
    return compiled


def _kept(folder: Path, sources: dict[str, bytes]) -> tuple[bytes, str] | None:
    """Read the archive that was kept for these sources, or make and keep one; None where none can be kept."""
    tag = sys.implementation.cache_tag
    if tag is None:
        return None
    digest = hashlib.sha256(
        b"".join(b"%s\0%s\0" % (name.encode(), sources[name]) for name in sorted(sources))
    ).hexdigest()
    place = folder / "__pycache__" / f"agent-{digest[:16]}.{tag}.pyz"
    if (kept := _read(place)) is not None or sys.dont_write_bytecode:
        return kept
    try:
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)  # it is damaged, or is not there
        with replacing(place, keep_first=True) as part:
            part.touch()  # where nothing can be kept, nothing is compiled either: every command would do it again
            made = pack(sources | compile_all(sources))
            part.write_bytes(hashlib.sha256(made).digest() + made)
        for other in place.parent.glob(f"agent-*.{tag}.pyz"):
            if other != place:
                other.unlink(missing_ok=True)
    except OSError:  # a folder of somebody else's, a full disk
        return None
    return _read(place)


def _read(place: Path) -> tuple[bytes, str] | None:
    """Read a kept archive and its hash; None where none is, or a damaged one."""
    try:
        with place.open("rb") as stream:
            digest, content = stream.read(_DIGEST_BYTES), stream.read()
    except OSError:
        return None
    return (content, digest.hex()) if hashlib.sha256(content).digest() == digest else None
