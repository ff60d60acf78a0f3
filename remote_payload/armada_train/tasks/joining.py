"""Join the shards of a checkpoint into a plain model, as large as a disk: one piece of one tensor is in memory at a time."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers.conversion_mapping import get_model_conversion_mapping

from armada_train.checkpoints import announce
from armada_train.checkpoints.shard_reader import Piece, Stored, read_stored
from armada_train.failure import PayloadFailure
from armada_train.model.warmstart import is_scorer
from armada_train.records import UnreadableRecord, read_object
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import Metrics
from armada_train.runfolder import RunFolder
from armada_train.specification.merge import Merge
from armada_train.training.gauges import peak_memory_bytes

_LARGEST_FILE = 5_000_000_000
_AT_ONCE = 1_000_000
"""Numbers that are checked and converted at a time, each of which takes a few bytes more."""

_WORDS = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
"""safetensors' names of types."""

_KEPT = ("generation_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "chat_template.jinja")


def join(wanted: Merge, run: RunFolder, heartbeat: Heartbeat) -> None:
    """Write the model, and put it into the outbox.

    Raises:
        PayloadFailure: `merge_mismatch`: the shards are not those of the model; `nan_loss`: a weight is not a number.
    """
    started = time.monotonic()
    metrics = Metrics(run.metrics if run.is_main else None, run.attempt)
    final = run.checkpoints / f"checkpoint-{wanted.step}"
    if not final.exists():
        model = _outline(wanted.adapter)
        stored = _choose(read_stored(wanted.adapter), model, wanted.adapter)
        findings = _doubts(model)
        part = final.with_name(f".part-{final.name}")
        if part.exists():
            shutil.rmtree(part)
        part.mkdir(parents=True)
        dtype = None if wanted.dtype == "auto" else getattr(torch, wanted.dtype)
        names = _write_all(stored, part, dtype, lambda: heartbeat.beat("merging"))
        _write_documents(wanted.adapter, part, dtype or stored[0].dtype)
        part.rename(final)
        word = str(dtype or stored[0].dtype).removeprefix("torch.")
        parameters = sum(_numbers(tensor.shape) for tensor in stored)
        print(f"joined {parameters:,} parameters in {len(names)} file(s); written as {word}", flush=True)
        for finding in findings:
            print(f"finding: {finding}", flush=True)
        summary = {
            "parameters": parameters,
            "dtype": word,
            "findings": findings,
            "peak_memory_bytes": peak_memory_bytes(),
            "seconds": time.monotonic() - started,
        }
        metrics.append("summary", wanted.step, summary)
    announcement = {"step": wanted.step, "kind": "final", "time": time.time(), "metrics": {}}
    announce.announce(run, final, announcement, None)
    heartbeat.beat("ended", wanted.step)


def _outline(checkpoint: Path) -> Any:
    """Return the model without any weights."""
    config = AutoConfig.from_pretrained(checkpoint)
    model_class = AutoModelForSequenceClassification if is_scorer(checkpoint) else AutoModelForCausalLM
    with torch.device("meta"):
        return model_class.from_config(config)


def _doubts(model: Any) -> list[str]:
    """Warn of a model whose weights transformers holds otherwise than its authors published them, such as experts."""
    if not get_model_conversion_mapping(model, add_legacy=False):
        return []
    finding = (
        f"the weights of {type(model).__name__} have the names that transformers {transformers.__version__} uses in memory, "
        "which it reads again; other programs may expect those of the hub"
    )
    return [finding]


def _choose(stored: list[Stored], model: Any, checkpoint: Path) -> list[Stored]:
    """Return the tensors that the model has, without those that are tied to another one.

    Raises:
        PayloadFailure: `merge_mismatch`: one is missing, or has another shape.
    """
    by_name = {tensor.name: tensor for tensor in stored}
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    chosen = []
    for name, weight in model.state_dict().items():
        if name in tied:
            continue
        tensor = by_name.get(name)
        if tensor is None or tensor.shape != tuple(weight.shape):
            found = "is missing" if tensor is None else f"is {list(tensor.shape)}, not {list(weight.shape)}"
            raise PayloadFailure(
                "merge_mismatch", f"{checkpoint}: of {type(model).__name__}, {name} {found} in the shards"
            )
        chosen.append(tensor)
    return chosen


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    tensors: tuple[Stored, ...]


def _write_all(stored: list[Stored], folder: Path, dtype: Any, beat: Any) -> list[str]:
    files = list(_divide(stored, dtype))
    for file in files:
        _write_file(folder / file.name, file.tensors, dtype, beat)
    if len(files) > 1:
        total = sum(_size(tensor, dtype) for tensor in stored)
        where = {tensor.name: file.name for file in files for tensor in file.tensors}
        index = {"metadata": {"total_size": total}, "weight_map": where}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return [file.name for file in files]


def _divide(stored: list[Stored], dtype: Any) -> Iterator[_File]:
    groups: list[list[Stored]] = [[]]
    size = 0
    for tensor in stored:
        if groups[-1] and size + _size(tensor, dtype) > _LARGEST_FILE:
            groups.append([])
            size = 0
        groups[-1].append(tensor)
        size += _size(tensor, dtype)
    for number, group in enumerate(groups, 1):
        name = "model.safetensors" if len(groups) == 1 else f"model-{number:05}-of-{len(groups):05}.safetensors"
        yield _File(name, tuple(group))


def _write_file(path: Path, tensors: tuple[Stored, ...], dtype: Any, beat: Any) -> None:
    """Write a safetensors file: 8 bytes of header length, the header, the tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        start, end = end, end + _size(tensor, dtype)
        word = _WORDS[dtype or tensor.dtype]
        header[tensor.name] = {"dtype": word, "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        out.truncate(8 + len(text) + end)
        for tensor in tensors:
            start = 8 + len(text) + header[tensor.name]["data_offsets"][0]
            for piece in tensor.pieces:
                beat()
                _write_piece(out, start, tensor, piece, dtype or tensor.dtype)


def _write_piece(out: Any, start: int, tensor: Stored, piece: Piece, dtype: Any) -> None:
    """Write the rows of a piece, each of which is contiguous in the whole tensor, to where they belong."""
    if 0 in piece.sizes:
        return  # more ranks than rows
    value = piece.load()
    if value.dtype != tensor.dtype:
        raise PayloadFailure("merge_mismatch", f"{piece.file}: {tensor.name} is {value.dtype}, not {tensor.dtype}")
    depth = _contiguous_from(piece.sizes, tensor.shape)
    rows = value.reshape(-1, _numbers(piece.sizes[depth:])) if piece.sizes else value.reshape(1, 1)
    for number, index in enumerate(_indexes(piece.sizes[:depth])):
        at = 0
        full = [offset + step for offset, step in zip(piece.offsets, (*index, *[0] * len(piece.sizes)), strict=False)]
        for offset, size in zip(full, tensor.shape, strict=True):
            at = at * size + offset
        out.seek(start + at * dtype.itemsize)
        for chunk in rows[number].split(_AT_ONCE):
            if not bool(torch.isfinite(chunk).all()):
                raise PayloadFailure("nan_loss", f"{tensor.name} of the checkpoint is not a number everywhere")
            out.write(memoryview(chunk.to(dtype).contiguous().view(torch.uint8).numpy()))


def _contiguous_from(sizes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the first dimension from which a piece is contiguous in the whole: shards by rows are so from the first."""
    depth = len(shape)
    while depth and sizes[depth:] == shape[depth:]:
        depth -= 1
    return depth


def _indexes(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for first in range(sizes[0]):
        for rest in _indexes(sizes[1:]):
            yield (first, *rest)


def _size(tensor: Stored, dtype: Any) -> int:
    return int(_numbers(tensor.shape) * (dtype or tensor.dtype).itemsize)


def _numbers(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _write_documents(checkpoint: Path, folder: Path, dtype: Any) -> None:
    """Copy configuration and tokenizer; the configuration names the type of the weights."""
    for path in sorted(checkpoint.iterdir()):
        if path.is_file() and (path.name in _KEPT or path.name.startswith("tokenizer")):
            shutil.copyfile(path, folder / path.name)
    try:
        config = read_object(checkpoint / "config.json")
    except UnreadableRecord as error:
        raise PayloadFailure("merge_mismatch", str(error)) from error
    config["dtype"] = str(dtype).removeprefix("torch.")
    config.pop("torch_dtype", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
