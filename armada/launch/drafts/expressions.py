"""What an expression of a script is known to be without running it: a text, with `*` where only running it would tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_DEEPEST = 40
ANY = "*"
_PERCENT = re.compile(r"%[-+ 0-9.]*[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Known:
    """What a script's names stand for.

    Attributes:
        names: Texts that are assigned to plain names.
        arguments: The values of command-line arguments, by attribute: `args.output_dir`.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)


def read_names(tree: ast.Module, arguments: Mapping[str, str]) -> Known:
    """What the plain names of a script stand for, anywhere in it; defaults of parameters too.

    A name that is given one constant text is that text. Of another, the first path that is partly known counts.
    """
    given = list(_given(tree))
    texts: dict[str, str | None] = {}
    for name, node in given:
        value = constant_text(node)
        texts[name] = value if texts.get(name, value) == value else None
    constants = {name: value for name, value in texts.items() if value is not None}
    known = Known(constants, arguments)
    partly: dict[str, str] = {}
    for name, node in given:
        if name not in constants and isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call):
            glob = as_glob(node, known)
            if glob.strip(f"{ANY}/."):
                partly.setdefault(name, glob)
    return Known({**constants, **partly}, arguments)


def _given(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.FunctionDef) and node.args.defaults:
            named = [*node.args.posonlyargs, *node.args.args][-len(node.args.defaults) :]
            yield from zip((each.arg for each in named), node.args.defaults, strict=True)


def constant_text(node: ast.AST | None) -> str | None:
    """A constant text, also inside `Path(…)`; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Call) and call_name(node) == "Path" and len(node.args) == 1:
        return constant_text(node.args[0])
    return None


def call_name(node: ast.Call) -> str:
    """The last word of what is called: `save` for `torch.save(…)`."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def as_glob(node: ast.AST, known: Known, depth: int = 0) -> str:
    """A path expression as a pattern: what is not known is `*`."""
    if depth > _DEEPEST:
        return ANY
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str | int) else ANY
    if isinstance(node, ast.Name):
        return known.names.get(node.id, ANY)
    if isinstance(node, ast.Attribute):
        return known.arguments.get(node.attr, ANY)
    if isinstance(node, ast.FormattedValue):
        return as_glob(node.value, known, depth + 1) if isinstance(node.value, ast.Attribute | ast.Name) else ANY
    if isinstance(node, ast.JoinedStr):
        return "".join(as_glob(part, known, depth + 1) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return _filled(_PERCENT, constant_text(node.left), values, known, depth)
    if isinstance(node, ast.Call) and call_name(node) == "format" and isinstance(node.func, ast.Attribute):
        return _filled(_BRACES, constant_text(node.func.value), node.args, known, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        between = "/" if isinstance(node.op, ast.Div) else ""
        return between.join(as_glob(side, known, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Call) and call_name(node) in {"join", "Path", "str", "joinpath"} and node.args:
        parts = [as_glob(each, known, depth + 1) for each in node.args]
        if call_name(node) == "joinpath" and isinstance(node.func, ast.Attribute):
            parts.insert(0, as_glob(node.func.value, known, depth + 1))
        return "/".join(parts)
    return ANY


def _filled(fields: re.Pattern[str], text: str | None, values: Sequence[ast.expr], known: Known, depth: int) -> str:
    """A format with its values in their order; what is left over is not known."""
    if text is None:
        return ANY
    texts = (as_glob(each, known, depth + 1) for each in values)
    return fields.sub(lambda _field: next(texts, ANY), text)
