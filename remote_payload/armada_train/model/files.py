"""Check a model's folder by its files alone: configuration, weights, tokenizer, and the modules that LoRA would train.

The payload checks before torch is imported. Home checks before a host is contacted, if the folder is at home.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armada_train.checkpoints.complete import has_weights, read_shapes
from armada_train.data.rows import without_end
from armada_train.data.shapes import CHATS
from armada_train.data.turns import describe_lack_of_tools
from armada_train.failure import PayloadFailure
from armada_train.records import UnreadableRecord, read_bytes, read_object
from armada_train.specification.section import bad_spec
from armada_train.specification.values import Lora, TinyModel, Training

_BINARIES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "tekken.json",
)
_PLAIN_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that know only the tokens named in their files; others define an end token of their own."""

_POSITIONS = ("max_position_embeddings", "n_positions")
_SCALED = ("linear", "dynamic", "yarn")
"""Kinds of RoPE scaling that extend `max_position_embeddings`."""

_MOST_FACTOR = 10_000
_LEARNED = ("wpe", "embed_positions", "position_embeddings")
"""Names of learned position embeddings; positions beyond them cannot be looked up."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer according to a folder's files; `ids` is empty if only its own code can read it."""

    ids: dict[str, int]
    added: frozenset[str]
    settings: dict[str, Any]
    template: str | None

    @property
    def always_used(self) -> set[str]:
        """Return tokens that appear in batches whatever the rows contain."""
        named = (self.settings.get(key) for key in ("eos_token", "pad_token"))
        return {text for token in named if (text := _content(token)) is not None}


def check_model(training: Training, kind: str | None, tools: tuple[bool, bool] = (False, False)) -> list[str]:
    """Check whether a model's folder can be trained as requested.

    Args:
        training: Its model is a folder, or a tiny one; a model of the hub is checked once it is loaded.
        kind: The kind of the rows; None if unknown.
        tools: Whether rows are known to offer tools, and to call some.

    Returns:
        Findings: the training is possible, but perhaps not as intended.

    Raises:
        PayloadFailure: `env_error`: the folder does not exist; `bad_spec` or `data_error`: it does not fit.
    """
    lora = training.lora
    head = set() if training.objective.generates else {"score"}  # which the model gets when it is loaded
    if isinstance(training.model, TinyModel):
        if lora is not None:
            refuse_unmatched(lora, _tiny_modules(training.model) | head, "the tiny model")
        return []
    folder = Path(training.model)
    if not folder.is_absolute():
        return []
    if not folder.is_dir():
        raise PayloadFailure("env_error", f"the model's folder {folder} is not there")
    config = _read_config(folder)
    shapes = _read_weights(folder)
    tokenizer = _read_tokenizer(folder)
    _check_tokenizer(folder, tokenizer, kind)
    if tokenizer.template is not None and any(tools) and (lack := describe_lack_of_tools(tokenizer.template, tools[1])):
        raise PayloadFailure("data_error", f"{lack} ({folder})")
    _check_vocabulary(folder, config, tokenizer, kind)
    # transformers puts the experts of a mixture into modules that the files do not name.
    if lora is not None and shapes and not any("expert" in name for name in shapes):
        refuse_unmatched(lora, module_names(shapes) | head, str(folder))
    finding = describe_positions(training.schedule.max_length, _positions(config))
    return [] if finding is None else [f"{folder}: {finding}"]


def refuse_unmatched(lora: Lora, modules: Collection[str], model: str) -> None:
    """Refuse names of modules that the model does not have: PEFT silently trains only the others.

    Args:
        lora: The requested adapter.
        modules: Full names, such as `model.layers.0.self_attn.q_proj`.
        model: The model's name in messages.

    Raises:
        PayloadFailure: `bad_spec`, naming near matches.
    """
    asked = [("target_modules", name) for name in lora.target_modules] if lora.target_modules != "all-linear" else []
    asked += [("modules_to_save", name) for name in lora.modules_to_save]
    problems = []
    for key, name in asked:
        # As PEFT matches them: `modules_to_save` by any suffix, `target_modules` by whole components of the name.
        ends = name if key == "modules_to_save" else f".{name}"
        if any(module == name or module.endswith(ends) for module in modules):
            continue
        last = sorted({module.rpartition(".")[2] for module in modules if not module.rpartition(".")[2].isdigit()})
        near = difflib.get_close_matches(name.rpartition(".")[2], last, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(last[:12])}"
        problems.append(f"`training.lora.{key}`: {model} has no module named {name}; {hint}")
    if problems:
        raise bad_spec("; ".join(problems))


def module_names(tensors: Iterable[str]) -> set[str]:
    """Return the modules that tensors belong to, and their parents."""
    names = {"lm_head"}  # tied to the embedding, it is in no file
    for tensor in tensors:
        parts = tensor.split(".")[:-1]
        names.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return names


def describe_positions(length: int, positions: int | None) -> str | None:
    """Return a message if rows may be longer than the model supports, or None."""
    if positions is None or length <= positions:
        return None
    return f"`train.max_length` {length} is more than the {positions} positions of the model"


def has_learned_positions(modules: Iterable[str]) -> bool:
    return any(name.rpartition(".")[2] in _LEARNED for name in modules)


def _tiny_modules(tiny: TinyModel) -> set[str]:
    layer = [f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")]
    layer += [f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")]
    layer += ["input_layernorm", "post_attention_layernorm"]
    tensors = [f"model.layers.{number}.{name}.weight" for number in range(tiny.layers) for name in layer]
    return module_names([*tensors, "model.embed_tokens.weight", "model.norm.weight"])


def _read_config(folder: Path) -> dict[str, Any]:
    config = _read_object(folder / "config.json")
    if config is None:
        raise bad_spec(f"the model's folder {folder} has no readable config.json")
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def _read_weights(folder: Path) -> dict[str, list[int]]:
    """Read the shapes of all tensors; an empty dictionary for other formats, which only torch can read."""
    if any((folder / name).exists() for name in _SAFETENSORS):
        if not has_weights(folder):
            raise bad_spec(f"the model's folder {folder}: its weights are missing or truncated")
        try:
            return read_shapes(folder)
        except UnreadableRecord as error:
            raise bad_spec(f"the model's folder: {error}") from error
    if any((folder / name).exists() for name in _BINARIES) or (folder / "adapter_config.json").exists():
        return {}
    raise bad_spec(f"the model's folder {folder} has no weights: neither {' nor '.join(_SAFETENSORS)}")


def _read_tokenizer(folder: Path) -> Tokenizer:
    if not any((folder / name).exists() for name in _TOKENIZERS):
        raise bad_spec(f"the model's folder {folder} has no tokenizer: tokenizer.json is missing")
    content = _read_object(folder / "tokenizer.json") or {}
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids: dict[str, int] = {}
    if isinstance(vocabulary, dict):
        ids = {token: number for token, number in vocabulary.items() if isinstance(number, int)}
    elif isinstance(vocabulary, list):
        ids = {str(entry[0]): number for number, entry in enumerate(vocabulary) if isinstance(entry, list) and entry}
    listed = content.get("added_tokens")
    added = {
        entry["content"]: entry["id"]
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("content"), str) and isinstance(entry.get("id"), int)
    }
    settings = {
        **(_read_object(folder / "special_tokens_map.json") or {}),
        **(_read_object(folder / "tokenizer_config.json") or {}),
    }
    return Tokenizer(ids | added, frozenset(added), settings, _read_template(folder, settings))


def _read_template(folder: Path, settings: dict[str, Any]) -> str | None:
    try:
        return read_bytes(folder / "chat_template.jinja").decode("utf-8")
    except (UnreadableRecord, ValueError):
        template = settings.get("chat_template") or (_read_object(folder / "chat_template.json") or {}).get(
            "chat_template"
        )
    if isinstance(template, list):  # several, by name
        template = "\n".join(str(entry.get("template")) for entry in template if isinstance(entry, dict))
    return template if isinstance(template, str) and template else None


def _check_tokenizer(folder: Path, tokenizer: Tokenizer, kind: str | None) -> None:
    if kind in CHATS and tokenizer.template is None and (folder / "tokenizer_config.json").exists():
        raise PayloadFailure(
            "data_error", f"the rows are chats, but the model's tokenizer has no chat template ({folder})"
        )
    is_plain = tokenizer.settings.get("tokenizer_class") in _PLAIN_TOKENIZERS
    if kind is not None and kind not in CHATS and is_plain and _content(tokenizer.settings.get("eos_token")) is None:
        raise without_end(kind)


def _check_vocabulary(folder: Path, config: dict[str, Any], tokenizer: Tokenizer, kind: str | None) -> None:
    """Refuse tokens without an embedding that will certainly be used; others (Gemma 3 has one) are checked against the rows."""
    size = config.get("vocab_size")
    if not isinstance(size, int) or not tokenizer.ids:
        return
    beyond = [token for token, number in tokenizer.ids.items() if number >= size]
    used = [token for token in beyond if token not in tokenizer.added or token in tokenizer.always_used]
    if kind in CHATS and tokenizer.template is not None:
        used += [token for token in beyond if token in tokenizer.template and token not in used]
    highest = max(tokenizer.ids.values())
    what = f"its tokenizer has tokens up to {highest}, its config.json a vocabulary of {size}"
    if used:
        raise bad_spec(
            f"the model's folder {folder}: {what}: there is no embedding for {', '.join(map(repr, used[:3]))}; "
            "call `resize_token_embeddings` and save it again, or use the tokenizer it was trained with"
        )


def usable_positions(positions: Any, scaling: Any) -> int | None:
    """Return how many positions a model is made for, with its RoPE scaling.

    Args:
        positions: Its `max_position_embeddings`; Llama 3's contain the scaling already.
        scaling: Its `rope_scaling`, or `rope_parameters` as transformers 5 calls them.
    """
    if not isinstance(positions, int) or not isinstance(scaling, dict):
        return positions if isinstance(positions, int) else None
    factor = scaling.get("factor")
    if (scaling.get("rope_type") or scaling.get("type")) not in _SCALED or not isinstance(factor, (int, float)):
        return positions
    original = scaling.get("original_max_position_embeddings")
    base = original if isinstance(original, int) else positions
    return max(positions, int(base * factor)) if 1 <= factor <= _MOST_FACTOR else positions


def _positions(config: dict[str, Any]) -> int | None:
    positions = next((config[key] for key in _POSITIONS if isinstance(config.get(key), int)), None)
    return usable_positions(positions, config.get("rope_scaling") or config.get("rope_parameters"))


def _content(token: Any) -> str | None:
    """Return a special token's text; files contain it as a string or as an object."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) and text else None


def _read_object(path: Path) -> dict[str, Any] | None:
    try:
        return read_object(path)
    except UnreadableRecord:
        return None
