"""Errors that only a sync raises.

ArmadaError
├── DiskFull
├── FolderAway
├── ManifestRejected
├── RunBusy
└── SourceChanged
"""

from __future__ import annotations

from armada.errors import ArmadaError


class DiskFull(ArmadaError):
    """Home has no space for a checkpoint; it stays on the host."""


class FolderAway(ArmadaError):
    """A folder at home is not seen; its disk may not be mounted. Nothing is fetched into it, and nothing is concluded from it."""


class ManifestRejected(ArmadaError):
    """A manifest breaks a rule that honest hosts keep; nothing is fetched for it."""


class RunBusy(ArmadaError):
    """Another command holds the lock on a run's checkpoints, and this one does not wait for it."""


class SourceChanged(ArmadaError):
    """The received bytes do not match the manifest."""
