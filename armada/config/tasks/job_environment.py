"""`environment:` of an experiment: which packages its job finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from armada.config.documents import shown
from armada.config.settings import FilePath, FilledText, Settings, problem

if TYPE_CHECKING:
    from armada.config.documents import Document
    from armada.config.requirements import Requirement

_NAMES = Annotated[tuple[FilledText, ...], Field(strict=False)]
_PROJECT = ".toml"
_PROFILE = "profile"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_AT = ("environment", "requirements")
_OTHERS = {
    ".lock": "uv export --frozen --no-emit-project -o requirements.txt, and name that file",
    ".yml": "name a requirements.txt or pyproject.toml",
    ".yaml": "name a requirements.txt or pyproject.toml",
    ".cfg": "name a requirements.txt or pyproject.toml",
    ".py": "name a requirements.txt or pyproject.toml",
}
"""Files of other tools, by what their names end with, and what to name instead."""


class JobEnvironment(Settings):
    """An environment of the experiment's own, which the host builds."""

    other_names: ClassVar[dict[str, str]] = {
        "packages": "requirements",
        "dependencies": "requirements",
        "pip": "requirements",
        "file": "requirements",
        "optional": "extras",
    }

    requirements: Annotated[
        Annotated[FilePath, Tag("file")]
        | Annotated[tuple[FilledText, ...], Field(strict=False, min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "file"),
    ]
    """A requirements.txt or pyproject.toml, or a list of requirements: `[einops, "transformers>=4.44"]`."""
    extras: _NAMES = ()
    """Extras of the pyproject.toml, in `[project.optional-dependencies]`."""
    groups: _NAMES = ()
    """Groups of the pyproject.toml, in `[dependency-groups]`."""

    @field_validator("requirements", mode="before")
    @classmethod
    def _file_or_list(cls, value: Any) -> Any:
        if not isinstance(value, str | list | tuple | Path):
            raise problem(f"must be a file, or a list of requirements, not {shown(value)}")
        return value

    @model_validator(mode="after")
    def _only_a_project_has_extras(self) -> JobEnvironment:
        for key in ("extras", "groups"):
            if getattr(self, key) and not self.is_project:
                raise problem("belongs to a pyproject.toml", key=key, hint="requirements: pyproject.toml")
        return self

    @property
    def is_project(self) -> bool:
        """Whether the requirements are those of a pyproject.toml."""
        return isinstance(self.requirements, Path) and self.requirements.suffix == _PROJECT

    def read(self, document: Document) -> tuple[Requirement, ...]:
        """Read its requirements.

        Args:
            document: The experiment, for the lines of what is wrong.

        Raises:
            ConfigError: The file is not there, or a line is no requirement that a host can fetch.
        """
        found = self._read(document)
        if all(line.is_constraint for line in found):
            place = document.value_place(_AT)
            hint = "write environment: profile, or name packages"
            raise place.error(
                f"`environment.requirements`: {shown(str(self.requirements), 500)} names no package", hint
            )
        return found

    def _read(self, document: Document) -> tuple[Requirement, ...]:
        from armada.config.pyproject import read_project
        from armada.config.requirements import read_file, read_lines

        if not isinstance(self.requirements, Path):
            lines = enumerate(self.requirements)
            return read_lines([(text, document.value_place((*_AT, index))) for index, text in lines])
        file, place = self.requirements, document.value_place(_AT)
        if not file.is_file():
            raise place.error(f"`environment.requirements`: there is no file {shown(str(file), 500)}")
        if hint := _OTHERS.get(file.suffix):
            raise place.error(f"`environment.requirements`: a {file.suffix} file cannot be read", hint)
        if self.is_project:
            return read_project(file, self.extras, self.groups)
        return read_file(file, document.path.absolute().parent)


def _checked_word(value: Any) -> Any:
    if isinstance(value, dict) and value and all(_VARIABLE.fullmatch(str(key)) for key in value):
        raise problem("is the Python environment; variables belong in `env`", hint="write env: instead")
    if value is None or value == _PROFILE or isinstance(value, dict | JobEnvironment):
        return value
    is_file = isinstance(value, str) and Path(value).suffix in {".txt", _PROJECT}
    hint = f"write environment: {{requirements: {value}}}" if is_file else "write environment: profile"
    raise problem(f"must be profile or a mapping, not {shown(value)}", hint=hint)


EnvironmentChoice = Annotated[
    Annotated[
        Annotated[Literal["profile"], Tag("word")] | Annotated[JobEnvironment, Tag("own")],
        Discriminator(lambda value: "word" if isinstance(value, str) else "own"),
    ]
    | None,
    BeforeValidator(_checked_word),
]
"""`profile`, or an environment of the experiment's own; None where nothing is said."""
