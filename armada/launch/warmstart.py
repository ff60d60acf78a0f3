"""Where a training begins: another run's checkpoint, at home or still on the same host, or a folder here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, ConfigError, NotFound
from armada.provision.content import Content, take_stock
from armada.store import runs
from armada.sync.pull import choose
from armada.sync.staging import read_published

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from armada.config.experiments import Experiment
    from armada.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database

_MOMENTS = "optimizer.pt"
_STATE = frozenset(
    {_MOMENTS, "scheduler.pt", "trainer_state.json", "training_args.bin", "MANIFEST.json", "PARTIAL.json"}
)
"""Of no use to another training; what else lies there are weights, their configuration and a tokenizer."""


@dataclass(frozen=True, slots=True)
class Start:
    """A checkpoint to begin with: as files that travel, or as a folder that is on the host already."""

    said: str
    moments: bool
    content: Content | None = None
    place: str | None = None


def find_start(database: Database, session: HostSession, experiment: Experiment) -> Start | None:
    """Find the checkpoint an experiment names.

    Raises:
        NotFound: There is no such run or checkpoint, or it lies on another host only.
        ConfigError: The folder it names holds no checkpoint.
        ArmadaError: Its files at home are not what they were.
    """
    asked = experiment.start_from
    if asked is None:
        return None
    moments = asked.optimizer == "moments"
    if asked.path is not None:
        return Start(str(asked.path), moments, _from_folder(asked.path, moments=moments))
    run = runs.find(database, str(asked.run))
    word = "last" if asked.checkpoint is None else str(asked.checkpoint)
    checkpoint = choose(database, session if run.host == session.host.name else None, run, word)
    said = f"checkpoint {checkpoint.step} of {run.run_id}"
    if checkpoint.home_path is not None:
        return Start(said, moments, _from_home(checkpoint, checkpoint.home_path, moments=moments))
    if run.host != session.host.name:
        raise NotFound(
            f"{said} lies on {run.host} only", hint=f"armada pull {run.run_id} --checkpoint {checkpoint.step}"
        )
    # It may be thinned before the run begins: then the run says so. What came home is safe from that.
    return Start(said, moments, place=str(session.paths.outbox(run.run_id, checkpoint.digest)))


def _from_home(checkpoint: Checkpoint, place: Path, *, moments: bool) -> Content:
    manifest, files = read_published(place, checkpoint.digest)
    names = _wanted((file.path for file in files), moments=moments)
    if moments and _MOMENTS not in names:
        raise NotFound(
            f"checkpoint {checkpoint.step} of {checkpoint.run_id} came home without {_MOMENTS}",
            hint="leave out start_from.optimizer; sync.include_optimizer keeps it in later runs",
        )
    content = take_stock("models", place, names)
    right = {file.path: file.sha256 for file in manifest.files}
    for path, _, sha256, _ in content.manifest:
        if right[path] != sha256:
            raise ArmadaError(f"{place / path} is damaged", hint=f"armada sync verify {checkpoint.run_id}")
    return content


def _from_folder(folder: Path, *, moments: bool) -> Content:
    real = folder.resolve()
    names = _wanted(
        (path.relative_to(real).as_posix() for path in real.rglob("*") if path.is_file() and not path.is_symlink()),
        moments=moments,
    )
    if not any(name.endswith(".safetensors") for name in names):
        raise ConfigError("it holds no weights (.safetensors)", path=folder, hint="start_from.path is a checkpoint-N")
    if moments and _MOMENTS not in names:
        raise ConfigError(f"it holds no {_MOMENTS}", path=folder, hint="leave out start_from.optimizer")
    return take_stock("models", real, names)


def _wanted(names: Iterable[str], *, moments: bool) -> list[str]:
    return [
        name for name in names if not (name in _STATE or name.startswith("rng_state")) or (moments and name == _MOMENTS)
    ]
