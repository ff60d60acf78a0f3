"""Load datasets of the Hugging Face hub by id: download once per host, or read its cache without internet."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from armada_train.data.readers import without_nulls
from armada_train.failure import PayloadFailure
from armada_train.specification.values import Hub

_COMMIT = re.compile(r"[0-9a-f]{40}")


def read_hub(hub: Hub) -> Iterator[tuple[str, Any]]:
    """Read one split row by row.

    Yields:
        The row's place, and the row.

    Raises:
        PayloadFailure: `data_error`: the dataset cannot be loaded.
    """
    for number, row in enumerate(_load(hub), start=1):
        yield f"{hub.id} ({hub.split}): row {number}", without_nulls(row)


def hash_hub(hub: Hub) -> str:
    """Hash what determines its rows: the revision if it is a commit, else the files loaded from it."""
    digest = hashlib.sha256(json.dumps([hub.id, hub.config, hub.split]).encode())
    if hub.revision and _COMMIT.fullmatch(hub.revision):
        digest.update(hub.revision.encode())
        return digest.hexdigest()
    for file in _load(hub).cache_files:
        with Path(file["filename"]).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


@functools.cache
def _load(hub: Hub) -> Any:
    if importlib.util.find_spec("datasets") is None:
        raise PayloadFailure("env_error", f"the environment lacks datasets, which {hub.id} needs")
    import datasets

    try:
        builder = datasets.load_dataset_builder(hub.id, hub.config, revision=hub.revision)
        _check_cached(hub, builder)
        builder.download_and_prepare()
        return builder.as_dataset(hub.split)
    except PayloadFailure:
        raise  # the dataset was refused, or a signal arrived meanwhile
    except Exception as error:  # the library raises a dozen types, some of its own, for the same few causes
        hint = (
            "the hub is unreachable (or HF_HUB_OFFLINE is set) and this host's cache does not have it: load it here once, "
            "or give a folder of `Dataset.save_to_disk` as `path`"
            if isinstance(error, OSError)
            else "its `config`, `split` and `revision` must exist; a private dataset needs HF_TOKEN in `secrets`"
        )
        first = str(error).strip().partition("\n")[0]
        message = f"{hub.id} ({hub.split}) cannot be loaded: {first} ({type(error).__name__}): {hint}"
        raise PayloadFailure("data_error", message) from error


def _check_cached(hub: Hub, builder: Any) -> None:
    """Refuse a cached commit other than the requested one: without the hub the library takes whatever was cached last.

    Raises:
        PayloadFailure: `data_error`, naming the cached commit.
    """
    if hub.revision in {None, builder.hash} or ".packaged_modules.cache." not in type(builder).__module__:
        return
    raise PayloadFailure(
        "data_error",
        f"{hub.id}: the hub is unreachable, and this host's cache has commit {builder.hash}, not `revision` {hub.revision}",
    )
