"""Write a model with random weights, made on the GPU in 16 bits: `python -m benchmarks.gpu.random_model ORDER`.

A process of its own, so that all of its memory is free again when the model is measured.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

_TOKENIZER_WORDS = 560
_TOKENIZER_ROWS = 8


def main() -> int:
    order: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    import torch
    from armada_train.model.tiny_tokenizer import train_tokenizer
    from transformers import AutoConfig, AutoModelForCausalLM

    texts = []
    with Path(order["rows"]).open(encoding="utf-8") as rows:
        for _, line in zip(range(_TOKENIZER_ROWS), rows, strict=False):
            texts += [message["content"] for message in json.loads(line)["messages"]]
    config = dict(order["config"])
    tokenizer = train_tokenizer(min(_TOKENIZER_WORDS, config["vocab_size"]), iter(texts))
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(5)
    with torch.device(order["device"]):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(config.pop("model_type"), **config, **ids), dtype=torch.bfloat16
        )
    target = Path(order["folder"])
    part = target.with_name(f".{target.name}-part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(target)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
