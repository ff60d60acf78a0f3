"""The agent as one file to send: a zipapp whose bytes are the same wherever it is built."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile

from armada.paths import bundled

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest a zip can say; real times would change the hash
_MAIN = "import sys\n\nfrom armada_agent.__main__ import main\n\nsys.exit(main())\n"


@functools.cache
def build() -> tuple[bytes, str]:
    """Pack `armada_agent`; a host keeps it under its hash, so equal sources must give equal bytes.

    Returns:
        The archive and its SHA-256.
    """
    folder = bundled("remote_payload", "armada_agent")
    sources = {
        f"armada_agent/{path.relative_to(folder).as_posix()}": path.read_text("utf-8") for path in folder.rglob("*.py")
    }
    sources["__main__.py"] = _MAIN
    buffer = io.BytesIO()
    # Stored, because compressed bytes differ between zlib versions and some hosts' Python lacks zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix; by default it says where the archive was built
            archive.writestr(entry, sources[name])
    content = buffer.getvalue()
    return content, hashlib.sha256(content).hexdigest()
