"""Handle samples longer than max_length as configured: drop, truncate or split, counted and limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from armada_train.failure import PayloadFailure
from armada_train.specification.values import Schedule

_SHARES = (50, 90, 95, 99)


@dataclass(slots=True)
class Fitted:
    """What was done to one dataset's rows."""

    name: str
    max_length: int
    lengths: list[int]
    too_long: int = 0
    truncated: int = 0
    split: int = 0
    untrainable: int = 0
    cut_tokens: int = 0
    kept: int = 0
    room: int = 0
    """Tokens beyond a row's own that max_length must hold: of the completion that the model writes."""

    @property
    def dropped(self) -> int:
        return self.too_long + self.untrainable

    def describe(self) -> str | None:
        """Describe the changes in one sentence; None if no row changed."""
        parts = []
        if self.too_long:
            left = f" less {self.room} for the completion" if self.room else ""
            parts.append(f"{self.too_long} longer than max_length {self.max_length + self.room}{left}")
        if self.untrainable:
            parts.append(f"{self.untrainable} {'parts ' if self.split else ''}without a token to learn")
        sentences = (
            [f"{self.dropped} of {len(self.lengths)} {self.name} rows dropped: {', '.join(parts)}"] if parts else []
        )
        if self.truncated:
            sentences.append(
                f"{self.truncated} of {len(self.lengths)} {self.name} rows cut to max_length {self.max_length}, "
                f"which took {self.cut_tokens} tokens from their ends"
            )
        if self.split:
            sentences.append(
                f"{self.split} of {len(self.lengths)} {self.name} rows split at max_length {self.max_length}: "
                "the later parts are learnt without the earlier ones"
            )
        return "; ".join(sentences) or None


def describe_lengths(lengths: Sequence[int]) -> str:
    """Return the percentiles of lengths in tokens, as text."""
    ordered = sorted(lengths)
    shares = [f"p{share} {ordered[min(len(ordered) - 1, len(ordered) * share // 100)]}" for share in _SHARES]
    return f"{', '.join(shares)}, longest {ordered[-1]} tokens"


def refuse_many_dropped(
    fitted: Fitted, schedule: Schedule, long_prompts: str | None = None, *, splits: bool = True
) -> None:
    """Refuse to train if too many rows were dropped.

    Args:
        fitted: What was done to the rows.
        schedule: Defines how many may be dropped.
        long_prompts: A sentence about prompts that leave no room for an answer, which cutting does not help.
        splits: Whether a row may be split.

    Raises:
        PayloadFailure: `data_error`, with the lengths that help to choose another max_length.
    """
    rows = len(fitted.lengths)
    if fitted.too_long <= schedule.drop_limit * rows and fitted.kept:
        return
    share = (
        "no rows are left"
        if not fitted.kept
        else f"more than train.drop_limit, {schedule.drop_limit:.0%}, would be dropped"
    )
    found = [f"{fitted.describe()} ({describe_lengths(fitted.lengths)})", *([long_prompts] if long_prompts else [])]
    advice = "raise train.max_length"
    if long_prompts:
        advice += ", or leave such rows out"
    elif not fitted.room and schedule.long_samples == "drop":
        advice += f", or set train.long_samples to truncate{' or split' if splits else ''}"
    raise PayloadFailure("data_error", f"{share}: {'; '.join([*found, advice])}")
