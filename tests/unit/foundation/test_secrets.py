"""What model cards and reports show of words and settings: nothing that may be a secret, because they may become public."""

from __future__ import annotations

from typing import Any

import pytest

from armada.foundation.secrets import (
    HIDDEN,
    may_be_secret,
    without_secret_arguments,
    without_secret_settings,
    without_secrets,
)

TOKEN = "hf_" + "a" * 30


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
        ["-H", "Authorization: Bearer CANARY"],
        ["--bearer", "CANARY"],
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env.SORT_KEY", "timestamp_2024"),
        ("env.TOKENIZER", "Qwen/Qwen2.5-0.5B"),
        ("env.KEYS", "alpha,beta,gamma"),
        ("env.KEY", "validation"),
        ("env.AUTH", "disabled"),
        ("env.EOS_TOKEN", "<|im_end|>"),
        ("env.TOKEN", "<|im_end|>"),
        ("env.HF_TOKEN_PATH", "/root/.cache/huggingface/token"),
        ("env.TOKEN_STRATEGY", "averaged"),
        ("env.REPO", "ssh://git@github.com/x/y"),
        ("env.REVISION", "a" * 40),
        ("arguments", ["--sort-key", "timestamp_2024", "--n", 5]),
    ],
)
def test_what_is_plainly_no_secret_is_none(key: str, value: Any) -> None:
    assert not may_be_secret(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env.TOKEN", "canaryxx"),
        ("env.KEY", "canary-9912"),
        ("env.AUTH", "Canary9912"),
        ("env.WANDB_API_KEY", "a" * 40),
        ("env.PASSWORD", "correct horse"),
        ("env.TOKEN_MODE", "canary-9912"),
        ("env.ANYTHING", TOKEN),
        ("env.DATABASE", "postgres://me:pw@host/db"),
        ("env", {"A": "b", "HF_TOKEN": "canary-9912"}),
        ("arguments", ["--token", "canary-9912"]),
    ],
)
def test_what_may_be_one_is(key: str, value: Any) -> None:
    assert may_be_secret(key, value)


def test_harmless_names_are_shown_in_comparisons() -> None:
    settings = {"env": {"SORT_KEY": "date", "PAD_TOKEN": "eos", "TOKENIZER": "x"}}
    assert without_secret_settings(settings) == settings


def test_recorded_commands_have_no_secrets() -> None:
    words = [
        *("armada", "launch", "--set", f"env.X={TOKEN}", "--set=env.TOKEN=canary-9912", "--set", "env.A=b"),
        *(
            "--set",
            "env={A: b, HF_TOKEN: canary-9912}",
            f"say {TOKEN}",
            "https://me:pw@host/x",
            "ssh root@192.0.2.1 -p 22",
        ),
    ]
    assert without_secret_arguments(words) == [
        *("armada", "launch", "--set", "env.X=…", "--set=env.TOKEN=…", "--set", "env.A=b"),
        *("--set", "env={A: b, HF_TOKEN: …}", "say …", "https://…@host/x", "ssh root@192.0.2.1 -p 22"),
    ]
    short = ["--grid", "env.DB_PASSWORD=a,b", "--grid=env.PIN_SECRET=[1,2]", "env.TOKEN_LIMIT=1,2"]
    shown = ["--grid", "env.DB_PASSWORD=…", "--grid=env.PIN_SECRET=…", "env.TOKEN_LIMIT=1,2"]
    assert without_secret_arguments(short) == shown
    plain = ["--set", "train.learning_rate=1e-5", "--grid", "env.SORT_KEY=a,b", f"data.revision={'a' * 40}", "loss<0.4"]
    assert without_secret_arguments(plain) == plain


def test_the_name_of_an_environment_and_a_number_are_no_secrets() -> None:
    spec = {
        "environment": {"key": "cu130-4f2a91c07d5e"},
        "model": {"num_key_value_heads": 8},
        "env": {"KEY": "abcdefgh"},
    }
    shown = without_secret_settings(spec)
    assert shown["environment"] == {"key": "cu130-4f2a91c07d5e"}
    assert shown["model"] == {"num_key_value_heads": 8}
    assert shown["env"] == {"KEY": HIDDEN}
    assert without_secret_settings("cu130-4f2a91c07d5e", "environment.key") == "cu130-4f2a91c07d5e"
    assert without_secret_settings(1234, "env.PASSWORD") == HIDDEN
