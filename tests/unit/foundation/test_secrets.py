"""What model cards and reports show of words and settings: nothing that may be a secret, because they may become public."""

from __future__ import annotations

from typing import Any

import pytest

from armada.foundation.secrets import without_secret_settings, without_secrets


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


@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"WANDB_API_KEY": "CANARY"}},
        {"env": {"OPENAI_KEY": ["CANARY"]}},
        {"env": {"PASSWORD": 7}, "command": ["x", "--token", "CANARY"]},
        {"files": {"a": {"url": "https://h/x?sig=CANARY"}}},
        {"data": [{"hook": "sk-proj-AbCdEfGhIjKlMnOpQr-CANARY"}]},
    ],
)
def test_secrets_in_settings_are_hidden(settings: dict[str, Any]) -> None:
    shown = str(without_secret_settings(settings))
    assert "CANARY" not in shown
    assert "7" not in shown
    assert "***" in shown


def test_other_settings_are_shown() -> None:
    settings = {
        "secrets": ["HF_TOKEN"],
        "train": {"max_length": 512, "learning_rate": 1e-4, "packing": False, "note": None},
        "evaluation": {"sample_tokens": 128},
        "data": {"train": [{"hub": {"revision": "0" * 40}}]},
    }
    assert without_secret_settings(settings) == settings
    assert without_secret_settings("0" * 40, "data.train[0].hub.revision") == "0" * 40
    assert without_secret_settings("x", "env.MY_TOKEN") == "***"
