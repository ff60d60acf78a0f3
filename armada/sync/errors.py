"""What only a sync can run into.

ArmadaError
├── DiskFull
├── ManifestRejected
└── SourceChanged
"""

from __future__ import annotations

from armada.errors import ArmadaError


class DiskFull(ArmadaError):
    """Home has no room for a checkpoint; it stays on the host."""


class ManifestRejected(ArmadaError):
    """A manifest that names what no honest host would; nothing is fetched for it."""


class SourceChanged(ArmadaError):
    """The bytes that arrive are not those the manifest names."""
