"""What a model's files tell before torch is imported, and what a loaded model tells before it is trained; no torch is needed here."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from armada_train.data.lengths import Fitted
from armada_train.failure import PayloadFailure
from armada_train.model.files import check_model
from armada_train.model.fit import check_fit
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Source, Training

from tests.payload.payload_run import make_training

CONFIG = {"model_type": "qwen2", "vocab_size": 6, "max_position_embeddings": 256}
TENSORS = [
    "model.embed_tokens.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.0.mlp.down_proj.weight",
    "model.norm.weight",
]
TOKENIZER = {
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}},
    "added_tokens": [{"id": 4, "content": "<end>"}, {"id": 5, "content": "<pad>"}],
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<end>",
    "pad_token": {"content": "<pad>"},
    "chat_template": "{{ messages }}<end>",
}


def write_model(folder: Path, **files: Any) -> Path:
    """Put a model's files into a folder; a file given as None is left out."""
    folder.mkdir(exist_ok=True)
    content = {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "tokenizer_config.json": TOKENIZER_CONFIG} | files
    for name, value in content.items():
        if value is not None:
            (folder / name).write_text(json.dumps(value))
    write_tensors(folder / "model.safetensors", TENSORS)
    return folder


def write_tensors(path: Path, names: list[str]) -> None:
    tensors = {name: {"dtype": "U8", "shape": [4], "data_offsets": [4 * n, 4 * n + 4]} for n, name in enumerate(names)}
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"1234" * len(names))


def training(model: Path | None = None, *, max_length: int = 256, **lora: Any) -> Training:
    section = make_training(Path("/nowhere"), train={"max_length": max_length}, lora=lora)
    parsed = parse_training(Section(section, "training"))
    return dataclasses.replace(parsed, model=str(model)) if model else parsed


def refusal(asked: Training, kind: str | None = "messages") -> PayloadFailure:
    with pytest.raises(PayloadFailure) as caught:
        check_model(asked, kind)
    return caught.value


def test_a_model_that_fits_has_no_findings(tmp_path: Path) -> None:
    asked = training(write_model(tmp_path), target_modules=["q_proj", "layers.0.mlp.down_proj"])
    for kind in ("messages", "text", None):
        assert check_model(asked, kind) == []


@pytest.mark.parametrize(
    ("lora", "said"),
    [
        (
            {"target_modules": ["q_proj", "q_porj"]},
            r"lora.target_modules`: .* has no module named q_porj; did you mean q_proj",
        ),
        ({"target_modules": ["zzz"]}, r"named zzz; it has down_proj, embed_tokens, k_proj"),
        ({"modules_to_save": ["embed_tokenz"]}, r"lora.modules_to_save`: .* embed_tokenz; did you mean embed_tokens\?"),
    ],
)
def test_a_module_of_lora_that_the_model_lacks_is_named_with_its_near_matches(
    tmp_path: Path, lora: dict[str, Any], said: str
) -> None:
    failures = [refusal(training(write_model(tmp_path), **lora)), refusal(training(**lora))]
    assert [failure.reason for failure in failures] == ["bad_spec", "bad_spec"]
    assert re.search(said, failures[0].message)
    assert lora[next(iter(lora))][-1] in failures[1].message


@pytest.mark.parametrize("name", ["embed_tokens", "lm_head", "tokens"])
def test_what_peft_finds_is_not_refused(tmp_path: Path, name: str) -> None:
    for asked in (training(write_model(tmp_path), modules_to_save=[name]), training(modules_to_save=[name])):
        assert check_model(asked, None) == []


def test_experts_are_left_to_the_loaded_model(tmp_path: Path) -> None:
    write_model(tmp_path)
    write_tensors(tmp_path / "model.safetensors", [*TENSORS, "model.layers.0.mlp.experts.0.w1.weight"])
    assert check_model(training(tmp_path, target_modules=["gate_up_proj"]), None) == []


@pytest.mark.parametrize(
    ("files", "kind", "reason", "said"),
    [
        ({"config.json": []}, None, "bad_spec", "has no readable config.json"),
        ({"tokenizer.json": None, "tokenizer_config.json": None}, None, "bad_spec", "has no tokenizer"),
        (
            {"config.json": {**CONFIG, "vocab_size": 3}},
            None,
            "bad_spec",
            "there is no embedding for 'd', '<end>', '<pad>'",
        ),
        ({"config.json": {**CONFIG, "vocab_size": 5}}, None, "bad_spec", "no embedding for '<pad>'"),
        (
            {"config.json": {**CONFIG, "vocab_size": 4}, "tokenizer_config.json": {"chat_template": "<end>"}},
            "messages",
            "bad_spec",
            "no embedding for '<end>'",
        ),
        ({"tokenizer_config.json": {}}, "messages", "data_error", "tokenizer has no chat template"),
        (
            {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}},
            "text",
            "data_error",
            "tokenizer has none: set `eos_token`",
        ),
    ],
)
def test_a_model_folder_that_cannot_be_trained_is_refused(
    tmp_path: Path, files: dict[str, Any], kind: str | None, reason: str, said: str
) -> None:
    failure = refusal(training(write_model(tmp_path, **files)), kind)
    assert (failure.reason, said in failure.message) == (reason, True), failure.message


def test_weights_that_are_missing_or_cut_short_are_refused(tmp_path: Path) -> None:
    weights = write_model(tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "missing or truncated" in refusal(training(tmp_path)).message
    weights.unlink()
    assert "has no weights" in refusal(training(tmp_path)).message
    (tmp_path / "pytorch_model.bin").write_bytes(b"?")
    assert check_model(training(tmp_path), "messages") == []


def test_a_folder_that_is_gone_is_refused(tmp_path: Path) -> None:
    failure = refusal(training(tmp_path / "gone"))
    assert (failure.reason, failure.message) == ("env_error", f"the model's folder {tmp_path}/gone is not there")


def test_what_may_still_be_trained_is_no_refusal(tmp_path: Path) -> None:
    plain = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "a"}
    write_model(tmp_path, **{"config.json": {**CONFIG, "vocab_size": 4}, "tokenizer_config.json": plain})
    assert check_model(training(tmp_path), None) == []  # added tokens that no row has to hold
    (finding,) = check_model(training(tmp_path, max_length=300), None)
    assert "`train.max_length` 300 is more than the 256 positions" in finding


# --- the loaded model ----------------------------------------------------------------------------------------------


class Rows:
    def __init__(self, rows: list[list[int]]) -> None:
        self._rows = rows

    def select_columns(self, names: list[str]) -> Rows:
        assert names == ["input_ids"]
        return self

    def iter(self, size: int) -> list[dict[str, list[list[int]]]]:
        return [{"input_ids": self._rows[at : at + size]} for at in range(0, len(self._rows), size)]


def part(*rows: list[int], lengths: list[int] | None = None, max_length: int = 256) -> Any:
    fitted = Fitted("train", max_length, sorted(lengths or [len(row) for row in rows]))
    columns = SimpleNamespace(columns=("input_ids", "labels"))
    return SimpleNamespace(dataset=Rows(list(rows)), fitted=fitted, encoding=columns)


def model(*modules: str, embeddings: int = 4, positions: int = 256, **more: str) -> Any:
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=positions, **more))
    names = [(name, None) for name in ("model.layers.0.self_attn.q_proj", *modules)]
    weights = SimpleNamespace(weight=SimpleNamespace(shape=(embeddings, 8)))
    return SimpleNamespace(named_modules=lambda: names, config=config, get_input_embeddings=lambda: weights)


def tokenizer(highest: int, pad: int | None = None, added: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(
        get_added_vocab=lambda: dict.fromkeys(added, highest),
        get_vocab=lambda: {"a": 0, "z": highest},
        pad_token_id=pad,
        pad_token="<pad>",
        convert_ids_to_tokens=lambda number: f"token{number}",
    )


def test_rows_with_tokens_beyond_the_embeddings_are_refused_and_only_those() -> None:
    asked = training(target_modules=["q_proj"])
    with pytest.raises(PayloadFailure, match=r"none for 'token4' \(token 4\), which is in train rows") as caught:
        check_fit(asked, model(), tokenizer(9), [part([0, 1], [4])])
    assert caught.value.reason == "data_error"
    with pytest.raises(PayloadFailure, match="none for the padding token, '<pad>'"):
        check_fit(asked, model(), tokenizer(9, pad=4), [part([0])])
    assert check_fit(asked, model(), tokenizer(9), [part([3])]) == []
    hook = Source(Path(), hook="a:b")
    stream = dataclasses.replace(asked, train_data=(hook,))
    assert "up to 9, the model embeddings for 4" in check_fit(stream, model(), tokenizer(9), [])[0]
    assert check_fit(stream, model(), tokenizer(9, added=("z",)), []) == []  # it is in no text
    assert check_fit(asked, model(), tokenizer(3), [part([3])]) == []


def test_rows_beyond_positions_are_refused_where_positions_were_learned_and_else_a_finding() -> None:
    asked = training(max_length=300, target_modules=["q_proj"])
    rows = part([1], lengths=[10, 290, 500], max_length=300)
    assert "up to 290 tokens long, but the model has 256" in check_fit(asked, model(), tokenizer(3), [rows])[0]
    with pytest.raises(PayloadFailure, match=r"set `train\.max_length` to 256 or less"):
        check_fit(asked, model("transformer.wpe"), tokenizer(3), [rows])
    short = part([1], lengths=[10, 500], max_length=300)  # the long one is dropped
    assert check_fit(asked, model("transformer.wpe"), tokenizer(3), [short]) == []


def test_ligers_kernels_are_refused_for_another_activation() -> None:
    plain = training(target_modules=["q_proj"])
    asked = dataclasses.replace(plain, schedule=dataclasses.replace(plain.schedule, kernels="liger"))

    def check(kind: str, activation: str) -> list[str]:
        return check_fit(asked, model(model_type=kind, hidden_act=activation), tokenizer(3), [])

    with pytest.raises(PayloadFailure, match="compute SiLU in models of type llama, and this one has 'gelu'"):
        check("llama", "gelu")
    assert check("llama", "silu") == check("gemma", "gelu") == []
    assert check_fit(plain, model(model_type="llama", hidden_act="gelu"), tokenizer(3), []) == []


def test_a_module_that_the_loaded_model_lacks_is_refused() -> None:
    with pytest.raises(PayloadFailure, match="named q_porj; did you mean q_proj"):
        check_fit(training(target_modules=["q_proj", "q_porj"]), model(), tokenizer(3), [])
