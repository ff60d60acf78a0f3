"""Write docs/schemas, protocol.json, and the generated pages of docs/reference: `make reference`.

Keys come from the JSON Schemas of the pydantic models, commands from argparse, exit codes and error kinds from
`armada.errors`, JSON shapes from `armada.cli.shapes`, launch checks from the table in which they are numbered.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from armada import api, errors
from armada.cli.main import build_parser
from armada.cli.shapes import ERROR, SHAPES, all_schemas
from armada.config.key_list import Notation, default_of, meaning_of, type_of
from armada.config.schema import FILES, schema_of
from armada.protocol.schema import text as protocol_text
from benchmarks.gpu import table
from tests.tools.reflow import reflow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/reference"
_MADE = "<!-- Made by `make reference` from {source}. Change that, not this page. -->"
_FILES = {
    "experiment": (
        "Keys of an experiment",
        "The file that `armada launch` takes. [Files you write](experiments.md) explains it.",
    ),
    "hosts": ("Keys of hosts.yaml", "The file of your hosts. [Files you write](experiments.md#hostsyaml) explains it."),
    "profile": (
        "Keys of a profile",
        "A profile describes a kind of machine. [Files you write](experiments.md#profiles) explains it.",
    ),
}
_MARKDOWN = Notation(quote=lambda word: f"`{word}`", refer=lambda name: f"[{name}](#{name.lower()})")
_CHECK_ROW = re.compile(r"^\| (ARM\d{3}) \| (.+?) *\|$", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return each page's text by its file name in docs/reference."""
    return {
        **{f"keys-{kind}.md": _keys_page(kind) for kind in _FILES},
        "commands.md": _commands_page(),
        "exit-codes.md": _exit_codes_page(),
        "checks.md": _checks_page(),
        "json-shapes.md": _shapes_page(),
        "api.md": _api_page(),
        "gpu.md": _gpu_page(),
    }


def _gpu_page() -> str:
    intro = (
        "What was measured on GPUs, for you who must know what armada does there. [Measure your GPU](../how-to/gpu.md) shows how.\n"
        "An aim that was missed stands beside its figure; a check that failed is a defect of armada or of the libraries named."
    )
    return _page("Measured on GPUs", "`benchmarks/gpu/results`", intro, table.render(table.files()))


def _page(title: str, source: str, intro: str, parts: list[str]) -> str:
    return reflow("\n\n".join([f"# {title}", _MADE.format(source=source), intro, *parts]) + "\n")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = [head, tuple("---" for _ in head), *([tuple(cell.replace("|", "\\|") for cell in row) for row in rows])]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _keys_page(kind: str) -> str:
    schema = schema_of(kind)
    definitions: dict[str, Any] = schema.get("$defs", {})
    top = schema if "properties" in schema else definitions["Profile"]
    parts = [_keys_table(top)]
    for name in _reached(top, definitions):
        about = definitions[name].get("description")
        parts += [f"## {name}", *([about] if about else []), _keys_table(definitions[name])]
    title, intro = _FILES[kind]
    return _page(title, "the models in `armada/config`", intro, parts)


def _reached(top: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    """Return the definitions that a file refers to, in the order of their first mention."""
    found: list[str] = []
    waiting = [top]
    while waiting:
        definition = waiting.pop(0)
        for name in re.findall(r"#/\$defs/(\w+)", repr((definition.get("properties"), definition.get("allOf")))):
            if name not in found and definitions[name].get("properties"):
                found.append(name)
                waiting.append(definitions[name])
    return found


def _keys_table(definition: dict[str, Any]) -> str:
    required = definition.get("required", [])
    rows = []
    for key, value in definition["properties"].items():
        if kind := type_of(value, _MARKDOWN):  # a key that belongs to another task may only be empty
            default = default_of(value)
            shown = "required" if key in required else "" if default is None else f"`{default}`"
            rows.append((f"`{key}`", kind, shown, meaning_of(value)))
    return _table(("Key", "Value", "Default", "Meaning"), rows)


def _commands_page() -> str:
    parts: list[str] = []
    for parser in _walk(build_parser()):
        parts += [f"## {parser.prog}", _usage(parser), parser.description or ""]
        rows = [row for action in parser._actions if _is_shown(action) for row in _rows(action)]  # noqa: SLF001
        parts.append(_table(("Name", "Meaning"), rows))
        if parser.epilog:
            raw = parser.formatter_class is argparse.RawDescriptionHelpFormatter
            parts.append(f"```sh\n{parser.epilog}\n```" if raw else parser.epilog)
    intro = "Every command with its options. `armada COMMAND --help` prints the same on your machine."
    return _page("Commands", "`armada/cli`", intro, parts)


def _walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no public names for its added actions
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action.choices.values():
                yield from _walk(choice)


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and "--help" not in action.option_strings


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage in a format of our own: argparse's differs between versions of Python."""
    shown = [action for action in parser._actions if _is_shown(action)]  # noqa: SLF001
    needed = [
        f"{action.option_strings[0]} {_metavar(action)}"
        for action in shown
        if action.option_strings and action.required
    ]
    optional = ["[OPTIONS]"] if any(action.option_strings and not action.required for action in shown) else []
    words = []
    for action in shown:
        if action.option_strings:
            continue
        word = _metavar(action)
        words.append({"?": f"[{word}]", "*": f"[{word} ...]", "+": f"{word} [{word} ...]"}.get(str(action.nargs), word))
        if action.nargs == argparse.PARSER:
            words.append("...")
    return f"```\n{' '.join([parser.prog, *needed, *optional, *words])}\n```"


def _metavar(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _name(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    if action.option_strings:
        return ", ".join(f"`{one}{value}`" for one in action.option_strings)
    return f"`{value.strip()}`"


def _rows(action: argparse.Action) -> Iterator[tuple[str, str]]:
    if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
        yield _name(action), action.help or ""
        return
    for choice in action._choices_actions:  # noqa: SLF001
        prog = action.choices[choice.dest].prog
        yield f"[`{choice.dest}`](#{prog.replace(' ', '-')})", choice.help or ""


def _exit_codes_page() -> str:
    codes = _table(("Code", "Meaning"), [(f"{code}", said) for code, said in errors.EXIT_CODES.items()])
    kinds = []
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.ArmadaError) and kind.__module__ == errors.__name__:
            kinds.append((f"`{name}`", str(kind.exit_code), (inspect.getdoc(kind) or "").partition("\n")[0]))
    kinds.sort(key=lambda row: (int(row[1]), row[0]))
    intro = "What a command's exit code tells a script. `armada help exit-codes` prints the first table."
    said = "The `kind` of an [error in JSON](json.md) names what happened, with the exit code that it leads to."
    table = _table(("Kind", "Exit code", "Meaning"), kinds)
    return _page("Exit codes", "`armada/errors.py`", intro, [codes, "## Kinds of errors", said, table])


def _checks_page() -> str:
    found: dict[str, str] = {}
    for file in sorted((ROOT / "armada/launch").rglob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        found |= dict(_CHECK_ROW.findall(said))
    rows = [(code, said) for code, said in sorted(found.items())]
    intro = (
        "What armada checks before it starts a run. A check that fails stops the launch with exit code 3; one that warns does not.\n"
        "`armada launch --dry-run` prints every check. The numbers never change their meaning, so scripts may match them."
    )
    return _page(
        "Launch checks", "the table of checks in `armada/launch`", intro, [_table(("Number", "What it finds"), rows)]
    )


def _shapes_page() -> str:
    intro = (
        "The fields that each command prints with `--json`. [Output for programs](json.md) says what may change.\n"
        "A field with `?` is not always there. `armada help json` prints the same as JSON Schemas."
    )
    parts: list[str] = []
    for command, shape in [*sorted(SHAPES.items()), ("error", ERROR)]:
        rows = [
            (f"`{field.replace('?', '')}{'?' * ('?' in field)}`", kind.replace(" | ", " or "))
            for field, kind in _fields(shape, "")
        ]
        title = "An error, of any command" if command == "error" else f"armada {command}"
        form = ["A list of:"] if isinstance(shape, list) else []
        parts += [f"## {title}", *form, _table(("Field", "Type"), rows)]
    return _page("JSON shapes", "`armada/cli/shapes.py`", intro, parts)


def _fields(shape: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(shape, list):
        yield from _fields(shape[0], f"{where}[]" if where else "")
    elif isinstance(shape, dict):
        yield from itertools.chain.from_iterable(
            _fields(each, f"{where}.{name}" if where else name) for name, each in shape.items()
        )
    else:
        yield where, str(shape)


def _api_page() -> str:
    intro = "Every name of `armada.api`, for you who write notebooks and scripts. [Use armada from Python](../how-to/api.md) shows how."
    parts = [
        "## Armada",
        *_documented(api.Armada),
        "The errors are [those of the commands](exit-codes.md#kinds-of-errors).",
    ]
    for name, method in vars(api.Armada).items():
        if not name.startswith("_"):
            signature = (
                re.sub(r"'([^']*)'", r"\1", str(inspect.signature(method))).replace("(self, ", "(").replace("self", "")
            )
            parts += [f"### {name}", f"```python\n{name}{signature}\n```", *_documented(method)]
    for name in api.__all__:
        kind = getattr(api, name)
        if inspect.isclass(kind) and not issubclass(kind, Exception) and kind is not api.Armada:
            parts += [f"## {name}", *_documented(kind)]
            if kind is api.Metrics:
                parts += ["### to_pandas", *_documented(kind.to_pandas)]
    return _page("The Python interface", "the docstrings of `armada/api`", intro, parts)


def _documented(thing: Any) -> Iterator[str]:
    """Yield the paragraphs of a docstring in Google style; its sections become lists."""
    for paragraph in (inspect.getdoc(thing) or "").split("\n\n"):
        title, _, rest = paragraph.partition("\n")
        if title not in ("Args:", "Returns:", "Raises:", "Attributes:"):
            yield " ".join(paragraph.split("\n"))
            continue
        entries = re.sub(r"\n\s{8,}", " ", rest).split("\n")
        lines = [re.sub(r"^\s*(\w+): ", r"- `\1`: ", entry) for entry in entries]
        words = {"Args:": "Arguments:", "Attributes:": "Fields:"}.get(title, title)
        yield f"{words}\n\n" + "\n".join(line if line.startswith("- ") else f"- {line.strip()}" for line in lines)


def main() -> int:
    """Write every schema and page that has changed."""
    schemas = {f"{kind}.schema.json": schema_of(kind) for kind in FILES} | {"output.schema.json": all_schemas()}
    wanted = {
        ROOT / "docs/schemas" / name: f"{json.dumps(schema, indent=1, ensure_ascii=name == 'output.schema.json')}\n"
        for name, schema in schemas.items()
    }
    wanted[ROOT / "remote_payload/protocol.json"] = protocol_text()
    for path, text in (wanted | {FOLDER / name: text for name, text in pages().items()}).items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
