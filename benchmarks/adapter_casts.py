#!/usr/bin/env python3
"""A LoRA model's step with PEFT's casts of every input, and without those that autocast undoes, in turn.

    VENV/bin/python benchmarks/adapter_casts.py [--tokens 2048] [--layers 4] [--hidden 512] [--pairs 24]

VENV has the payload's packages (`make payload`). Prints processor seconds of a forward and backward pass in bf16 on one
thread, their ratio pair by pair, and what is kept for the backward pass. Losses and gradients must be equal to the bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "remote_payload"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("tokens", 2048), ("layers", 4), ("hidden", 512), ("pairs", 24)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()

    import torch
    from armada_train.training import adapter_casts
    from peft.tuners.tuners_utils import BaseTunerLayer

    torch.set_num_threads(1)
    model = make_model(given.hidden, given.layers)
    ids = torch.randint(0, 512, (1, given.tokens))
    ways = {"all": adapter_casts._CAST, "needed": adapter_casts._cast_unless_undone}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    found: dict[str, Any] = {}
    kept = {}
    for number in range(given.pairs + 1):
        for way in sorted(ways, reverse=bool(number % 2)):
            BaseTunerLayer._cast_input_dtype = ways[way]
            if number == 0:
                kept[way] = count_kept(model, ids)
            began = time.process_time()
            loss = forward(model, ids)
            loss.backward()
            seconds[way].append(time.process_time() - began)
            gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
            found[way] = [loss.detach(), *gradients]
            model.zero_grad()
        if not all(torch.equal(one, other) for one, other in zip(*found.values(), strict=True)):
            sys.exit("losses or gradients differ")
    ratios = sorted(needed / every for every, needed in zip(seconds["all"][1:], seconds["needed"][1:], strict=True))
    quarter = len(ratios) // 4
    result = {
        "processor_s": {way: round(statistics.median(each[1:]), 3) for way, each in seconds.items()},
        "ratio": round(statistics.median(ratios), 3),
        "middle_half": [round(ratios[quarter], 3), round(ratios[-1 - quarter], 3)],
        "kept_mb": {way: round(size / 1e6, 1) for way, size in kept.items()},
    }
    print(json.dumps(result, indent=2))


def make_model(hidden: int, layers: int) -> Any:
    """Make a Qwen2 in bf16 with random weights, and an adapter on every linear layer in fp32."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    heads = max(1, hidden // 64)
    sizes = {"hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": layers, "vocab_size": 512}
    base = Qwen2ForCausalLM(Qwen2Config(**sizes, num_attention_heads=heads, num_key_value_heads=heads))
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(base.to(torch.bfloat16), lora)
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return model.train()


def forward(model: Any, ids: Any) -> Any:
    import torch

    with torch.autocast("cpu", torch.bfloat16):
        return model(input_ids=ids, labels=ids).loss


def count_kept(model: Any, ids: Any) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, without weights; each storage counts once."""
    import torch

    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    sizes: dict[int, int] = {}
    held = []  # so that no address is used twice

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = forward(model, ids)
    del loss
    return sum(size for address, size in sizes.items() if address not in weights)


if __name__ == "__main__":
    main()
