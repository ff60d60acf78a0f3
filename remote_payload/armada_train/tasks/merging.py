"""Merge and verify: the loss with the adapter must agree with the loss of the merged model as written."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, load_peft_weights, set_peft_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from armada_train.checkpoints import announce
from armada_train.data.shapes import CHATS, Row
from armada_train.failure import PayloadFailure
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import Metrics
from armada_train.runfolder import RunFolder
from armada_train.specification.merge import Merge

TOLERANCE = 1e-4
"""Permitted difference between the model with its adapter and the merged one, in nats per token."""

_LONGEST = 1024
_MOST_TOKENS = 8192  # a 7B model on a few CPU cores processes about twenty tokens a second


def merge(wanted: Merge, run: RunFolder, heartbeat: Heartbeat, kind: str, rows: list[Row], findings: list[str]) -> None:
    """Merge, compare, and put the merged model into the outbox.

    Raises:
        PayloadFailure: `merge_mismatch`: the losses of the two models differ.
    """
    started = time.monotonic()
    metrics = Metrics(run.metrics if run.is_main else None, run.attempt)
    final = run.checkpoints / f"checkpoint-{wanted.step}"
    if not final.exists():
        tokenizer = AutoTokenizer.from_pretrained(wanted.adapter)
        model = _load(wanted)
        batches = _make_batches(tokenizer, kind, rows, model.config.get_text_config().vocab_size)
        heartbeat.beat("evaluating")
        before = _loss(model, batches, heartbeat)
        heartbeat.beat("merging")
        merged = model.merge_and_unload(safe_merge=True)
        del model
        parameters = sum(weight.numel() for weight in merged.parameters())
        dtype, after = _write(merged, tokenizer, wanted, batches, before, final, heartbeat, findings)
        if wanted.quantized:
            findings.append(
                "the adapter was trained on a 4-bit base and is merged into the full-precision one, so their losses "
                "differ slightly from the training's"
            )
        for finding in findings:
            print(f"finding: {finding}", flush=True)
        tokens = sum(batch.shape[1] - 1 for batch in batches)
        print(f"loss with the adapter {before:.6f}, merged {after:.6f}, over {tokens:,} tokens; written as {dtype}")
        summary = {
            "loss_unmerged": before,
            "loss_merged": after,
            "compared_tokens": tokens,
            "parameters": parameters,
            "dtype": dtype,
            "findings": findings,
            "seconds": time.monotonic() - started,
        }
        metrics.append("summary", wanted.step, summary)
    announcement = {"step": wanted.step, "kind": "final", "time": time.time(), "metrics": {}}
    announce.announce(run, final, announcement, None)
    heartbeat.beat("ended", wanted.step)


def _load(wanted: Merge) -> Any:
    """Load base and adapter as the training did, then convert to fp32, so that the sum is not rounded before it is written.

    PiSSA subtracts the adapter's initial value from the base's weights while loading, and in another precision it would
    subtract another value.
    """
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[wanted.precision]
    base = AutoModelForCausalLM.from_pretrained(wanted.base, dtype=dtype, attn_implementation="sdpa", device_map=None)
    model = PeftModel.from_pretrained(base, str(wanted.adapter)).float()
    # Modules that are saved whole were rounded to the base's type when they were loaded.
    set_peft_model_state_dict(model, load_peft_weights(str(wanted.adapter), device="cpu"))
    return model.eval()


def _write(
    merged: Any,
    tokenizer: Any,
    wanted: Merge,
    batches: list[torch.Tensor],
    before: float,
    final: Path,
    heartbeat: Heartbeat,
    findings: list[str],
) -> tuple[str, float]:
    """Write the model and read it again; in fp32 if the base's 16 bits lose too much and the user did not request them."""
    first = _stored_dtype(wanted.base) if wanted.dtype == "auto" else getattr(torch, wanted.dtype)
    for dtype in dict.fromkeys([first, torch.float32] if wanted.dtype == "auto" else [first]):
        part = final.with_name(f".part-{final.name}")
        if part.exists():
            shutil.rmtree(part)
        heartbeat.beat("saving")
        if merged is None:  # it was rounded the first time; keeping a copy for this rare case would double the memory
            merged = _load(wanted).merge_and_unload(safe_merge=True)
        merged.to(dtype)
        merged.config.dtype = dtype
        merged.save_pretrained(part)
        tokenizer.save_pretrained(part)
        again = AutoModelForCausalLM.from_pretrained(part, dtype=torch.float32, attn_implementation="sdpa").eval()
        heartbeat.beat("evaluating")
        after = _loss(again, batches, heartbeat)
        del again
        name = str(dtype).removeprefix("torch.")
        if abs(after - before) <= TOLERANCE:
            part.rename(final)
            return name, after
        sentence = f"written as {name} the loss is {after:.6f} instead of {before:.6f}"
        if dtype == torch.float32:
            raise PayloadFailure("merge_mismatch", f"{sentence}: the merged model differs from the trained one")
        if wanted.dtype != "auto":
            findings.append(f"{sentence}, more than {TOLERANCE:g} apart: use float32, which is exact")
            part.rename(final)
            return name, after
        findings.append(f"{sentence}, more than {TOLERANCE:g} apart: written as float32")
        merged = None
    raise AssertionError("float32 is always the last")


def _stored_dtype(base: str) -> torch.dtype:
    dtype = getattr(AutoConfig.from_pretrained(base), "dtype", None) or torch.float32
    return getattr(torch, dtype) if isinstance(dtype, str) else dtype


def _make_batches(tokenizer: Any, kind: str, rows: list[Row], vocabulary: int) -> list[torch.Tensor]:
    """Make one batch per row, (1, tokens), until there are enough; of random tokens if there are no rows."""
    batches: list[torch.Tensor] = []
    for row in rows:
        ids = _tokenize(tokenizer, kind, row)[:_LONGEST]
        if len(ids) > 1 and sum(batch.shape[1] for batch in batches) < _MOST_TOKENS:
            batches.append(torch.tensor([ids]))
    if batches:
        return batches
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(vocabulary, (1, 128), generator=generator) for _ in range(8)]


def _tokenize(tokenizer: Any, kind: str, row: Row) -> list[int]:
    if kind in CHATS:
        messages = row["messages"] if kind == "messages" else row["prompt"] + row.get("chosen", row.get("completion"))
        return list(tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"])
    text = row["text"] if kind == "text" else f"{row['prompt']}{row.get('completion', row.get('chosen'))}"
    return list(tokenizer(text)["input_ids"])


def _loss(model: Any, batches: list[torch.Tensor], heartbeat: Heartbeat) -> float:
    """Compute the mean loss per token over every token, in nats."""
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            heartbeat.beat("evaluating")
            logits = model(input_ids=batch, use_cache=False).logits[0, :-1].float()
            losses = torch.nn.functional.cross_entropy(logits, batch[0, 1:], reduction="none")
            total += float(losses.double().sum())
            count += batch.shape[1] - 1
    return total / count if count else math.nan
