"""What a model card shows of a command's words: nothing that may be a secret, because a card may become public."""

from __future__ import annotations

import pytest

from armada.export.card import without_secrets


@pytest.mark.parametrize(
    "words",
    [
        ["--openai", "sk-proj-AbCdEfGhIjKlMnOpQr-CANARY"],
        ["x", "github_pat_11ABCDEFG0abcdefCANARY"],
        ["glpat-abcdefghijklmnopCANARY"],
        ["AKIAIOSFODNN7CANARY"],
        ["xoxb-1234567890-CANARY"],
        ["https://h/x?a=1&token=CANARY"],
        ["https://h/x?X-Amz-Signature=CANARY"],
        ["postgres://user:pa@CANARY@host/db"],
        ['{"api_key":"CANARY"}'],
        ["api_key:CANARY"],
        ["--wandb-key", "CANARY"],
        ["--auth", "CANARY"],
        ["--pwd", "CANARY"],
        ["--hf-token=CANARY"],
        ["--token", "-CANARY"],
        ["token", "CANARY"],
        ["sh", "-c", "export HF_TOKEN=CANARY; train"],
    ],
)
def test_secrets_are_hidden(words: list[str]) -> None:
    shown = without_secrets(["train.py", *words, "--lr", "1e-4"])
    assert "CANARY" not in " ".join(shown)
    assert (shown[0], shown[-2:]) == ("train.py", ["--lr", "1e-4"])


def test_other_words_are_shown() -> None:
    words = [
        "--tokenizer",
        "Qwen/Qwen2.5-0.5B",
        "--max-new-tokens",
        "512",
        "--keys",
        "a",
        "https://h/x",
        "--name=monkey",
    ]
    assert without_secrets(words) == words
