"""Read the user's own model folder as content to send."""

from __future__ import annotations

from pathlib import Path

from armada.errors import ProvisionFailed
from armada.provision.content import Content, take_stock


def model_content(folder: Path) -> Content:
    """Return everything in a model folder.

    Raises:
        ProvisionFailed: The folder has no config.json.
    """
    real = folder.resolve()
    if not (real / "config.json").is_file():
        raise ProvisionFailed(
            f"{folder} is not a model folder: it has no config.json", hint="give a folder or a hub id"
        )
    linked = [path for path in real.rglob("*") if path.is_symlink()]
    if linked:
        raise ProvisionFailed(
            f"{folder} contains links ({linked[0].name}), which cannot be sent",
            hint="copy it with `cp -rL`, or name the model by its hub id",
        )
    return take_stock("models", real, [path.relative_to(real).as_posix() for path in real.rglob("*") if path.is_file()])
