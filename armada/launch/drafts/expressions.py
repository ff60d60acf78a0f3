"""What an expression of a script is known to be without running it: a text, with `*` where only running it would tell."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

_DEEPEST = 40
ANY = "*"


@dataclass(frozen=True, slots=True)
class Known:
    """What a script's names stand for.

    Attributes:
        names: Texts that are assigned to plain names.
        arguments: The values of command-line arguments, by attribute: `args.output_dir`.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)


def read_names(tree: ast.Module) -> dict[str, str]:
    """The plain names that are given one constant text, anywhere in the script."""
    found: dict[str, str | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, constant_text(node.value)
            found[name] = value if found.get(name, value) == value else None  # several values: unknown
    return {name: value for name, value in found.items() if value is not None}


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
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        between = "/" if isinstance(node.op, ast.Div) else ""
        return between.join(as_glob(side, known, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Call) and call_name(node) in {"join", "Path", "str", "joinpath"} and node.args:
        parts = [as_glob(each, known, depth + 1) for each in node.args]
        if call_name(node) == "joinpath" and isinstance(node.func, ast.Attribute):
            parts.insert(0, as_glob(node.func.value, known, depth + 1))
        return "/".join(parts)
    return ANY
