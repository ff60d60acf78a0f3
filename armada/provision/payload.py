"""Read the bundled training payload as content to send."""

from __future__ import annotations

from armada.paths import bundled
from armada.provision.content import Content, take_stock


def payload_content() -> Content:
    source = bundled("remote_payload")
    files = [path.relative_to(source).as_posix() for path in sorted((source / "armada_train").rglob("*.py"))]
    return take_stock("code", source, files)
