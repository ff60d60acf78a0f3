"""Check that a loaded model fits its training data; PEFT and torch report it late, unclearly or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from armada_train.failure import PayloadFailure
from armada_train.model.files import describe_positions, has_learned_positions, refuse_unmatched
from armada_train.specification.section import bad_spec
from armada_train.specification.values import Schedule, Training

_ROWS_AT_ONCE = 1000


def check_fit(training: Training, model: Any, tokenizer: Any, parts: Sequence[Any]) -> list[str]:
    """Hold adapter, vocabulary and positions against the model.

    Args:
        training: What is asked for.
        model: As transformers loaded it.
        tokenizer: Of the model.
        parts: The tokenised splits (`data.Part`); none of a stream, whose rows are made meanwhile.

    Returns:
        Findings.

    Raises:
        PayloadFailure: `bad_spec`: a name that no module has; `data_error`: rows for which the model has nothing.
    """
    modules = [name for name, _ in model.named_modules()]
    if training.lora is not None:
        refuse_unmatched(training.lora, modules, "the model")
    return [*_check_vocabulary(training, model, tokenizer, parts), *_check_positions(training, model, modules, parts)]


def _check_vocabulary(training: Training, model: Any, tokenizer: Any, parts: Sequence[Any]) -> list[str]:
    size = int(model.get_input_embeddings().weight.shape[0])
    highest = max(tokenizer.get_vocab().values(), default=0)
    if highest < size:
        return []
    what = f"the tokenizer has tokens up to {highest}, the model embeddings for {size}"
    cure = "call `resize_token_embeddings` and save the model again, or use the tokenizer it was trained with"
    if tokenizer.pad_token_id is not None and tokenizer.pad_token_id >= size:
        raise bad_spec(f"{what}: there is none for the padding token, {tokenizer.pad_token!r}; {cure}")
    for part in parts:
        used = _highest(part.dataset.select_columns(["input_ids"]).iter(_ROWS_AT_ONCE))
        if used >= size:
            token = tokenizer.convert_ids_to_tokens(used)
            message = f"{what}: there is none for {token!r} (token {used}), which is in {part.fitted.name} rows; {cure}"
            raise PayloadFailure("data_error", message)
    # Rows that were read do not need the others; a stream's rows are made later. What was only added to the tokenizer, such as a
    # mark that transformers expects, is in no text.
    added = tokenizer.get_added_vocab()
    in_texts = any(token not in added for token, number in tokenizer.get_vocab().items() if number >= size)
    return [f"{what}: rows must not contain the others"] if training.is_stream and in_texts else []


def _highest(batches: Iterable[Any]) -> int:
    return max((max(row) for batch in batches for row in batch["input_ids"] if row), default=0)


def _longest(lengths: Sequence[int], schedule: Schedule) -> int:
    """The longest row that is trained on, of those that were written."""
    if schedule.long_samples == "drop":
        return max((length for length in lengths if length <= schedule.max_length), default=0)
    return min(schedule.max_length, max(lengths, default=0))


def _check_positions(training: Training, model: Any, modules: Sequence[str], parts: Sequence[Any]) -> list[str]:
    longest = training.schedule.max_length
    if parts:
        longest = max((_longest(part.fitted.lengths, training.schedule) for part in parts), default=0)
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    finding = describe_positions(longest, positions)
    if finding is None:
        return []
    if parts:
        finding = f"rows are up to {longest} tokens long, but the model has {positions} positions"
        if has_learned_positions(modules):
            message = f"{finding}, and cannot process more: set `train.max_length` to {positions} or less"
            raise PayloadFailure("data_error", message)
    return [f"{finding}: its output may be worse beyond them"]
