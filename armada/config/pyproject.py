"""Read the dependencies of a project from its pyproject.toml: those it always needs, its extras and dependency groups."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from armada.config.documents import Place, read_text, shown
from armada.config.requirements import Requirement, read_line
from armada.config.validation import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from armada.errors import ConfigError

_LINE = re.compile(r"at line (\d+)")


def read_project(path: Path, extras: Sequence[str] = (), groups: Sequence[str] = ()) -> tuple[Requirement, ...]:
    """Read `[project] dependencies`, and what the named extras and groups add.

    Raises:
        ConfigError: It is no pyproject.toml that says them, or one of them is nothing that a host can fetch.
    """
    project = _Project(path)
    found = [*project.dependencies()]
    for name in extras:
        found += project.of("extra", name)
    for name in groups:
        found += project.of("group", name)
    return tuple({line.text: line for line in found}.values())


class _Project:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = read_text(path)
        try:
            data = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            line = _LINE.search(str(error))
            raise Place(path, int(line[1]) if line else 1).error(f"not TOML: {error}") from error
        project = data.get("project")
        if not isinstance(project, dict):
            raise self._error(
                "[", "there is no [project] table", "name a requirements.txt; `uv export` or `poetry export` writes one"
            )
        self._project: dict[str, Any] = project
        self._extras = _tables(project.get("optional-dependencies"))
        self._groups = _tables(data.get("dependency-groups"))
        tool = data.get("tool")
        uv = tool.get("uv") if isinstance(tool, dict) else None
        self._sources: dict[str, Any] = dict(uv.get("sources") or {}) if isinstance(uv, dict) else {}
        self._asked: tuple[tuple[str, str], ...] = ()

    def dependencies(self) -> Iterator[Requirement]:
        dynamic = self._project.get("dynamic")
        if isinstance(dynamic, list) and "dependencies" in dynamic:
            raise self._error(
                "dynamic", "the dependencies are dynamic: a build backend makes them", "name a requirements.txt instead"
            )
        return self._lines(self._project.get("dependencies", []), "[project] dependencies")

    def of(self, kind: str, name: str) -> list[Requirement]:
        """What an `extra` or a `group` adds."""
        if (kind, name) in self._asked:
            raise self._error(name, f"the {kind} {shown(name)} includes itself", "take one of the two out")
        before, self._asked = self._asked, (*self._asked, (kind, name))
        found = self._extra(name) if kind == "extra" else self._group(name)
        self._asked = before
        return found

    def _extra(self, name: str) -> list[Requirement]:
        lines = self._find(name, self._extras, "extra", "[project.optional-dependencies]")
        own = _plain(str(self._project.get("name", "")))
        found: list[Requirement] = []
        for line in self._lines(lines, f"the extra {name}"):
            if line.name != own:
                found.append(line)
                continue
            for other in sorted(line.parsed.extras):  # all = ["this-project[a,b]"]
                found += self.of("extra", other)
        return found

    def _group(self, name: str) -> list[Requirement]:
        lines = self._find(name, self._groups, "group", "[dependency-groups]")
        found: list[Requirement] = []
        for item in lines if isinstance(lines, list) else [lines]:
            if isinstance(item, dict) and isinstance(item.get("include-group"), str):
                found += self.of("group", item["include-group"])
            else:
                found += self._lines([item], f"the group {name}")
        return found

    def _find(self, name: str, known: dict[str, Any], kind: str, table: str) -> Any:
        for each, lines in known.items():
            if _plain(each) == _plain(name):
                return lines
        near = nearest(name, known)
        names = f"known: {', '.join(known)}" if known else f"it has no {table}"
        raise self._error(table, f"there is no {kind} {shown(name)}", f"did you mean {near}?" if near else names)

    def _lines(self, items: Any, what: str) -> Iterator[Requirement]:
        if not isinstance(items, list):
            raise self._error(what.rpartition(" ")[2], f"{what} must be a list")
        for item in items:
            if not isinstance(item, str):
                raise self._error(what.rpartition(" ")[2], f"{what}: {shown(item)} is no requirement")
            line = read_line(item.strip(), self._place(item))
            self._refuse_source(line)
            yield line

    def _refuse_source(self, line: Requirement) -> None:
        """Refuse what uv would take from a place that the host does not have; an index alone is the host's own matter."""
        source = next((told for name, told in self._sources.items() if _plain(name) == line.name), None)
        for each in source if isinstance(source, list) else [source]:
            kind = next(
                (key for key in ("path", "workspace", "git", "url") if isinstance(each, dict) and key in each), ""
            )
            if kind:
                raise self._error(
                    line.name,
                    f"[tool.uv.sources] takes {line.name} from a {kind}, which hosts are not told",
                    f"write {line.name} @ git+https://HOST/PROJECT@COMMIT into a requirements.txt, and name that",
                )

    def _place(self, word: str) -> Place:
        found = self._text.find(word)
        return Place(self._path, self._text.count("\n", 0, max(found, 0)) + 1)

    def _error(self, word: str, message: str, hint: str | None = None) -> ConfigError:
        return self._place(word).error(message, hint)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _tables(value: Any) -> dict[str, Any]:
    return {str(key): lines for key, lines in value.items()} if isinstance(value, dict) else {}
