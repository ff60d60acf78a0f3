"""A stream of rows as a dataset: each row is tokenised when it is requested, one row per position."""

from __future__ import annotations

from typing import Any

import torch.utils.data

from armada_train.data.encodings import count_trained
from armada_train.data.hooks import HookError, Stream
from armada_train.data.lengths import Fitted, describe_lengths, refuse_many_dropped
from armada_train.data.tokens import tokenise
from armada_train.specification.values import Schedule

_SURVEYED = 64
_DRAWS = 100


class StreamDataset(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is not installed where types are checked
    """A dataset with as many positions as the training takes. A batch sampler deals them out, so each is taken exactly once."""

    def __init__(
        self, stream: Stream, tokenizer: Any, chat_template: str | None, schedule: Schedule, samples: int
    ) -> None:
        self._stream = stream
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._schedule = schedule
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, position: int) -> dict[str, list[int]]:
        """Tokenise the row at a position; an unusable row is replaced by another draw."""
        for draw in range(_DRAWS):
            row = self._tokenise(position, draw)
            if len(row["input_ids"]) > self._schedule.max_length and self._schedule.long_samples == "truncate":
                row = {column: ids[: self._schedule.max_length] for column, ids in row.items()}
            if len(row["input_ids"]) <= self._schedule.max_length and count_trained(row["labels"]):
                return row
        message = f"none of {_DRAWS} draws at index {position} fits into max_length {self._schedule.max_length}"
        raise HookError(message)

    def survey(self) -> tuple[Fitted, str]:
        """Examine the first rows, as a sample of all.

        Returns:
            What would be done to them, and their lengths as text.

        Raises:
            PayloadFailure: `data_error`: too many are too long.
        """
        fitted = Fitted("train", self._schedule.max_length, [])
        for position in range(min(_SURVEYED, self._samples)):
            row = self._tokenise(position, 0)
            fitted.lengths.append(len(row["labels"]))
            long = max(0, len(row["labels"]) - self._schedule.max_length)
            if long and self._schedule.long_samples == "truncate":
                fitted.truncated += 1
                fitted.cut_tokens += long
            elif long:
                fitted.too_long += 1
            elif not count_trained(row["labels"]):
                fitted.untrainable += 1
        fitted.kept = len(fitted.lengths) - fitted.dropped
        refuse_many_dropped(fitted, self._schedule)
        return fitted, f"the first {len(fitted.lengths)} samples are {describe_lengths(fitted.lengths)}"

    def _tokenise(self, position: int, draw: int) -> dict[str, list[int]]:
        return tokenise(self._stream.row(position, draw), self._tokenizer, self._chat_template)
