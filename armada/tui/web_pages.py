"""Find the web pages of a run: W&B's, from what its log printed, and the model's on the hub. All of it is validated."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENDS_BYTES = 262_144
"""W&B prints its address at the start and at the end: so much of both ends of the log is searched."""
LONGEST = 500
HUB = "https://huggingface.co"
_PLAIN = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_PRINTED = re.compile(rb"https?://[^\s\x00-\x20\x7f-\xff\"'<>`]{1,500}/runs/[A-Za-z0-9_-]{1,128}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")


class Page(NamedTuple):
    """A page and what it is."""

    url: str
    about: str


def valid(url: str) -> str | None:
    """Return the URL if a browser may open it: http or https, a host, no password, printable ASCII; else None."""
    if len(url) > LONGEST or not _PLAIN.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        named, _ = parts.hostname, parts.port
    except ValueError:
        return None
    plain = parts.username is None and parts.password is None and "@" not in parts.netloc
    return url if parts.scheme in ("http", "https") and named and plain else None


def pages(run_id: str, log: Path | None, spec: Mapping[str, object] | None) -> list[Page]:
    """Return the pages of a run, the most likely first.

    Args:
        run_id: The run's id, which is also its id at W&B.
        log: The copy of its log at home, if there is one.
        spec: Its spec.json, if it was read.
    """
    printed = [url for each in reversed(_printed(log)) if (url := valid(each.decode("ascii", "replace")))]
    own = next((url for url in printed if url.endswith(f"/runs/{run_id}")), None)
    listed = [Page(url, "W&B: printed in the run's log") for url in ([own] if own else printed[:1])]
    hub = [Page(url, f"the {what} on the hub") for what, name in _repositories(spec) if (url := valid(f"{HUB}/{name}"))]
    return [*listed, *hub]


def _printed(log: Path | None) -> list[bytes]:
    if log is None:
        return []
    try:
        with log.open("rb") as file:
            text = file.read(ENDS_BYTES)
            size = file.seek(0, 2)
            if size > ENDS_BYTES:
                file.seek(max(ENDS_BYTES, size - ENDS_BYTES))
                text += b"\n" + file.read(ENDS_BYTES)
    except OSError:
        return []
    return _PRINTED.findall(text)


def _repositories(spec: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Return the hub's repositories that the experiment names: the model, and datasets."""
    experiment = spec.get("experiment") if spec is not None else None
    if not isinstance(experiment, dict):
        return []
    model, data = experiment.get("model"), experiment.get("data")
    lists = [part if isinstance(part, list) else [part] for part in data.values()] if isinstance(data, dict) else []
    sources = [source.get("hub") for source in itertools.chain(*lists) if isinstance(source, dict)]
    named = [("model", "", model), *(("dataset", "datasets/", name) for name in sources)]
    found = [
        (what, f"{below}{name}") for what, below, name in named if isinstance(name, str) and _REPOSITORY.fullmatch(name)
    ]
    return list(dict.fromkeys(found))  # train and eval may be parts of one dataset
