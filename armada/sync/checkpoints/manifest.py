"""Parse a checkpoint's manifest, the host's list of its files. It counts as hostile until every rule here holds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from armada.foundation.validation import finite
from armada.protocol.outbox import ReadManifest
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.interface import File

if TYPE_CHECKING:
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint

MAX_FILES = 100_000
MAX_PATH = 1024
NAME = "MANIFEST.json"
OURS = frozenset({NAME, "PARTIAL.json", ".PARTIAL.json.tmp"})
"""Names of files that home itself writes into a published checkpoint."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint's files; `digest` is the SHA-256 of the manifest's own bytes."""

    digest: str
    step: int
    files: tuple[File, ...]
    text: str
    eval_loss: float | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def parse_manifest(text: str, digest: str) -> Manifest:
    """Check a manifest against its digest and the rules.

    Args:
        text: The manifest as the host sent it.
        digest: The name of the outbox folder that it came from.

    Raises:
        ManifestRejected: It does not match its digest, lists a path outside its folder, lists a path twice, or has too
            many files.
    """

    def refuse(why: str) -> ManifestRejected:
        return ManifestRejected(f"manifest {digest[:12]}: {why}", hint="the checkpoint stays on the host, untouched")

    try:
        content = text.encode()
    except UnicodeEncodeError:  # a host's JSON may contain lone surrogates, which cannot be written to a file
        raise refuse("it is not text") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise refuse("its content does not match its name")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refuse(f"not JSON ({error})") from None
    if not isinstance(value, dict) or value.get("format") != 1:
        raise refuse(
            f"format {value.get('format') if isinstance(value, dict) else None!r} is unknown to this armada; a newer version may read it"
        )
    step, listed = value.get("step"), value.get("files")
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise refuse("it has no step")
    if not isinstance(listed, list) or not listed:
        raise refuse("it lists no files")
    if len(listed) > MAX_FILES:
        raise refuse(f"it lists {len(listed)} files; the limit is {MAX_FILES}")
    files = []
    seen: set[str] = set()
    for entry in listed:
        trouble = _trouble(entry) or ("a path is listed twice" if entry["path"] in seen else None)
        if trouble:
            raise refuse(f"{trouble}: {str(entry)[:200]!r}")
        seen.add(entry["path"])
        files.append(File(entry["path"], entry["size"], entry["sha256"]))
    if any(str(parent) in seen for path in seen for parent in PurePosixPath(path).parents):
        raise refuse("a path is both a file and a folder")
    return Manifest(digest, step, tuple(files), text, _eval_loss(value.get("metrics")))


def fetch_manifest(session: HostSession, checkpoint: Checkpoint) -> Manifest:
    """Request a checkpoint's manifest from its host.

    Raises:
        ManifestRejected: As in `parse_manifest`.
        NotFound: The host no longer has the checkpoint.
        HostUnreachable: The host does not answer.
    """
    answer = session.call(ReadManifest(run_id=checkpoint.run_id, digest=checkpoint.digest))
    return parse_manifest(answer.text, checkpoint.digest)


def _eval_loss(metrics: Any) -> float | None:
    return finite(metrics.get("eval_loss")) if isinstance(metrics, dict) else None


def _trouble(entry: Any) -> str | None:
    """Return what is wrong with one entry, or None."""
    if not isinstance(entry, dict) or set(entry) != {"path", "size", "sha256"}:
        return "an entry needs path, size and sha256, and nothing else"
    path, size, sha256 = entry["path"], entry["size"], entry["sha256"]
    if not isinstance(path, str) or not 0 < len(path) <= MAX_PATH:
        return "a path is empty or too long"
    if any("\ud800" <= character <= "\udfff" for character in path):  # how Python reads bytes that are no text
        return f"a file's name is not UTF-8, so it cannot come home ({ascii(path)[1:-1]}); name files in UTF-8"
    if not path.isprintable() or "\\" in path:
        return "a path has control characters or a backslash"
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts) or parts[0] in OURS:
        return "a path leaves the checkpoint's folder"
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return "a size is not a number of bytes"
    if not isinstance(sha256, str) or len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        return "a sha256 is not valid"
    return None
