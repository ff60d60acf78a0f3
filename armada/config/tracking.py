"""Where curves are reported, beside armada."""

from __future__ import annotations

from typing import Literal

from armada.config.settings import FilledText, Settings


class Tracking(Settings):
    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    """`auto` uses W&B where the key is, and writes offline where runs have no internet."""
    project: FilledText | None = None
    """Project at W&B."""
