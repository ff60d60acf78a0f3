"""Find where a training starts: another run's checkpoint, at home or on the same host, or a folder at home."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, ConfigError, HostUnreachable, NotFound
from armada.launch.training.checkpoint_content import checkpoint_content
from armada.provision.content import Content, take_stock
from armada.store import checkpoints, runs
from armada.sync.checkpoints.manifest import fetch_manifest
from armada.sync.checkpoints.selection import choose_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from armada.config.tasks.bundled import BundledTraining
    from armada.config.training import StartFrom
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run

_MOMENTS = "optimizer.pt"
_SHARDS = "pytorch_model_fsdp_0/"
_STATE = frozenset(
    {_MOMENTS, "scheduler.pt", "trainer_state.json", "training_args.bin", "MANIFEST.json", "PARTIAL.json"}
)
"""Files that another training cannot use; the others are weights, their configuration and a tokenizer."""


@dataclass(frozen=True, slots=True)
class Start:
    """The checkpoint to start from: files to send, or a folder that is already on the host."""

    said: str
    moments: bool
    content: Content | None = None
    place: str | None = None


def find_start(database: Database, session: HostSession, experiment: BundledTraining) -> Start | None:
    """Find the checkpoint that an experiment names; errors have the experiment's line.

    Raises:
        NotFound: There is no such run or checkpoint, it has no weights, or it exists only on another host.
        ConfigError: The named folder has no checkpoint.
        ArmadaError: Its files at home have changed.
    """
    if experiment.start_from is None:
        return None
    try:
        return _find(database, session, experiment.start_from)
    except ArmadaError as error:
        if not isinstance(error, HostUnreachable):
            error.message = f"{_place(experiment)}: {error.message}"
        raise


def _place(experiment: BundledTraining) -> str:
    """Return the line of the experiment that names the checkpoint, and its key."""
    asked = experiment.start_from
    key = "start_from.path" if asked is not None and asked.path is not None else "start_from.run"
    where = experiment.places.get(key) or experiment.places.get("start_from")
    return f"{where}: `{key}`" if where else f"`{key}`"


def _find(database: Database, session: HostSession, asked: StartFrom) -> Start:
    moments = asked.optimizer == "moments"
    if asked.path is not None:
        return Start(str(asked.path), moments, _from_folder(asked.path, moments=moments))
    run = runs.find(database, str(asked.run))
    checkpoint = _choose(database, session, run, "last" if asked.checkpoint is None else str(asked.checkpoint))
    said = f"checkpoint {checkpoint.step} of {run.run_id}"
    if checkpoint.home_path is not None:
        return Start(said, moments, _from_home(database, checkpoint, checkpoint.home_path, moments=moments))
    manifest = fetch_manifest(session, checkpoint)
    _refuse_useless([file.path for file in manifest.files], f"{said}, on {run.host}", moments=moments)
    # It may be deleted there before the run begins; the run then reports it. A checkpoint at home is safe from that.
    return Start(said, moments, place=str(session.paths.outbox(run.run_id, checkpoint.digest)))


def _choose(database: Database, session: HostSession, run: Run, word: str) -> Checkpoint:
    """Return the checkpoint of a run that can be used on this host.

    Raises:
        NotFound: There is none, or it exists only on another host.
    """
    if run.host == session.host.name:
        return choose_checkpoint(database, session, run, word)
    try:
        return choose_checkpoint(database, None, run, word)
    except NotFound:
        there = [c for c in checkpoints.of_run(database, run.run_id) if c.on_host]
        if not there:
            raise
        steps = ", ".join(str(c.step) for c in there[-8:])
        which = f" --checkpoint {word}" if word != "last" else ""
        raise NotFound(
            f"of {run.run_id} nothing that you asked for is at home; {run.host} has the checkpoints {steps}",
            hint=f"armada pull {run.run_id}{which}, or launch on {run.host}",
        ) from None


def _from_home(database: Database, checkpoint: Checkpoint, place: Path, *, moments: bool) -> Content:
    said = f"checkpoint {checkpoint.step} of {checkpoint.run_id}"

    def choose(here: Iterable[str]) -> list[str]:
        names = _wanted(here, moments=moments)
        if moments and _MOMENTS not in names:
            raise NotFound(
                f"{said} came home without {_MOMENTS}",
                hint="leave out start_from.optimizer; sync.include_optimizer keeps it in later runs",
            )
        _refuse_useless(names, said, moments=moments)
        return names

    return checkpoint_content(database, checkpoint, place, choose)


def _from_folder(folder: Path, *, moments: bool) -> Content:
    real = folder.resolve()
    names = _wanted(
        (path.relative_to(real).as_posix() for path in real.rglob("*") if path.is_file() and not path.is_symlink()),
        moments=moments,
    )
    try:
        _refuse_useless(names, str(folder), moments=moments)
    except NotFound as error:
        raise ConfigError(error.message, hint=error.hint) from None
    return take_stock("models", real, names)


def _refuse_useless(names: Sequence[str], said: str, *, moments: bool) -> None:
    """Refuse a checkpoint that no training can start from.

    Raises:
        NotFound: It lacks the weights, or the requested optimizer state.
    """
    if any(name.startswith(_SHARDS) for name in names) and "adapter_model.safetensors" not in names:
        raise NotFound(f"{said}: its weights are in shards", hint="`armada merge` that run, and name the result")
    if not any(name.endswith(".safetensors") for name in names):
        raise NotFound(
            f"{said}: it has no weights (.safetensors)", hint="name a checkpoint of `task: sft`, or its folder"
        )
    if moments and _MOMENTS not in names:
        raise NotFound(f"{said}: it has no {_MOMENTS}", hint="leave out start_from.optimizer")


def _wanted(names: Iterable[str], *, moments: bool) -> list[str]:
    return [
        name for name in names if not (name in _STATE or name.startswith("rng_state")) or (moments and name == _MOMENTS)
    ]
