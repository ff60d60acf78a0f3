"""Classify why a transfer failed, by how the user or the daemon should react.

| cause          | what it means                                              | retried                                       |
|----------------|------------------------------------------------------------|-----------------------------------------------|
| link           | the host does not answer, or the connection broke          | with back-off                                 |
| auth           | the host refuses every key                                 | with back-off                                 |
| hostkey        | its key is not the pinned one                              | with back-off; only `hosts trust` helps       |
| disk_home      | home's disk is full                                        | every minute                                  |
| disk_host      | the host's disk takes no records: acknowledgements, homes  | with back-off                                 |
| source_changed | the files there do not match their manifest                | after 10 minutes, then with growing intervals |
| rejected       | the manifest breaks a rule: quarantined                    | on request by name, or when it is replaced    |
| other          | anything else, as the message says                         | with back-off                                 |
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal

from armada.errors import (
    ArmadaError,
    AuthenticationFailed,
    HostKeyChanged,
    HostUnreachable,
    NotFound,
    ProvisionFailed,
)
from armada.sync.errors import DiskFull, ManifestRejected, SourceChanged

if TYPE_CHECKING:
    from armada.store.transfers import Transfer

Cause = Literal["link", "auth", "hostkey", "disk_home", "disk_host", "source_changed", "rejected", "other"]
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def cause_of(error: BaseException) -> Cause:
    """Classify an error by the table above."""
    if isinstance(error, HostKeyChanged):
        return "hostkey"
    if isinstance(error, AuthenticationFailed):
        return "auth"
    if isinstance(error, HostUnreachable):
        return "link"
    if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _FULL):
        return "disk_home"
    if isinstance(error, SourceChanged | NotFound):
        return "source_changed"
    if isinstance(error, ManifestRejected):
        return "rejected"
    if isinstance(error, ProvisionFailed) and "No space left" in error.message:
        return "disk_host"
    return "other"


def is_broken(tried: Transfer) -> bool:
    """Whether a transfer failed because of the checkpoint itself: it may never come, and takes no other's place."""
    cause = (tried.reason or "").partition(":")[0]
    return tried.state == "failed" and cause in ("source_changed", "rejected")


def as_error(error: ArmadaError | OSError, *, host: str) -> ArmadaError:
    """Convert an error of home's own file system into an `ArmadaError`; other errors are returned unchanged."""
    if isinstance(error, ArmadaError):
        return error
    if error.errno in _FULL:
        return DiskFull(
            f"home's disk is full ({error.strerror})",
            hint="free some space at home, or move ARMADA_HOME; nothing is lost, the checkpoint waits on the host",
            host=host,
        )
    return ArmadaError(f"home cannot write {error.filename or 'a file'}: {error.strerror}", host=host)
