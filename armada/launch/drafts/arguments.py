"""The command-line arguments of a script, found in its source: argparse, click, and dataclasses that a parser is made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from armada.launch.drafts.expressions import call_name, constant_text

MOST = 200
"""More arguments are left out of a draft."""

_FLAG = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_HELP = frozenset({"-h", "--help", "--version"})
_FLAGS = frozenset({"store_true", "store_false", "store_const", "append_const", "count"})
_PARSERS = frozenset({"HfArgumentParser", "TrlParser", "H4ArgumentParser"})
_LIBRARY: Mapping[str, tuple[tuple[str, str], ...]] = {
    "TrainingArguments": (
        ("output_dir", "where checkpoints are saved"),
        ("num_train_epochs", "passes over the data"),
        ("per_device_train_batch_size", "samples per GPU at once"),
        ("learning_rate", "the highest learning rate"),
        ("save_steps", "steps between two checkpoints"),
    ),
    "ScriptArguments": (("dataset_name", "the dataset"),),
    "ModelConfig": (("model_name_or_path", "the model"),),
}
_TRAINING = ("TrainingArguments", "Config")
"""Classes of libraries with these endings have the arguments of TrainingArguments: Seq2SeqTrainingArguments, SFTConfig."""
_REQUIRED = frozenset({"output_dir", "dataset_name", "model_name_or_path"})


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a script.

    Attributes:
        flag: `--lr`; the name alone where it is positional.
        default: As the source writes it; None if there is none.
        is_required: The script does not start without it.
        takes_value: Whether a value follows it.
        takes_several: Whether several words may follow it.
        choices: Its values, as the source writes them, if they are few and known.
        help: What the script says about it.
        value: What the draft gives it; None for nothing.
    """

    flag: str
    default: str | None = None
    is_required: bool = False
    takes_value: bool = True
    takes_several: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    value: str | None = None

    @property
    def name(self) -> str:
        """As the parsed arguments call it."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def is_positional(self) -> bool:
        return not self.flag.startswith("-")


def find_arguments(tree: ast.Module) -> tuple[Argument, ...]:
    """Every argument of a script, each flag once, in the order of the source."""
    found: dict[str, Argument] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for argument in _of_call(node, tree):
                if _FLAG.fullmatch(argument.flag):
                    found.setdefault(argument.flag, argument)
    return tuple(found.values())[:MOST]


def _of_call(node: ast.Call, tree: ast.Module) -> Iterator[Argument]:
    name = call_name(node)
    if isinstance(node.func, ast.Attribute) and name in {"add_argument", "option", "argument"}:
        if (one := _of_option(node, is_click=name != "add_argument")) is not None:
            yield one
    elif name in _PARSERS or (name == "cli" and ast.unparse(node.func).startswith("tyro")):
        for of_class in _classes(node):
            for argument in _of_class(of_class, tree):
                yield replace(argument, flag=argument.flag.replace("_", "-")) if name == "cli" else argument


def _of_option(node: ast.Call, *, is_click: bool) -> Argument | None:
    words = [text for text in map(constant_text, node.args) if text]
    flag = next((word for word in words if word.startswith("--")), words[0] if words else None)
    if flag is None or flag in _HELP or (is_click and call_name(node) == "option" and not flag.startswith("-")):
        return None
    said = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    action = constant_text(said.get("action")) or (ast.unparse(said["action"]) if "action" in said else "")
    nargs = said.get("nargs")
    default = said.get("default")
    is_positional = not flag.startswith("-")
    is_optional = constant_text(nargs) in {"?", "*"} or (is_positional and default is not None)
    return Argument(
        flag.partition("/")[0],  # click's `--on/--off`
        default=None if default is None or _is_none(default) else _source(default),
        is_required=(is_positional and not is_optional) or _is_true(said.get("required")),
        takes_value=not (action in _FLAGS or "BooleanOptional" in action or _is_true(said.get("is_flag"))),
        takes_several=nargs is not None and constant_text(nargs) != "?",
        choices=_choices(said.get("choices")),
        help=constant_text(said.get("help")) or "",
    )


def _classes(node: ast.Call) -> list[str]:
    """The names of the dataclasses that a parser is made of."""
    given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "dataclass_types")]
    listed = [each for one in given for each in (one.elts if isinstance(one, ast.Tuple | ast.List) else [one])]
    return [name for each in listed if (name := getattr(each, "id", getattr(each, "attr", "")))]


def _of_class(name: str, tree: ast.Module) -> Iterator[Argument]:
    """The fields of a dataclass of the script, and of those above it; what is known of one that a library has."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for base in node.bases:
                if (above := getattr(base, "id", getattr(base, "attr", ""))) and above != name:
                    yield from _of_class(above, tree)
            yield from (_of_field(each) for each in node.body if isinstance(each, ast.AnnAssign))
            return
    known = name if name in _LIBRARY else "TrainingArguments" if name.endswith(_TRAINING) else ""
    for field, about in _LIBRARY.get(known, ()):
        yield Argument(f"--{field}", is_required=field in _REQUIRED, help=about)


def _of_field(node: ast.AnnAssign) -> Argument:
    name = node.target.id if isinstance(node.target, ast.Name) else ""
    kind, value = ast.unparse(node.annotation), node.value
    default: ast.expr | None = value
    about = ""
    choices: tuple[str, ...] = ()
    is_required = value is None
    if isinstance(value, ast.Call) and call_name(value) == "field":
        said = {keyword.arg: keyword.value for keyword in value.keywords if keyword.arg}
        default = said.get("default")
        is_required = default is None and "default_factory" not in said
        if isinstance(metadata := said.get("metadata"), ast.Dict):
            told = dict(zip(map(constant_text, metadata.keys), metadata.values, strict=True))
            about, choices = constant_text(told.get("help")) or "", _choices(told.get("choices"))
    if kind.startswith(("Literal[", "typing.Literal[")) and not choices and isinstance(node.annotation, ast.Subscript):
        choices = _choices(node.annotation.slice)
    return Argument(
        f"--{name}",
        default=None if default is None or _is_none(default) else _source(default),
        is_required=is_required,
        takes_several=kind.lower().startswith(("list", "tuple", "sequence")),
        choices=choices,
        help=about,
    )


def _choices(node: ast.AST | None) -> tuple[str, ...]:
    elements = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else []
    return tuple(str(each.value) for each in elements[:12] if isinstance(each, ast.Constant))


def _source(node: ast.expr) -> str:
    """A default as its source writes it; long ones are of no use on one line."""
    if isinstance(node, ast.Constant | ast.UnaryOp | ast.Name | ast.Attribute | ast.List | ast.Tuple):
        return ast.unparse(node)
    return constant_text(node) or "…"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
