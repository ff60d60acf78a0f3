"""Download from object stores (s3://, gs://) at home. fsspec knows how to reach them, and finds the user's own credentials."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, ProvisionFailed
from armada.foundation.atomic_write import replacing
from armada.foundation.extras import install_command
from armada.foundation.sanitize import sanitize_line
from armada.units import amount

if TYPE_CHECKING:
    from armada.foundation.progress import Progress

SCHEMES = ("s3", "gs")
"""What fsspec calls them; s3fs and gcsfs implement them."""

_VERSIONS = ("ETag", "etag", "md5Hash", "VersionId", "generation", "LastModified", "updated", "created", "mtime")


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects under an address.

    Attributes:
        url: The address.
        files: The path of each below the folder it becomes, where the store has it, and its size in bytes.
        is_folder: The address is a prefix, not one object.
        identity: Another one as soon as an object may be another.
    """

    url: str
    files: tuple[tuple[str, str, int], ...]
    is_folder: bool
    identity: str

    @property
    def size_bytes(self) -> int:
        return sum(size for _, _, size in self.files)


def list_objects(url: str) -> Objects:
    """Ask a store what lies under an address.

    Raises:
        ProvisionFailed: fsspec is missing here, the store refuses, or there is nothing.
    """
    store, path = _open(url)
    try:
        is_folder = bool(store.isdir(path))
        listed: dict[str, dict[str, Any]] = store.find(path, detail=True) if is_folder else {path: store.info(path)}
    except FileNotFoundError:
        raise ProvisionFailed(f"there is nothing at {url}", hint="correct the address") from None
    except Exception as error:  # each store has errors of its own
        raise _refused(url, error) from error
    found = []
    for place, details in sorted(listed.items()):
        if details.get("type") == "directory" or place.endswith("/"):
            continue
        name = PurePosixPath(place).relative_to(path).as_posix() if is_folder else PurePosixPath(path).name
        if not name.isprintable() or any(part in ("", ".", "..") for part in name.split("/")):
            raise ProvisionFailed(f"{url} holds {sanitize_line(name)}, which cannot be a file's name")
        found.append((name, place, int(details.get("size") or 0), _version(details)))
    if not found:
        raise ProvisionFailed(f"there is nothing at {url}", hint="correct the address")
    identity = hashlib.sha256(json.dumps([url, found], ensure_ascii=True).encode()).hexdigest()
    return Objects(url, tuple((name, place, size) for name, place, size, _ in found), is_folder, identity)


def download(objects: Objects, downloads: Path, progress: Progress) -> Path:
    """Download objects that are not here yet, and return their folder; whole files of an earlier try are kept.

    Raises:
        ProvisionFailed: The store refused, or an object has another size than it said.
    """
    store, _ = _open(objects.url)
    folder = downloads / objects.identity
    done = 0
    for name, place, size in objects.files:
        target = folder / name
        if not (target.is_file() and target.stat().st_size == size):
            fraction = done / objects.size_bytes if objects.size_bytes else None
            progress.now("provision", f"{name}: {amount(size)} from {objects.url}", fraction)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with replacing(target, durable=True) as part:
                    store.get_file(place, str(part))
                    arrived = part.stat().st_size
                    if arrived != size:
                        raise ProvisionFailed(f"{place} brought {arrived} of {size} bytes", hint="launch again")
            except ArmadaError:
                raise
            except Exception as error:
                raise _refused(objects.url, error) from error
        done += size
    return folder


def _open(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for an address, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise _missing(url, "fsspec") from None
    try:
        store, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise _missing(url, sanitize_line(error.name or "its library", 60)) from error
    except Exception as error:
        raise _refused(url, error) from error
    return store, str(path)


def _missing(url: str, library: str) -> ProvisionFailed:
    return ProvisionFailed(f"{url} needs {library}, which is not installed here", hint=install_command("stores"))


def _refused(url: str, error: Exception) -> ProvisionFailed:
    said = sanitize_line(error, 300) or type(error).__name__
    hint = "check the address, and your credentials for it here at home"
    return ProvisionFailed(f"{url} cannot be read: {said}", hint=hint)


def _version(details: dict[str, Any]) -> str:
    """What tells one version of an object from the next, as far as its store says."""
    return "; ".join(f"{key}={details[key]}" for key in _VERSIONS if details.get(key) is not None)
