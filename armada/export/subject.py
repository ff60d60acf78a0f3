"""Choose what an export contains: the files of one checkpoint at home that inference needs, and the plan of its training."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from armada.errors import NotFound
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.store import runs
from armada.sync.checkpoints.folders import find_away, find_deleted, not_seen
from armada.sync.checkpoints.new_folder import damaged, open_regular, read_whole
from armada.sync.checkpoints.proof import doubt
from armada.sync.checkpoints.selection import choose_checkpoint
from armada.verdicts.retention import is_resume_only

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.sync.transfer.interface import File

CARD = "README.md"
ADAPTER_CONFIG, MODEL_CONFIG, SETTINGS = "adapter_config.json", "config.json", "armada.json"
BESIDE = "base_model"
"""The folder of a base model that the run created, beside its adapter."""
_DOCUMENTS = (ADAPTER_CONFIG, MODEL_CONFIG, SETTINGS, "tokenizer_config.json")
_LARGEST_DOCUMENT = 16_000_000

_TRAINING_ONLY = re.compile(r"trainer_state\.json|training_args\.bin|armada\.json|shards\.json|latest|zero_to_fp32\.py")
_SHARDS = "pytorch_model_fsdp_0/"
_DEEPSPEED = re.compile(r"global_step\d+/.*|latest|zero_to_fp32\.py")
_WEIGHTS = re.compile(r"[^/]*\.(safetensors|bin|pt|pth|ckpt|gguf|npz|h5|msgpack)")
_BASE_NAMES = ("base_model_name_or_path", "_name_or_path")


class Kind(StrEnum):
    """What the files are: an adapter, a model that transformers loads, or files of a user's own trainer."""

    ADAPTER = "adapter"
    MODEL = "model"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class Subject:
    """A checkpoint at home and what is exported of it.

    Attributes:
        plan: The plan of the training; of a merged model, that of the training whose adapter was merged.
        training_id: The run of that training.
        files: The files that are exported, as the manifest lists them.
        left_out: The paths of the others.
        documents: The content of the checkpoint's small JSON files, verified.
        rewritten: New content for the files that named a folder of the host.
    """

    run: Run
    checkpoint: Checkpoint
    place: Path
    plan: Mapping[str, Any]
    training_id: str
    files: tuple[File, ...]
    left_out: tuple[str, ...]
    documents: Mapping[str, Mapping[str, Any]]
    rewritten: Mapping[str, bytes]

    @property
    def kind(self) -> Kind:
        names = {file.path for file in self.files}
        if ADAPTER_CONFIG in names:
            return Kind.ADAPTER
        return Kind.MODEL if MODEL_CONFIG in names and any(map(_WEIGHTS.fullmatch, names)) else Kind.FILES

    @property
    def has_shards(self) -> bool:
        """Whether its weights are in FSDP's shards."""
        return self.kind is Kind.FILES and any(file.path.startswith(_SHARDS) for file in self.files)

    @property
    def base(self) -> str | None:
        """The base model, as the user wrote it."""
        named = self.documents.get(ADAPTER_CONFIG, {}).get(_BASE_NAMES[0])
        return named if isinstance(named, str) and named else user_model(self.plan)

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def find_subject(database: Database, run: Run, word: str, *, everything: bool, shards: bool = False) -> Subject:
    """Choose a checkpoint at home and those of its files that are exported.

    Args:
        database: The store.
        run: The run.
        word: A step, `best`, `last` or the first characters of a digest.
        everything: Keep also what only a training needs.
        shards: Whether weights in shards will do, which only a merge makes a model of.

    Raises:
        UsageError: The word names no checkpoint.
        NotFound: There is no such checkpoint at home, or not all of it.
        FolderAway: Its folder is not seen: its disk may not be mounted.
        ArmadaError: The copy at home is damaged.
    """
    try:
        checkpoint = choose_checkpoint(database, None, run, word)
    except NotFound as error:
        error.hint = f"armada pull {run.run_id}; {error.hint}" if error.hint else f"armada pull {run.run_id}"
        raise
    try:
        place, manifest, here = read_whole(database, checkpoint, checkpoint.home_path)
    except NotFound as error:
        if checkpoint.home_path is not None and not find_deleted(database, [checkpoint]):
            raise find_away(database, run.run_id) or not_seen(checkpoint) from error
        if not checkpoint.on_host:
            error.message += f", and {run.host} has it no more"
            error.hint = f"armada show {run.run_id} lists the others"
        raise
    chosen = _chosen(manifest.files, everything=everything)
    if not chosen:
        raise NotFound(
            f"checkpoint-{checkpoint.step} of {run.run_id} has only files that a training needs",
            hint="--all exports them",
        )
    if not (everything or shards) and any(file.path.startswith(_SHARDS) for file in chosen):
        raise NotFound(
            f"the weights of checkpoint-{checkpoint.step} of {run.run_id} are in shards",
            hint=f"armada merge {run.run_id} --checkpoint {checkpoint.step}, then this export with --merge; --all exports the shards",
        )
    if absent := [file.path for file in chosen if file not in here]:
        raise NotFound(
            f"{sanitize_line(absent[0], 200)} of checkpoint-{checkpoint.step} is not at home (sync.include_optimizer)",
            hint=f"armada pull {run.run_id} --checkpoint {checkpoint.step}",
        )
    named = [file for file in here if file.path in _DOCUMENTS and file.size <= _LARGEST_DOCUMENT]
    texts = {file.path: _read(database, checkpoint, place, file) for file in named}
    plan, training_id = _training(database, run)
    documents = {name: mapping(_parse(text)) for name, text in texts.items()}
    has_base = any(file.path == f"{BESIDE}/{MODEL_CONFIG}" for file in chosen)
    rewritten = {
        file.path: json.dumps(changed, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        for file in chosen
        if file.path in documents
        and (changed := _without_host_path(documents[file.path], plan, has_base=has_base)) is not None
    }
    documents |= {name: mapping(_parse(text)) for name, text in rewritten.items()}
    names = {file.path for file in chosen}
    left_out = tuple(sorted(file.path for file in manifest.files if file.path not in names))
    return Subject(run, checkpoint, place, plan, training_id, tuple(chosen), left_out, documents, rewritten)


def user_model(plan: Mapping[str, Any]) -> str | None:
    """Return the model as the experiment names it; None for one that the run created."""
    model = mapping(plan.get("experiment")).get("model")
    return model if isinstance(model, str) and model else None


def _chosen(files: Sequence[File], *, everything: bool) -> list[File]:
    files = [file for file in files if file.path != CARD and not file.path.startswith(f"{CARD}/")]
    if everything:
        return files
    kept = [file for file in files if not is_resume_only(file.path)]
    # DeepSpeed's own folder holds the weights only where the trainer did not write them beside it.
    has_weights = any(_WEIGHTS.fullmatch(file.path) and file.path != "training_args.bin" for file in kept)
    elsewhere = f"{_TRAINING_ONLY.pattern}|{_DEEPSPEED.pattern}|{_SHARDS}.*"
    unwanted = re.compile(elsewhere) if has_weights else _TRAINING_ONLY
    own = {file.path for file in kept if not has_weights and _DEEPSPEED.fullmatch(file.path)}
    return [file for file in kept if file.path in own or not unwanted.fullmatch(file.path)]


def _read(database: Database, checkpoint: Checkpoint, place: Path, file: File) -> bytes:
    descriptor = open_regular(place / file.path)
    content = b""
    if descriptor is not None:
        with (
            contextlib.suppress(OSError),  # what its disk cannot read is damaged
            open(descriptor, "rb") as source,  # noqa: PTH123  # from a descriptor opened without following links
        ):
            content = source.read(file.size + 1)
    if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.sha256:
        doubt(database, checkpoint, file.path)
        raise damaged(checkpoint, file.path)
    return content


def _parse(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _training(database: Database, run: Run) -> tuple[Mapping[str, Any], str]:
    """Return the plan of the training and its run, also for the run of a merge."""
    plan = runs.spec(database, run.run_id)
    source = mapping(mapping(plan.get("experiment")).get("merge")).get("run")
    if isinstance(source, str):
        try:
            return runs.spec(database, source), source
        except NotFound:
            return plan, run.run_id  # the training was removed
    return plan, run.run_id


def _without_host_path(
    document: Mapping[str, Any], plan: Mapping[str, Any], *, has_base: bool
) -> dict[str, Any] | None:
    """Name the base model as the user did, where a file names the host's folder; None where it does not.

    A model that the run created has no such name: it is the folder beside its adapter.
    """
    model = mapping(mapping(plan.get("training")).get("model"))
    there, name = model.get("path"), user_model(plan)
    if name is None and has_base and isinstance(named := document.get(_BASE_NAMES[0]), str) and named.startswith("/"):
        there, name = named, BESIDE
    if not isinstance(there, str) or not there or name is None or name == there:
        return None
    changed = {key: name for key in _BASE_NAMES if document.get(key) == there}
    return {**document, **changed} if changed else None
