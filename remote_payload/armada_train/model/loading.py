"""Load the model from a path or the hub, or create a tiny one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BitsAndBytesConfig,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from armada_train.data.hooks import Stream
from armada_train.data.rows import Files
from armada_train.data.tokens import load_tokenizer, named_when_missing
from armada_train.model.tiny_tokenizer import train_tokenizer
from armada_train.model.warmstart import base_model_of
from armada_train.runfolder import RunFolder
from armada_train.specification.values import TinyModel, Training


def load_model(training: Training, path: str, dtype: Any, attention: str, local_rank: int) -> Any:
    """Load the model.

    Args:
        training: The specification.
        path: A folder, or a hub id.
        dtype: The type of the loaded weights.
        attention: Chosen by `choose_attention`.
        local_rank: Number of this rank's GPU.

    Raises:
        PayloadFailure: `env_error`: it does not exist, or cannot be fetched.
    """
    quantization = make_quantization(training)
    generates = training.objective.generates
    model_class = AutoModelForCausalLM if generates else AutoModelForSequenceClassification
    with named_when_missing(path):
        return model_class.from_pretrained(
            path,
            **({} if generates else {"num_labels": 1}),
            dtype=dtype,
            attn_implementation=attention,
            # Without it, one process that sees several GPUs would spread the model over them. Quantization to 4 bits
            # runs on the GPU.
            device_map=None if quantization is None else {"": local_rank},
            quantization_config=quantization,
            use_kernels=training.schedule.kernels == "hub",
        )


def load_scorer(training: Training, path: str) -> tuple[Any, Any]:
    """Load a reward model and its tokenizer, to judge with.

    Raises:
        PayloadFailure: `env_error`: it does not exist, or cannot be fetched.
    """
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(training.precision, torch.float32)
    with named_when_missing(path):
        scorer = AutoModelForSequenceClassification.from_pretrained(path, num_labels=1, dtype=dtype, device_map=None)
    return scorer, load_tokenizer(path)


def make_quantization(training: Training) -> Any:
    """Return bitsandbytes' settings for a base in 4 bits, or None: NF4 with double quantization, as in QLoRA."""
    if training.lora is None or training.lora.quantize == "none":
        return None
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=training.lora.quantize,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float16 if training.precision == "fp16" else torch.bfloat16,
        bnb_4bit_quant_storage=torch.uint8,
    )


def make_tiny_model(tiny: TinyModel, training: Training, run: RunFolder, rows: Files | Stream) -> None:
    """Write a Qwen2 with random weights, and a tokenizer learnt from the rows, into the run's folder.

    One rank creates it and all ranks and later attempts load it: an adapter fits only the base it was trained on.
    """
    if run.model.exists():
        return
    part = run.model.with_name(".part-model")
    if part.exists():
        shutil.rmtree(part)  # of an attempt that was killed while creating it
    if training.start_from and (base := base_model_of(training.start_from)):
        shutil.copytree(base, part)  # the checkpoint's adapter fits no other base, and its weights no other tokenizer
        part.rename(run.model)
        return
    tokenizer = train_tokenizer(tiny.vocab_size, rows.texts())
    write_tiny_model(tiny, training, tokenizer, run.model, seed=training.schedule.seed)


def write_tiny_model(tiny: TinyModel, training: Training, tokenizer: Any, folder: Path, *, seed: int) -> None:
    """Write a Qwen2 with random weights, and its tokenizer, into a folder that does not exist."""
    part = folder.with_name(f".part-{folder.name}")
    if part.exists():
        shutil.rmtree(part)  # of an attempt that was killed while creating it
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=tiny.vocab_size,
            hidden_size=tiny.hidden_size,
            intermediate_size=tiny.intermediate_size,
            num_hidden_layers=tiny.layers,
            num_attention_heads=tiny.heads,
            num_key_value_heads=tiny.kv_heads,
            # With the usual 0.02 the head's logits stay within ±2.5, and an adapter alone learns almost nothing: the
            # quickstart's loss fell by 14 % instead of 90 %.
            initializer_range=0.1,
            max_position_embeddings=max(training.schedule.max_length, 2048),
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(folder)


def model_path(training: Training, run: RunFolder) -> str:
    """Return the model's folder or hub id."""
    return str(run.model) if isinstance(training.model, TinyModel) else training.model


def base_model_folder(training: Training, run: RunFolder) -> Path | None:
    """Return the folder of a model created by this run, which is copied beside its adapters; None for other models."""
    return run.model if isinstance(training.model, TinyModel) else None
