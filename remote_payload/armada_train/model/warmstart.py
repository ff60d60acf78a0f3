"""Start from another training's weights. Compatibility is checked from files alone, before torch is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from armada_train.checkpoints.complete import has_weights, is_zip, read_shapes
from armada_train.checkpoints.manifest import read_manifest
from armada_train.checkpoints.shards import is_sharded
from armada_train.failure import PayloadFailure
from armada_train.records import UnreadableRecord, find_object, is_number, read_object, show
from armada_train.specification.values import CHANGES_BASE, Lora, StartFrom, TinyModel, Training

_CONFIG = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
}
_SCORES = "SEQ_CLS"
"""PEFT's word for an adapter of a model that scores; PEFT itself adds its head to `modules_to_save`, by both names."""
_HEADS = {"classifier", "score"}


def check_start(training: Training) -> None:
    """Check whether the checkpoint to start from fits the model and adapter of this training.

    Raises:
        PayloadFailure: `bad_spec`, naming everything that does not fit.
    """
    start = training.start_from
    if start is None:
        return
    if not start.path.is_dir():
        raise _misfit(start, "it no longer exists; a checkpoint at home is sent with the run")
    if not has_weights(start.path):
        raise _misfit(start, "its weights are missing or truncated")
    if start.moments and not is_zip(start.path / "optimizer.pt"):
        raise _misfit(
            start, "its optimizer.pt is missing or truncated: leave `optimizer` out, or use another checkpoint"
        )
    adapter = _read_adapter(start)
    if not adapter and is_sharded(start.path):
        raise _misfit(start, "its weights are in shards: `armada merge` that run, and use the result as `model`")
    if adapter and training.lora is None:
        raise _misfit(
            start, "it is an adapter, but this training has no `lora`: merge it first, and use the result as `model`"
        )
    if not adapter and training.lora is not None:
        raise _misfit(start, "it is a whole model, but this training has `lora`: use it as `model` instead")
    if adapter and (adapter.get("task_type") == _SCORES) is training.objective.generates:
        raise _misfit(
            start,
            "its adapter belongs to another kind of model (one scores texts, the other writes them): merge it first",
        )
    if not adapter and training.objective.generates and is_scorer(start.path):
        raise _misfit(
            start, f"it is a reward model, which cannot write: `task: {training.objective.name}` needs one that can"
        )
    differences = [*_compare_models(start, training)]
    if training.lora is not None:
        differences += _compare_adapters(adapter, training.lora)
    elif isinstance(training.model, str):
        differences += _compare_shapes(start.path, Path(training.model))
    if differences:
        raise _misfit(start, "; ".join(differences))


def _read_adapter(start: StartFrom) -> dict[str, Any]:
    """Return an adapter's configuration; an empty one for a whole model.

    Raises:
        PayloadFailure: `bad_spec`: it is damaged.
    """
    path = start.path / "adapter_config.json"
    if not path.exists():
        return {}
    try:
        adapter = read_object(path)
    except UnreadableRecord as error:
        raise _misfit(start, f"its configuration is damaged: {error}") from error
    for key in ("modules_to_save", "target_modules"):
        names = adapter.get(key)
        if not (names is None or isinstance(names, str)) and not _are_texts(names):
            raise _misfit(start, f"its adapter_config.json is damaged: `{key}` is {show(names)}, not a list of names")
    if not is_number(adapter.get("lora_alpha") or 0):
        raise _misfit(
            start, f"its adapter_config.json is damaged: `lora_alpha` is {show(adapter['lora_alpha'])}, not a number"
        )
    return adapter


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def base_model_of(start: StartFrom) -> Path | None:
    """Return the base model that was copied with a checkpoint's adapter, because its run created it; the adapter fits no other."""
    folder = start.path / "base_model"
    return folder if (folder / "config.json").exists() else None


def _compare_models(start: StartFrom, training: Training) -> list[str]:
    base = base_model_of(start)
    if isinstance(training.model, TinyModel):
        if base is None:
            return ["it was not trained on a tiny model"]
        config = find_object(base / "config.json")
        return [
            f"`model.tiny.{ours}` was {show(config.get(theirs))} and is {getattr(training.model, ours)}"
            for theirs, ours in _CONFIG.items()
            if config.get(theirs) != getattr(training.model, ours)
        ]
    if base is not None:
        return ["it was trained on a tiny model"]
    before = (read_manifest(start.path) or {}).get("model")
    if training.lora is None or not isinstance(before, str) or _identity(before) == _identity(training.model):
        return []
    return [f"its adapter was trained on {show(before)}, and `model` is {training.model}"]


def _identity(model: str) -> str:
    """Return a name of the model that is the same on every host; staged models are identified by their hash."""
    return Path(model).name if Path(model).is_absolute() else model


def is_scorer(folder: Path) -> bool:
    """Tell by its configuration whether a whole model has a head that scores."""
    listed = find_object(folder / "config.json").get("architectures")
    return isinstance(listed, list) and any("SequenceClassification" in str(name) for name in listed)


def _compare_adapters(adapter: dict[str, Any], lora: Lora) -> list[str]:
    added = _HEADS if adapter.get("task_type") == _SCORES else set()
    pairs: list[tuple[str, Any, Any]] = [
        ("r", adapter.get("r"), lora.r),
        ("alpha", float(adapter.get("lora_alpha") or 0), float(lora.alpha)),
        ("dora", bool(adapter.get("use_dora")), lora.dora),
        ("rslora", bool(adapter.get("use_rslora")), lora.rslora),
        (
            "modules_to_save",
            sorted(set(adapter.get("modules_to_save") or []) - added),
            sorted(set(lora.modules_to_save) - added),
        ),
    ]
    if not isinstance(lora.target_modules, str):  # PEFT writes `all-linear` as a list
        pairs.append(("target_modules", sorted(adapter.get("target_modules") or []), sorted(lora.target_modules)))
    before = adapter.get("init_lora_weights", True)
    if before in CHANGES_BASE or lora.init in CHANGES_BASE:  # it fits only a base that was changed in the same way
        pairs.append(("init", before, lora.init))
    return [f"`lora.{key}` was {show(was)} and is {now}" for key, was, now in pairs if was != now]


def _compare_shapes(start: Path, model: Path) -> list[str]:
    """Compare whole models tensor by tensor, if the model is a folder."""
    if not model.is_dir():
        return []
    try:
        before, now = read_shapes(start), read_shapes(model)
    except UnreadableRecord as error:
        return [str(error)]
    different = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    if different:
        name = different[0]
        return [
            f"{len(different)} tensors have another shape than `model`'s ({show(name)}: {show(before[name])}, {show(now[name])})"
        ]
    strange = sorted(before.keys() - now.keys())
    return [f"{len(strange)} tensors are not in `model` ({show(strange[0])})"] if now and strange else []


def _misfit(start: StartFrom, why: str) -> PayloadFailure:
    return PayloadFailure("bad_spec", f"`training.start_from` {start.path}: {why}")
