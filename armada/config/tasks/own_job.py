"""The keys of scripts and commands, which read their data, save and resume by themselves."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from armada.config.data import sources_in
from armada.config.documents import shown
from armada.config.settings import FilledText, SchemaPart, problem
from armada.config.tasks.experiment import Experiment
from armada.config.tracking import Tracking
from armada.config.validation import dotted

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_MOST_TABLES = 32
_TRAINING_ONLY = frozenset({"model", "train", "lora", "start_from", "evaluation"})


class OwnJob(Experiment):
    """An experiment whose job brings its own training, or does no training."""

    metrics: Annotated[tuple[FilledText, ...], Field(strict=False)] = ()
    """CSV or JSONL files below the work folder that curves are read from; a path or a list, `*` and `**` allowed."""

    tracking: Tracking | None = None
    """Where the script's or command's own calls of W&B report; sets the variables that W&B reads."""

    also_written: ClassVar[dict[str, SchemaPart]] = {**Experiment.also_written, "metrics": {"type": "string"}}

    other_words: ClassVar[dict[str, tuple[str, str | None]]] = {}
    """Keys of other tasks about which there is more to say than whose they are."""

    @classmethod
    def refusal(cls, key: str) -> tuple[str, str | None] | None:
        if key in _TRAINING_ONLY:
            return f"belongs to `task: sft`; a {cls.__name__.lower()} brings its own training", "leave it out"
        return cls.other_words.get(key) or super().refusal(key)

    @field_validator("metrics", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("metrics")
    @classmethod
    def _tables_lie_in_the_work_folder(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            parts = path.split("/")
            if path.startswith(("/", "~")) or ".." in parts or "" in parts or not path.isprintable():
                raise problem(f"{shown(path)} must be a path below the folder that the job works in, relative to it")
            if not path.lower().endswith(_TABLES):
                raise problem(f"{shown(path)} must end in {', '.join(_TABLES[:-1])} or {_TABLES[-1]}")
        if len(value) > _MOST_TABLES:
            raise problem(
                f"names {len(value)} files; at most {_MOST_TABLES} are read", hint="write a pattern: logs/*.csv"
            )
        return value

    @model_validator(mode="after")
    def _finds_files_where_they_lie(self) -> Self:
        """Nothing is read or mixed for it."""
        data = self.data
        for split in ("train", "eval"):
            for location, source in sources_in(getattr(data, split, ())):
                key = dotted(("data", split, *location))
                if source.path is None:
                    raise problem(f"needs `path`: a {self.task} reads files; it fetches anything else itself", key=key)
                if source.weight != 1.0:
                    raise problem(f"belongs to `task: sft`; a {self.task} mixes its data itself", key=f"{key}.weight")
        if data is not None and data.workers:
            raise problem(f"belongs to `task: sft`; a {self.task} reads its data itself", key="data.workers")
        return self

    @model_validator(mode="after")
    def _saves_when_it_wants(self) -> Self:
        checkpoint, resume = self.checkpoint, self.resume
        if checkpoint and checkpoint.pattern is None:
            raise problem("is missing: a job of your own decides itself when it saves", key="checkpoint.pattern")
        for key in ("every_steps", "every_minutes"):
            if checkpoint and getattr(checkpoint, key) is not None:
                raise problem(
                    "belongs to `task: sft`; a job of your own decides when it saves", key=f"checkpoint.{key}"
                )
        if checkpoint and checkpoint.in_background:
            said = "belongs to `task: sft`; a job of your own writes its checkpoints itself"
            raise problem(said, key="checkpoint.in_background", hint="leave it out")
        if resume and resume.accept_changes:
            raise problem("belongs to `task: sft`", key="resume.accept_changes", hint="leave it out")
        if resume and resume.arguments and checkpoint is None:
            raise problem("needs `checkpoint.pattern`, by which checkpoints are found", key="resume")
        return self
