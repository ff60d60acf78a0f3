"""Let SDPA know nothing of padding at the ends of rows, which no token before it sees anyway.

With a mask SDPA takes a kernel that needs three to five times as long (H200, 2048 and 8192 tokens), and the mask is a square of
the length. Attention is causal, so a token sees what is before it: padding behind it changes nothing. What is computed for the
padding itself has no label and no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Rows:
    end_with_padding = False


@contextmanager
def padded_at_their_ends(*, are: bool) -> Iterator[None]:
    """Say of the batches in this block whether their rows have padding at their ends alone, or may have it elsewhere."""
    before, _Rows.end_with_padding = _Rows.end_with_padding, are
    try:
        yield
    finally:
        _Rows.end_with_padding = before


def leave_out_masks() -> None:
    """Leave masks of such padding out in all models of this process, where nothing else needs a mask."""
    from transformers import AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionMaskInterface.register("sdpa", _unless_at_the_ends(sdpa_mask))


def _unless_at_the_ends(make: Callable[..., Any]) -> Callable[..., Any]:
    def make_mask(**given: Any) -> Any:
        # Others are for windows, several documents in a row, tokens that see each other, and rows that are being generated.
        is_causal = given.get("allow_is_causal_skip", False) and given.get("local_size") is None
        if _Rows.end_with_padding and is_causal and given["q_length"] == given["kv_length"]:
            return None
        return make(**given)

    return make_mask
