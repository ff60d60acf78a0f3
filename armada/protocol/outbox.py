"""`outbox.*`: manifests of checkpoints, what home has verified, and what may be deleted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import MAY_MISS, Digest, Fitting, Line, Many, Message, OrMissing, Request, RunId, text_of


class ManifestText(Message):
    """MANIFEST.json byte for byte: its SHA-256 is the digest."""

    text: Annotated[str, text_of(4 << 20)]


class ReadManifest(Request[ManifestText]):
    """Read the manifest of a checkpoint."""

    method = "outbox.manifest"
    answer = ManifestText
    run_id: RunId
    digest: Digest


class Acknowledged(Message):
    """The host wrote it down."""


class Acknowledge(Request[Acknowledged]):
    """Say that a checkpoint is at home, every byte verified, or, with `wanted` false, that this home will not fetch it."""

    method = "outbox.ack"
    answer = Acknowledged
    run_id: RunId
    digest: Digest
    home: OrMissing[AskingHome] = None
    wanted: Annotated[bool, MAY_MISS] = True


class Pruned(Message):
    """Which checkpoints were deleted, and why others were not."""

    pruned: Fitting[Digest]
    refused: Annotated[dict[str, Line], Field(description="why, by digest")]


class Prune(Request[Pruned]):
    """Delete checkpoints of an outbox."""

    method = "outbox.prune"
    answer = Pruned
    run_id: RunId
    digests: Many[Digest]
    home: OrMissing[AskingHome] = None
