"""When checkpoints are saved, how the checkpoints of scripts and commands are found, and how a run resumes from its own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from armada.config.documents import shown
from armada.config.settings import FilledText, Settings, Text, problem

Count = Annotated[int, Field(ge=1, lt=2**31)]
Positive = Annotated[float, Field(gt=0)]


class Checkpoint(Settings):
    other_names: ClassVar[dict[str, str]] = {
        "save_steps": "every_steps",
        "save_total_limit": "keep_last",
        "every": "every_steps",
        "save_minutes": "every_minutes",
        "async": "in_background",
        "async_save": "in_background",
    }

    every_steps: Count | None = None
    """Steps between two checkpoints: 100 where neither this nor `every_minutes` is given; with both, whichever comes first."""
    every_minutes: Positive | None = None
    """Minutes between two checkpoints."""
    keep_last: Count = 3
    """Checkpoints that the trainer keeps on the host, beside the best one."""
    in_background: bool = False
    """Copy a checkpoint to the host's memory, and write it while the training continues; the bundled trainer's alone."""
    pattern: FilledText | None = None
    """Pattern of a script's or command's own checkpoints, below the folder it works in: `out/checkpoint-*`."""
    quiet_s: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    """Seconds without a write after which a checkpoint counts as complete."""

    @model_validator(mode="before")
    @classmethod
    def _some_interval(cls, data: Any) -> Any:
        if isinstance(data, dict) and all(data.get(key) is None for key in ("every_steps", "every_minutes", "pattern")):
            return {**data, "every_steps": 100}
        return data

    @field_validator("pattern")
    @classmethod
    def _stays_below_the_work_folder(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if value.startswith(("/", "~")) or ".." in value.split("/"):
            raise problem(f"must lie below the folder the job works in, not {shown(value)}", hint="out/checkpoint-*")
        if "**" in value:
            raise problem("must name each level of folders: `**` would search everything", hint="out/*/checkpoint-*")
        return value


class ResumeSettings(Settings):
    """How a run resumes from its own checkpoints."""

    accept_changes: bool = False
    """Resume although settings differ from those the checkpoint was trained with; the new values count."""
    arguments: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """What a script or command is told after its own arguments when there is a checkpoint: `[--resume, "{checkpoint}"]`."""

    @model_validator(mode="before")
    @classmethod
    def _arguments_alone(cls, data: Any) -> Any:
        return {"arguments": data} if isinstance(data, list | tuple) else data

    @field_validator("arguments")
    @classmethod
    def _name_the_checkpoint(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value and not any("{checkpoint}" in word or "{step}" in word for word in value):
            raise problem("must say where the checkpoint goes", hint='[--resume, "{checkpoint}"]')
        return value
