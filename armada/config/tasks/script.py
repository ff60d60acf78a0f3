"""`task: script`: run the user's own training script with accelerate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator

from armada.config.documents import Document, shown
from armada.config.near_paths import near_path
from armada.config.settings import FilePath, FilledText, Text, problem
from armada.config.tasks.experiment import find_file
from armada.config.tasks.own_job import OwnJob

_NEEDED = ("script", "code")


class Script(OwnJob):
    """A script to run under accelerate, with the profile's flags."""

    nothing_said: ClassVar[frozenset[str]] = frozenset(_NEEDED)
    if_missing: ClassVar[dict[str, str]] = dict.fromkeys(_NEEDED, "`task: script` needs the script and its `code`")
    other_words: ClassVar[dict[str, tuple[str, str | None]]] = {
        "deepspeed": (
            "is passed to the bundled trainer; a script sets its own",
            "accelerate: FILE with distributed_type: DEEPSPEED",
        )
    }

    task: Literal["script"]
    """What the run does."""
    script: FilledText
    """A Python file below `code`, started by accelerate once per GPU with the profile's flags."""
    arguments: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """What the script is told: a list of words."""
    code: FilePath
    """Folder whose git-tracked and not-ignored files travel; the run works in a copy."""
    accelerate: FilePath | None = None
    """A file of accelerate's own, for what neither profile nor experiment says; what it repeats must agree."""

    def find_files(self, document: Document) -> Self:
        found = super().find_files(document)
        if not (self.code / self.script).is_file():
            place = document.value_place(("script",))
            path = self.code / self.script
            message = f"`script`: there is no file {shown(str(path), 500)}"
            raise place.error(message, near_path(path, self.code, Path.is_file))
        find_file(document, "accelerate", self.accelerate)
        return found

    @field_validator("script")
    @classmethod
    def _script_lies_in_the_code(cls, value: str) -> str:
        if value.startswith(("/", "~", "-")) or ".." in Path(value).parts:
            raise problem(f"must be a file below `code`, relative to it, not {shown(value)}")
        return value
