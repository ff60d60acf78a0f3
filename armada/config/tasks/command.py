"""`task: command`: run any program."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from armada.config.settings import Text, problem
from armada.config.tasks.own_job import OwnJob

_AS_IT_IS = ("applies to trainings and scripts: a command is started as it is", None)


class Command(OwnJob):
    """A command to run as it is."""

    takes_gpus: ClassVar[bool] = False
    nothing_said: ClassVar[frozenset[str]] = frozenset({"command"})
    other_words: ClassVar[dict[str, tuple[str, str | None]]] = {"accelerate": _AS_IT_IS, "deepspeed": _AS_IT_IS}

    task: Literal["command"]
    """What the run does."""
    command: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] = ()
    """`[program, argument, …]`; no shell reads it."""

    @field_validator("command", mode="before")
    @classmethod
    def _command_is_a_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise problem(
                "must be a list of words: no shell reads it", hint=f'for a shell write: command: [sh, -c, "{value}"]'
            )
        return value

    @model_validator(mode="after")
    def _has_a_command(self) -> Self:
        if not self.command:
            raise problem("needs `command: [program, argument, …]`", key="task")
        return self
