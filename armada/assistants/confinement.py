"""Confine what an assistant may have armada read: experiments of the folder in which `armada mcp` runs, and no other file.

An assistant follows what it has read, so a stranger's text may ask it for `/etc/shadow` as an experiment. An error
would quote the file's first line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KINDS = frozenset({".yaml", ".yml", ".json"})
_NOT_READ_HERE = frozenset(
    {"name", "env", "command", "arguments", "setup", "environment.existing", "environment.container", "resume"}
)
"""Settings whose paths are the host's, or no paths."""


def confine(experiment: str, changes: Iterable[str]) -> str:
    """Return the experiment's path, resolved.

    Args:
        experiment: As the assistant named it.
        changes: Settings it wants to override; paths in them have to stay in the folder too.

    Raises:
        UsageError: It is no YAML or JSON file in the folder where `armada mcp` runs, or a change names another file.
    """
    listed = list(changes)
    if experiment == "quickstart" and not Path(experiment).exists():
        _refuse_other_files(Path.cwd(), listed)
        return experiment
    found = _resolved(Path(), experiment)
    if found is None or not found.is_relative_to(_folder()) or found.suffix.lower() not in _KINDS:
        raise UsageError(
            "an experiment has to be a .yaml, .yml or .json file in the folder where `armada mcp` runs",
            hint="copy it there, or ask the user to run the command",
        )
    if not found.is_file():
        raise UsageError(f"there is no file {found}")
    _refuse_other_files(found.parent, listed)
    return str(found)


def quote_own_files_only() -> None:
    """Have errors about any other file name the file and the line, without what is written there."""
    ConfigError.may_quote = staticmethod(_may_quote)


def _may_quote(path: Path | str) -> bool:
    found = _resolved(Path(), str(path))
    return found is not None and found.is_relative_to(_folder()) and found.suffix.lower() in _KINDS


def _folder() -> Path:
    return Path.cwd().resolve()


def _resolved(base: Path, text: str) -> Path | None:
    try:
        return (base / Path(text).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, an unknown user, a NUL
        return None


def _refuse_other_files(base: Path, changes: Iterable[str]) -> None:
    for change in changes:
        key, _, value = change.partition("=")
        for text in _texts(_value_of(value), key.strip()):
            if _leads_out(base, text):
                raise UsageError(
                    f"{key.strip()}: {text!r} is outside the folder where `armada mcp` runs",
                    hint="write it into the experiment, or ask the user to run the command",
                )


def _value_of(text: str) -> Any:
    from armada.config.documents import Document, Place, build, compose

    nowhere = Place(None, None)
    try:
        node = compose(text, lambda _: nowhere)
        return None if node is None else build(node, Document(Path(), {}), lambda _: nowhere, ())
    except ArmadaError:
        return text  # the command says what is wrong with it


def _texts(value: Any, key: str) -> Iterator[str]:
    """Every text of a value that may be a file of this machine."""
    if any(f"{key}.".startswith(f"{other}.") for other in _NOT_READ_HERE):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, f"{key}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)
    elif isinstance(value, str) and not value.startswith("host:"):
        yield value


def _leads_out(base: Path, text: str) -> bool:
    path = Path(text)
    found = _resolved(base, text)
    if found is None:
        return True
    if found.is_relative_to(_folder()):
        return False
    return path.is_absolute() or text.startswith("~") or ".." in path.parts or found.exists()
