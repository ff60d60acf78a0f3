"""The agent as one file to send: a zipapp of its sources, with the bytecode of home's own Python next to them.

A host whose python3 has the same version as home's then compiles nothing. Compilation is most of the work of an agent
or supervisor at its start (0.1 to 0.3 s of CPU time). Any other version ignores the bytecode and compiles the sources.
Two compilations give different bytecode, so the archive is cached in `__pycache__` and built again only if the sources
change.
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

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time in a zip; real times would change the hash
_MAIN = "import sys\n\nfrom armada_agent.__main__ import main\n\nsys.exit(main())\n"
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: by its source's hash, unchecked: both are in the same file
_DIGEST_BYTES = 32


@functools.cache
def build() -> tuple[bytes, str]:
    """Pack `armada_agent`. A host stores it under its hash.

    Returns:
        The archive and its SHA-256. Both stay the same until the sources or this Python change. If bytecode cannot be
        cached (`sys.dont_write_bytecode`, another user's folder), the archive contains only the sources.
    """
    folder = bundled("remote_payload", "armada_agent")
    sources = read_sources(folder)
    if (kept := _kept(folder, sources)) is not None:
        return kept
    content = pack(sources)
    return content, hashlib.sha256(content).hexdigest()


def read_sources(folder: Path) -> dict[str, bytes]:
    """Read the files of the archive, by their names in it."""
    sources = {
        f"armada_agent/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in folder.rglob("*.py")
    }
    sources["__main__.py"] = _MAIN.encode()
    sources["armada_log.py"] = (folder.parent / "armada_log.py").read_bytes()  # supervisors pass it on to jobs
    return sources


def pack(files: dict[str, bytes]) -> bytes:
    """Pack files into an archive whose bytes depend only on the files."""
    buffer = io.BytesIO()
    # Uncompressed, because compressed bytes differ between zlib versions, and some hosts' Python lacks zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix; the default names the platform of the build
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def compile_all(sources: dict[str, bytes]) -> dict[str, bytes]:
    """Compile each module for this Python, without docstrings. The sources stay for other versions and for tracebacks."""
    compiled = {}
    for name, source in sources.items():
        code = compile(source, name, "exec", dont_inherit=True, optimize=2)
        head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
        compiled[name + "c"] = head + marshal.dumps(code)
    return compiled


def _kept(folder: Path, sources: dict[str, bytes]) -> tuple[bytes, str] | None:
    """Return the cached archive for these sources, or build and cache one; None if it cannot be cached."""
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
        place.unlink(missing_ok=True)  # it is damaged or missing
        with replacing(place, keep_first=True) as part:
            part.touch()  # if it cannot be cached, do not compile: every command would compile again
            made = pack(sources | compile_all(sources))
            part.write_bytes(hashlib.sha256(made).digest() + made)
        for other in place.parent.glob(f"agent-*.{tag}.pyz"):
            if other != place:
                other.unlink(missing_ok=True)
    except OSError:  # another user's folder, or a full disk
        return None
    return _read(place)


def _read(place: Path) -> tuple[bytes, str] | None:
    """Read a cached archive and its hash; return None if it is missing or damaged."""
    try:
        with place.open("rb") as stream:
            digest, content = stream.read(_DIGEST_BYTES), stream.read()
    except OSError:
        return None
    return (content, digest.hex()) if hashlib.sha256(content).digest() == digest else None
