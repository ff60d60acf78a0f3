"""`outbox.*`: manifests of checkpoints, acknowledgements from home, and deletions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from armada.protocol.homes import AskingHome
from armada.protocol.message import MAY_MISS, Digest, Fitting, Line, Many, Message, OrMissing, Request, RunId, text_of


class ManifestText(Message):
    """MANIFEST.json, byte for byte: its SHA-256 is the checkpoint's digest."""

    text: Annotated[str, text_of(4 << 20)]


class ReadManifest(Request[ManifestText]):
    """Read the manifest of a checkpoint."""

    method = "outbox.manifest"
    answer = ManifestText
    run_id: RunId
    digest: Digest


class Acknowledged(Message):
    """The host recorded it."""


class Acknowledge(Request[Acknowledged]):
    """Acknowledge that home has a checkpoint, every byte verified. With `wanted` false: this home will not fetch it."""

    method = "outbox.ack"
    answer = Acknowledged
    run_id: RunId
    digest: Digest
    home: OrMissing[AskingHome] = None
    wanted: Annotated[bool, MAY_MISS] = True


class Pruned(Message):
    """Which checkpoints were deleted, and why others were kept."""

    pruned: Fitting[Digest]
    refused: Annotated[dict[str, Line], Field(description="why, by digest")]


class Prune(Request[Pruned]):
    """Delete checkpoints in an outbox."""

    method = "outbox.prune"
    answer = Pruned
    run_id: RunId
    digests: Many[Digest]
    home: OrMissing[AskingHome] = None
