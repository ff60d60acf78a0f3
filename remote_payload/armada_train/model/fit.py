"""Check that a loaded model fits its training data; PEFT and torch report it late, unclearly or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from armada_train.failure import PayloadFailure
from armada_train.model.files import describe_positions, has_learned_positions, refuse_unmatched, usable_positions
from armada_train.specification.section import bad_spec
from armada_train.specification.values import Schedule, Training

_ROWS_AT_ONCE = 1000
_SILU_IN_LIGER = frozenset({"llama", "mistral", "mixtral", "phi3", "qwen2", "qwen3", "qwen3_moe"})


def check_fit(training: Training, model: Any, tokenizer: Any, parts: Sequence[Any]) -> list[str]:
    """Compare adapter, vocabulary and positions with the model.

    Args:
        training: The specification.
        model: The model as transformers loaded it.
        tokenizer: The model's tokenizer.
        parts: The tokenised splits (`data.Part`); empty for a stream, whose rows are created during training.

    Returns:
        Findings.

    Raises:
        PayloadFailure: `bad_spec`: no module has a given name; `data_error`: the model has no embedding for some rows.
    """
    modules = [name for name, _ in model.named_modules()]
    if training.schedule.kernels == "liger":
        _refuse_other_activation(model)
    if training.lora is not None:
        refuse_unmatched(training.lora, modules, "the model")
    return [*_check_vocabulary(training, model, tokenizer, parts), *_check_positions(training, model, modules, parts)]


def _refuse_other_activation(model: Any) -> None:
    """Refuse a model for which Liger's kernels would compute another function: they do not ask which it has."""
    config = model.config.get_text_config()
    activation = getattr(config, "hidden_act", None)
    if config.model_type in _SILU_IN_LIGER and activation not in ("silu", "swish"):
        raise bad_spec(
            f"`training.train.kernels`: Liger's compute SiLU in models of type {config.model_type}, "
            f"and this one has {activation!r}: leave it at none"
        )


def _check_vocabulary(training: Training, model: Any, tokenizer: Any, parts: Sequence[Any]) -> list[str]:
    weight = model.get_input_embeddings().weight
    size = int(getattr(weight, "ds_shape", weight.shape)[0])  # ZeRO-3 leaves nothing of a weight that is not in use
    highest = max(tokenizer.get_vocab().values(), default=0)
    if highest < size:
        return []
    what = f"the tokenizer has tokens up to {highest}, the model embeddings for {size}"
    cure = "call `resize_token_embeddings` and save the model again, or use the tokenizer it was trained with"
    if tokenizer.pad_token_id is not None and tokenizer.pad_token_id >= size:
        raise bad_spec(f"{what}: there is none for the padding token, {tokenizer.pad_token!r}; {cure}")
    for part in parts:
        columns = [name for name in part.encoding.columns if name.endswith("_ids")]
        used = _highest(part.dataset.select_columns(columns).iter(_ROWS_AT_ONCE))
        if used >= size:
            token = tokenizer.convert_ids_to_tokens(used)
            message = f"{what}: there is none for {token!r} (token {used}), which is in {part.fitted.name} rows; {cure}"
            raise PayloadFailure("data_error", message)
    # Rows that were read show which tokens are needed; a stream's rows are created later. Tokens that were only added
    # to the tokenizer, such as a mark that transformers expects, appear in no text.
    added = tokenizer.get_added_vocab()
    in_texts = any(token not in added for token, number in tokenizer.get_vocab().items() if number >= size)
    return [f"{what}: rows must not contain the others"] if training.is_stream and in_texts else []


def _highest(batches: Iterable[Any]) -> int:
    return max((max(row) for batch in batches for rows in batch.values() for row in rows if row), default=0)


def _longest(fitted: Any, schedule: Schedule) -> int:
    """Return the length of the longest row as it is trained on, from the original lengths."""
    lengths = [length + fitted.room for length in fitted.lengths] if fitted.room else fitted.lengths
    if schedule.long_samples == "drop":
        return max((length for length in lengths if length <= schedule.max_length), default=0)
    return min(schedule.max_length, max(lengths, default=0))


def _check_positions(training: Training, model: Any, modules: Sequence[str], parts: Sequence[Any]) -> list[str]:
    longest = training.schedule.max_length
    if parts:
        longest = max((_longest(part.fitted, training.schedule) for part in parts), default=0)
    config = model.config.get_text_config()
    scaling = getattr(config, "rope_scaling", None) or getattr(config, "rope_parameters", None)
    positions = usable_positions(getattr(config, "max_position_embeddings", None), scaling)
    finding = describe_positions(longest, positions)
    if finding is None:
        return []
    if parts:
        finding = f"rows are up to {longest} tokens long, but the model has {positions} positions"
        if has_learned_positions(modules):
            message = f"{finding}, and cannot process more: set `train.max_length` to {positions} or less"
            raise PayloadFailure("data_error", message)
    return [f"{finding}: its output may be worse beyond them"]
