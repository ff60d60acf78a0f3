"""A host's `provision:` entries: Fabric tasks in files of yours, and the tasks that armada brings.

provision: [python, system-packages: [rsync, tmux], fabfile.py:drivers, fabfile.py:mount_nas: [nas-1]]
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator, ValidationInfo

from armada.config.documents import literal_text, shown
from armada.config.settings import FilledText, problem
from armada.errors import UsageError

BUNDLED = {
    "python": "a python3 that armada can use: by apt or dnf, or below armada's folder by uv",
    "system-packages": "packages of the system, by apt or dnf: system-packages: [rsync, tmux]",
    "uv": "uv, in armada's folder on the host",
}
"""What armada brings, and what each does."""

Argument: TypeAlias = str | int | float | bool

_TASK = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:~=-]*")
_FORMS = "FILE.py:TASK for a task of your own"


@dataclass(frozen=True, slots=True)
class TaskCall:
    """A task and its arguments.

    Attributes:
        file: The Python file that defines it; None for one of `BUNDLED`.
        task: Its name.
        arguments: Positional arguments.
    """

    file: Path | None
    task: str
    arguments: tuple[Argument, ...] = ()

    @property
    def title(self) -> str:
        """The task as a person names it: `fabfile.py:drivers 535`."""
        name = f"{self.file.name}:{self.task}" if self.file is not None else self.task
        return " ".join([name, *map(str, self.arguments)])

    def spelled(self) -> str | dict[str, list[Argument]]:
        """Return the entry as hosts.yaml has it."""
        name = f"{self.file}:{self.task}" if self.file is not None else self.task
        return {name: list(self.arguments)} if self.arguments else name


def typed_call(word: str, folder: Path) -> TaskCall:
    """Read a task from the command line: `uv`, `fabfile.py:drivers`, `system-packages=rsync,tmux`.

    Args:
        word: As typed.
        folder: What a file's name is relative to.

    Raises:
        UsageError: It names no task.
    """
    name, equals, rest = word.partition("=")
    arguments = tuple(rest.split(",")) if equals else ()
    try:
        call = _call(name, arguments)
        file = _expanded(name, call)
    except ValueError as error:
        context = getattr(error, "context", None) or {}
        raise UsageError(context.get("message") or str(error), hint=context.get("hint")) from None
    return call if file is None else replace(call, file=folder / file)


def _call(name: str, arguments: tuple[Argument, ...]) -> TaskCall:
    file, colon, task = name.rpartition(":")
    if not colon:
        return _bundled(name, arguments)
    if not file.endswith(".py"):
        raise problem(f"{shown(name)} must name a Python file and a task of it", hint=_FORMS)
    if not _TASK.fullmatch(task):
        raise problem(f"{shown(task)} cannot be the name of a task", hint=_FORMS)
    return TaskCall(Path(file), task, arguments)


def _bundled(name: str, arguments: tuple[Argument, ...]) -> TaskCall:
    if name not in BUNDLED:
        near = difflib.get_close_matches(name, BUNDLED, 1)
        hint = f"did you mean {near[0]}?" if near else f"{', '.join(sorted(BUNDLED))}, or {_FORMS}"
        if name.endswith(".py"):
            hint = f"name a task of it: {name}:TASK"
        raise problem(f"armada brings no task called {shown(name)}", hint=hint)
    if name != "system-packages":
        if arguments:
            raise problem(f"{name} takes no arguments", hint=name)
        return TaskCall(None, name)
    if not arguments:
        raise problem("system-packages needs the names of packages", hint="system-packages: [rsync, tmux]")
    for package in arguments:
        if not isinstance(package, str) or not _PACKAGE.fullmatch(package):
            raise problem(f"{shown(package)} cannot be the name of a package", hint="system-packages: [rsync, tmux]")
    return TaskCall(None, name, arguments)


def _entry(value: Any, info: ValidationInfo) -> TaskCall:
    if isinstance(value, TaskCall):
        return value
    name, given = value, None
    if isinstance(value, dict) and len(value) == 1:
        ((name, given),) = value.items()
    if not isinstance(name, str) or not name.strip():
        raise problem(f"must be a task, not {shown(value)}", hint=f"{', '.join(sorted(BUNDLED))}, or {_FORMS}")
    call = _call(literal_text(name), _arguments(name, given))
    file = _expanded(name, call)
    if file is None:
        return call
    folder = (info.context or {}).get("folder")
    return replace(call, file=file if folder is None else Path(folder) / file)


def _expanded(name: str, call: TaskCall) -> Path | None:
    try:
        return call.file.expanduser() if call.file is not None else None
    except RuntimeError:
        raise problem(f"{shown(name)}: this user does not exist") from None


def _arguments(name: str, given: Any) -> tuple[Argument, ...]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or not all(isinstance(each, str | int | float | bool) for each in given):
        raise problem(f"the arguments of {name} must be a list of texts and numbers", hint=f"{name}: [one, two]")
    return tuple(literal_text(each) if isinstance(each, str) else each for each in given)


ProvisionTask = Annotated[
    TaskCall,
    PlainValidator(_entry, json_schema_input_type=FilledText | dict[FilledText, list[Argument] | None]),
    PlainSerializer(TaskCall.spelled, when_used="json"),
]
"""A task; the file's name is relative to the folder of the file it stands in."""
