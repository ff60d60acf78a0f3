"""What a training script says about itself, read from its syntax tree."""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from armada.errors import ConfigError, UsageError
from armada.launch.drafts.arguments import Argument, find_arguments
from armada.launch.drafts.expressions import ANY, Known, as_glob, call_name, read_names

_LARGEST_BYTES = 2 << 20
_OUTPUT = ("output_dir", "out_dir", "save_dir", "checkpoint_dir", "ckpt_dir", "output_path", "save_path")
_OUT = "out"
_RESUME = ("resume_from_checkpoint", "resume_from", "resume_path", "resume", "ckpt_path", "load_checkpoint")
_SAVES = {"save": 1, "save_file": 1, "save_checkpoint": 0, "save_pretrained": 0, "save_state": 0, "save_model": 0}
"""Calls that save, and which of their arguments names the place."""
_TRAINERS = re.compile(r"\w*(Trainer|TrainingArguments|SFTConfig|DPOConfig|GRPOConfig)")
_SECRET = re.compile(r"[A-Z][A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD)|HF_TOKEN")
_OTHER_PARSERS = {"fire": "fire", "hydra": "hydra", "typer": "typer", "absl": "absl.flags", "tap": "tap"}


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """What is known of a script without running it.

    Attributes:
        path: The script.
        has_main: Whether it has `if __name__ == "__main__"`.
        arguments: Its command-line arguments.
        output: The folder it saves into; None where that is not known.
        pattern: Finds its checkpoints; None where that is not known.
        also_saved: Further patterns of what it saves, numbered like checkpoints.
        resume: The words that tell it to continue from a checkpoint; empty where it has none.
        texts: Constant texts that may be names of files.
        secrets: Names of variables it reads that look like secrets.
        is_lightning: It is a Lightning training.
        is_lightning_cli: LightningCLI reads its arguments.
        is_distributed: It sets up torch.distributed by itself.
        other_parser: A library that reads its arguments in a way that is not known here.
    """

    path: Path
    has_main: bool
    arguments: tuple[Argument, ...]
    output: str | None
    pattern: str | None
    also_saved: tuple[str, ...]
    resume: tuple[str, ...]
    texts: tuple[str, ...]
    secrets: tuple[str, ...]
    is_lightning: bool
    is_lightning_cli: bool
    is_distributed: bool
    other_parser: str | None


def parse_script(path: Path) -> ast.Module:
    """Parse a script. It is not executed.

    Raises:
        UsageError: It is missing, or no Python file.
        ConfigError: It cannot be read, or is no valid Python.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint=f"armada init {path / 'train.py'}")
    if not path.is_file():
        raise UsageError(f"there is no file {path}", hint="name a Python script, or none to draft from the folder")
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file", hint="for another program write `task: command`")
    with path.open("rb") as stream:
        raw = stream.read(_LARGEST_BYTES + 1)
    if len(raw) > _LARGEST_BYTES:
        raise ConfigError(f"it is larger than {_LARGEST_BYTES >> 20} MiB; is it a script?", path=path)
    if b"\0" in raw:
        raise ConfigError("it is not text: it holds NUL bytes", path=path, line=raw.count(b"\n", 0, raw.index(0)) + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the script's own escapes
            return ast.parse(raw)
    except SyntaxError as error:
        raise ConfigError(f"it is not valid Python: {error.msg}", path=path, line=error.lineno or None) from None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "its code is nested too deeply" if not isinstance(error, ValueError) else str(error)
        raise ConfigError(f"it cannot be parsed: {reason}", path=path) from None


def read_script(path: Path) -> ScriptFacts:
    """Find out what can be known of a script.

    Raises:
        UsageError: It is missing, or no Python file.
        ConfigError: It cannot be read, or is no valid Python.
    """
    tree = parse_script(path)
    try:
        return _facts(path, tree)
    except RecursionError:
        raise ConfigError("it cannot be read: its code is nested too deeply", path=path) from None


def has_main(tree: ast.Module) -> bool:
    """Whether it does something when it is started: `if __name__ == "__main__"`."""
    return any(
        isinstance(node, ast.If) and any(getattr(each, "id", "") == "__name__" for each in ast.walk(node.test))
        for node in tree.body
    )


def _facts(path: Path, tree: ast.Module) -> ScriptFacts:
    imported = _imports(tree)
    arguments = tuple(_with_output(each) for each in find_arguments(tree))
    defaults = {each.name: _output_default(each) for each in arguments}
    known = read_names(tree, {name: text for name, text in defaults.items() if text})
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {call_name(node) for node in calls}
    is_lightning = bool(imported & {"lightning", "pytorch_lightning"})
    trains_with_hf = any(_TRAINERS.fullmatch(name) for name in names)
    output = next((known.arguments[name] for name in _OUTPUT if name in known.arguments), None)
    output = output or next((text for call in calls if (text := _keyword(call, "output_dir", known))), None)
    pattern = None
    if is_lightning:
        pattern = _of_lightning(calls, known)
    elif trains_with_hf and imported & {"transformers", "trl"}:
        pattern = _joined(output, "checkpoint-*")
    saved = _saved(calls, known)
    pattern = pattern or next(iter(saved), None)
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return ScriptFacts(
        path=path,
        has_main=has_main(tree),
        arguments=arguments,
        output=output if _is_below(output) else None,
        pattern=pattern,
        also_saved=tuple(text for text in dict.fromkeys(saved) if ANY in text and text != pattern),
        resume=_resume(arguments, calls),
        texts=tuple(sorted(text for text in texts if 0 < len(text) < 500 and "\n" not in text)),
        secrets=tuple(sorted(text for text in texts if _SECRET.fullmatch(text))),
        is_lightning=is_lightning,
        is_lightning_cli="LightningCLI" in names,
        is_distributed="init_process_group" in names or "LOCAL_RANK" in texts,
        other_parser=next((said for module, said in _OTHER_PARSERS.items() if module in imported), None),
    )


def _imports(tree: ast.Module) -> set[str]:
    """The first parts of all imported modules."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _with_output(argument: Argument) -> Argument:
    """Give `out` to an argument that has to name the folder for results."""
    return replace(argument, value=_OUT) if argument.name in _OUTPUT and argument.is_required else argument


def _output_default(argument: Argument) -> str | None:
    """The value of an argument as text, or its default; of one that names the folder for results, `out` where it has none."""
    if argument.value is not None:
        return argument.value
    try:
        value = ast.literal_eval(argument.default) if argument.default else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str) and value:
        return value
    return None


def _keyword(call: ast.Call, name: str, known: Known) -> str | None:
    for each in call.keywords:
        if each.arg == name:
            text = as_glob(each.value, known)
            return text if ANY not in text else None
    return None


def _of_lightning(calls: list[ast.Call], known: Known) -> str:
    for call in calls:
        folder = _keyword(call, "dirpath", known) if call_name(call) == "ModelCheckpoint" else None
        if folder is not None and (pattern := _joined(folder, "*.ckpt")):
            return pattern
    root = next((text for call in calls if (text := _keyword(call, "default_root_dir", known))), None)
    logs = "lightning_logs/version_*/checkpoints/*.ckpt"
    return _joined(root, logs) or logs


def _joined(folder: str | None, pattern: str) -> str | None:
    """A pattern below a folder; None where the folder is not known, or not one that the job works in."""
    return posixpath.normpath(posixpath.join(folder, pattern)) if folder is not None and _is_below(folder) else None


def _saved(calls: list[ast.Call], known: Known) -> list[str]:
    """Patterns of what the script saves, numbered ones first."""
    found: list[str] = []
    for call in calls:
        place = _SAVES.get(call_name(call))
        if place is None or len(call.args) <= place:
            continue
        text = posixpath.normpath(re.sub(r"\*+", "*", as_glob(call.args[place], known)))
        if _is_below(text) and text != ".":
            found.append(text)
    return sorted(found, key=lambda text: (ANY not in text, found.index(text)))


def _is_below(text: str | None) -> bool:
    """Whether it is a path below the folder that the job works in, as `checkpoint.pattern` takes it."""
    return (
        bool(text)
        and text is not None
        and text.isprintable()
        and not (text.startswith(("/", "~", ANY)) or ".." in text.split("/") or "**" in text or ":" in text)
    )


def _resume(arguments: tuple[Argument, ...], calls: list[ast.Call]) -> tuple[str, ...]:
    by_name = {each.name: each for each in arguments if each.takes_value and not each.is_positional}
    for name in _RESUME:
        if name in by_name:
            return (by_name[name].flag, "{checkpoint}")
    passed = any(each.arg == "resume_from_checkpoint" for call in calls for each in call.keywords)
    has_training = "learning_rate" in by_name and "per_device_train_batch_size" in by_name
    return ("--resume_from_checkpoint", "{checkpoint}") if passed and has_training else ()


def named_files(facts: ScriptFacts, folder: Path) -> Iterator[Path]:
    """Files and folders below `folder` that the script names, as they stand in it."""
    for text in facts.texts:
        if not _is_below(text) or text in (".", "./") or not text.strip("./"):
            continue
        try:
            if (folder / text).is_file() or (folder / text).is_dir():
                yield Path(text)
        except (OSError, ValueError):
            continue
