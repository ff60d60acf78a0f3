"""Provide a hub model to runs without internet: stage it on the login node, or send it from the Hugging Face cache at home."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.validation import nearest
from armada.errors import PreflightRefused
from armada.foundation.atomic_write import replacing
from armada.foundation.sanitize import sanitize_line
from armada.protocol.environment import FetchModel, FindModel, FoundModel
from armada.provision.content import Content, take_stock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.protocol.environment import HubCache
    from armada.rpc.session import HostSession

FETCH_S = 12 * 3600.0
REVISION = "main"
_WAY = ("HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "HF_HUB_DISABLE_XET")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_WEIGHTS = (".safetensors", ".bin")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A commit of a model and the folder on the host that will hold it.

    Attributes:
        size_bytes: How much to fetch; 0 if the model is there.
        variables: The environment variables from the plan that say how to reach the hub.
    """

    repo: str
    commit: str
    path: str
    present: bool
    size_bytes: int
    variables: dict[str, str]
    token: bool
    config: str | None = None
    config_problem: str | None = None


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """The hub's answer about a model that runs fetch themselves.

    Attributes:
        refused: The hub's reason for refusing it; None also if the hub cannot be reached.
        token: Whether the request used the experiment's own HF_TOKEN.
        size_bytes: Size of the files that a training reads; None if unknown.
        denied: The hub's reason for showing the model, but not its files.
        unreachable: Why the hub could not be asked.
        config: The model's config.json.
        config_problem: Why there is none, as part of a sentence.
        cache: What the host's Hugging Face cache has of it.
    """

    refused: str | None = None
    token: bool = False
    size_bytes: int | None = None
    denied: str | None = None
    unreachable: str | None = None
    config: str | None = None
    config_problem: str | None = None
    cache: HubCache | None = None

    @property
    def missing_bytes(self) -> int:
        """What the run downloads."""
        return max(0, (self.size_bytes or 0) - (self.cache.size_bytes if self.cache else 0))


def ask_hub(session: HostSession, repo: str, variables: Mapping[str, str], secrets: tuple[str, ...]) -> HubAnswer:
    """Ask the hub, from the host, about a model."""
    way = {name: value for name, value in variables.items() if name.upper() in _WAY}
    token = "HF_TOKEN" in secrets and bool(os.environ.get("HF_TOKEN"))
    found = session.call(_request(repo, way, token=token), timeout_s=60.0)
    return answer_of(found, token=token)


def answer_of(found: FoundModel, *, token: bool) -> HubAnswer:
    """Return a host's answer about a model, with its sentences sanitized."""
    error = sanitize_line(found.error, 600) if found.error is not None else None
    return HubAnswer(
        refused=error if found.refused else None,
        token=token,
        size_bytes=found.size_bytes or None,
        denied=sanitize_line(found.denied, 300) if found.denied is not None else None,
        unreachable=None if found.refused else error,
        config=found.config,
        config_problem=sanitize_line(found.config_problem, 300) if found.config_problem is not None else None,
        cache=found.cache,
    )


def near_models(repo: str) -> str | None:
    """Return the model in home's Hugging Face cache whose id is nearest to a mistyped one."""
    try:
        folders = [entry.name for entry in _hub_cache().iterdir() if entry.name.startswith("models--")]
    except OSError:
        return None
    return nearest(repo, [name.removeprefix("models--").replace("--", "/", 1) for name in folders])


def find_model(
    session: HostSession,
    home: HomePaths,
    repo: str,
    variables: Mapping[str, str],
    secrets: tuple[str, ...],
    *,
    fetches: bool = True,
) -> HubModel | Content:
    """Find a way to provide a model to runs on a host without internet; nothing is fetched yet.

    Args:
        session: A session with the host.
        home: Where links to home's own copy are kept.
        repo: The model's id on the hub.
        variables: The run's variables; those about the hub apply to the login node too.
        secrets: Names of secrets; `HF_TOKEN` among them gives access to gated models.
        fetches: The host can fetch it, for which it needs a Python environment; what runs in an image has none there.

    Raises:
        PreflightRefused: Neither the login node nor home can provide it.
    """
    way = {name: value for name, value in variables.items() if name.upper() in _WAY}
    token = "HF_TOKEN" in secrets
    found = session.call(_request(repo, way, token=token), timeout_s=60.0)
    commit, path = found.commit, found.path
    below = str(session.paths.root / "models" / "hub") + "/"
    is_named = commit is not None and _COMMIT.fullmatch(commit) and path is not None and path.startswith(below)
    if is_named and commit and path and (found.present or (fetches and found.denied is None)):
        size = 0 if found.present else found.size_bytes or 0
        problem = sanitize_line(found.config_problem, 300) if found.config_problem is not None else None
        return HubModel(repo, commit, path, found.present, size, way, token, found.config, problem)
    why = found.error or _denied(found)
    if why is None:
        why = "the host does not say why" if fetches else "with `environment.container` the host cannot fetch it"
    why = sanitize_line(why, 600)
    snapshot = cached_snapshot(repo)
    if snapshot is None:
        raise PreflightRefused(
            f"{repo} cannot be put on the host, whose runs have no internet: {why}; the cache at home does not have it either",
            hint=f"hf download {repo} here at home, or give `model:` a folder"
            + (
                "" if token or not (found.refused or found.denied) else "; for a gated model add HF_TOKEN to `secrets:`"
            ),
            host=session.host.name,
        )
    return cached_content(home, repo, snapshot)


def fetch_model(session: HostSession, model: HubModel, environment: str, progress: Progress) -> bool:
    """Stage a model on its host; return whether anything was fetched.

    Raises:
        ProvisionFailed: The error has the end of the host's output.
    """
    request = FetchModel(
        repo=model.repo,
        revision=REVISION,
        variables=model.variables,
        token=_token() if model.token else None,
        commit=model.commit,
        environment=environment,
    )
    answer = session.call(
        request,
        timeout_s=FETCH_S,
        on_progress=lambda message, fraction: progress.now("provision", message, fraction),
    )
    return answer.outcome == "fetched"


def cached_snapshot(repo: str) -> Path | None:
    """Return the folder of home's Hugging Face cache with a complete copy of a model's main revision, or None."""
    folder = _hub_cache() / f"models--{repo.replace('/', '--')}"
    try:
        commit = (folder / "refs" / REVISION).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    snapshot = folder / "snapshots" / commit
    return snapshot if _COMMIT.fullmatch(commit) and _is_whole(snapshot) else None


def _hub_cache() -> Path:
    environ = os.environ
    default = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(environ.get("HF_HUB_CACHE") or Path(environ.get("HF_HOME") or default) / "hub")


def _is_whole(snapshot: Path) -> bool:
    """Whether a model can be loaded from a snapshot: its configuration and all weight files exist, and no link is broken."""
    if not (snapshot / "config.json").is_file():
        return False
    for index in _INDEXES:
        if (snapshot / index).is_file():
            try:
                names = set(json.loads((snapshot / index).read_text())["weight_map"].values())
            except (OSError, ValueError, LookupError, AttributeError):
                return False
            return all((snapshot / str(name)).is_file() for name in names)
    return any(path.suffix in _WEIGHTS and path.is_file() for path in snapshot.iterdir())


def cached_content(home: HomePaths, repo: str, snapshot: Path) -> Content:
    """Return a snapshot as files to send: its links point to blobs, which are linked under the files' names."""
    folder = home.state / "models" / f"{repo.replace('/', '--')}-{snapshot.name[:12]}"
    names = [path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()]
    safe = any(name.endswith(".safetensors") for name in names)
    chosen = [name for name in names if not (safe and name.endswith((".bin", ".pth")))]
    for name in chosen:
        real, target = (snapshot / name).resolve(), folder / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.exists() and target.stat().st_size == real.stat().st_size:
            continue
        target.unlink(missing_ok=True)
        try:
            target.hardlink_to(real)
        except OSError:  # the blob is on another file system
            with replacing(target) as part:
                shutil.copyfile(real, part)
    return take_stock("models", folder, chosen)


def _denied(found: FoundModel) -> str | None:
    return f"the hub {found.denied}: its owner must give you access" if found.denied is not None else None


def _request(repo: str, way: Mapping[str, str], *, token: bool) -> FindModel:
    return FindModel(repo=repo, revision=REVISION, variables=dict(way), token=_token() if token else None)


def _token() -> str | None:
    return os.environ.get("HF_TOKEN")
