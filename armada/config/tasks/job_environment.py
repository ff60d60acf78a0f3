"""`environment:` of an experiment: which packages its job finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from armada.config.documents import shown
from armada.config.settings import FilePath, FilledText, Settings, problem, shaped

if TYPE_CHECKING:
    from armada.config.documents import Document
    from armada.config.requirements import Requirement

_NAMES = Annotated[tuple[FilledText, ...], Field(strict=False)]
_PROJECT, _LOCK = ".toml", ".lock"
_PROFILE = "profile"
_HOST_PATH = re.compile(r"(/|~/)[^\x00-\x1f\x7f]{1,1000}")
_CONDA = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")
_IMAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]|/(?!/)){0,254}(@sha256:[0-9a-f]{64})?")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_AT = ("environment", "requirements")
_OTHERS = {
    ".yml": "name a requirements.txt or pyproject.toml",
    ".yaml": "name a requirements.txt or pyproject.toml",
    ".cfg": "name a requirements.txt or pyproject.toml",
    ".py": "name a requirements.txt or pyproject.toml",
}
"""Files of other tools, by what their names end with, and what to name instead."""


def _host_path(path: str) -> str:
    if not _HOST_PATH.fullmatch(path):
        raise problem(
            f"must be a folder on the host, absolute or from ~/, not {shown(path)}", hint="existing: ~/venvs/mine"
        )
    return path


def _conda_name(name: str) -> str:
    if not _CONDA.fullmatch(name):
        raise problem(
            f"must be the name of an environment of conda's, not {shown(name)}", hint="for a folder: existing: PATH"
        )
    return name


def _image_name(name: str) -> str:
    if not _IMAGE.fullmatch(name):
        raise problem(
            f"must be the name of an image, such as nvcr.io/nvidia/pytorch:24.10-py3, not {shown(name)}",
            hint="no URL scheme and no options: REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST",
        )
    return name


class JobEnvironment(Settings):
    """An environment of the experiment's own: one that the host builds or pulls, or one that the user made there."""

    other_names: ClassVar[dict[str, str]] = {
        "packages": "requirements",
        "dependencies": "requirements",
        "pip": "requirements",
        "file": "requirements",
        "optional": "extras",
        "path": "existing",
        "venv": "existing",
        "prefix": "existing",
        "name": "conda",
        "image": "container",
        "docker": "container",
        "podman": "container",
    }

    requirements: (
        Annotated[
            Annotated[FilePath, Tag("file")]
            | Annotated[tuple[FilledText, ...], Field(strict=False, min_length=1), Tag("list")],
            Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "file"),
        ]
        | None
    ) = None
    """A requirements.txt, pyproject.toml or uv.lock, or a list of requirements: `[einops, "transformers>=4.44"]`."""
    extras: _NAMES = ()
    """Extras of the project, in `[project.optional-dependencies]`."""
    groups: _NAMES = ()
    """Groups of the project, in `[dependency-groups]`."""
    existing: Annotated[FilledText, AfterValidator(_host_path), shaped(_HOST_PATH)] | None = None
    """The folder of an environment on the host, absolute or from `~/`; it is used as it is."""
    conda: Annotated[FilledText, AfterValidator(_conda_name), shaped(_CONDA)] | None = None
    """The name of an environment of conda's on the host; it is used as it is."""
    container: Annotated[FilledText, AfterValidator(_image_name), shaped(_IMAGE)] | None = None
    """An image in which the job runs, by podman or docker: `nvcr.io/nvidia/pytorch:24.10-py3`."""

    @field_validator("requirements", mode="before")
    @classmethod
    def _file_or_list(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, str | list | tuple | Path):
            raise problem(f"must be a file, or a list of requirements, not {shown(value)}")
        return value

    @model_validator(mode="after")
    def _one_of_four(self) -> JobEnvironment:
        given = [key for key in ("requirements", "existing", "conda", "container") if getattr(self, key) is not None]
        if not given:
            raise problem("needs one of `requirements`, `existing`, `conda` and `container`")
        if len(given) > 1:
            raise problem(f"cannot stand beside `{given[0]}`", key=given[1], hint="keep one of them")
        return self

    @model_validator(mode="after")
    def _only_a_project_has_extras(self) -> JobEnvironment:
        for key in ("extras", "groups"):
            if getattr(self, key) and not self.is_project:
                raise problem("belongs to a pyproject.toml or uv.lock", key=key, hint="requirements: pyproject.toml")
        return self

    @property
    def is_built(self) -> bool:
        """Whether the host builds it."""
        return self.requirements is not None

    @property
    def is_project(self) -> bool:
        """Whether the requirements are those of a project, which has extras and groups."""
        return isinstance(self.requirements, Path) and self.requirements.suffix in {_PROJECT, _LOCK}

    def read(self, document: Document) -> tuple[Requirement, ...]:
        """Read its requirements.

        Args:
            document: The experiment, for the lines of what is wrong.

        Raises:
            ConfigError: The file is not there, or a line is no requirement that a host can fetch.
        """
        if not self.is_built:
            return ()
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
        from armada.config.uv_lock import read_lock

        if not isinstance(self.requirements, Path):
            lines = enumerate(self.requirements or ())
            return read_lines([(text, document.value_place((*_AT, index))) for index, text in lines])
        file, place = self.requirements, document.value_place(_AT)
        if not file.is_file():
            raise place.error(f"`environment.requirements`: there is no file {shown(str(file), 500)}")
        if hint := _OTHERS.get(file.suffix):
            raise place.error(f"`environment.requirements`: a {file.suffix} file cannot be read", hint)
        if file.suffix == _LOCK:
            return read_lock(file, self.extras, self.groups)
        if self.is_project:
            return read_project(file, self.extras, self.groups)
        return read_file(file, document.path.absolute().parent)


def _checked_word(value: Any) -> Any:
    if isinstance(value, dict) and value and all(_VARIABLE.fullmatch(str(key)) for key in value):
        raise problem("is the Python environment; variables belong in `env`", hint="write env: instead")
    if value is None or value == _PROFILE or isinstance(value, dict | JobEnvironment):
        return value
    is_file = isinstance(value, str) and Path(value).suffix in {".txt", _PROJECT, _LOCK}
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
