"""Padding at the ends of rows needs no mask; wherever a mask says anything else, it stays."""

from __future__ import annotations

import pytest

from tests.payload.interpreter import Interpreter

pytestmark = pytest.mark.payload

_MODEL = """
import json
import torch
from transformers import MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM
from armada_train.model.right_padding import leave_out_masks, padded_at_their_ends

masks = []
attend = torch.nn.functional.scaled_dot_product_attention
def spy(*args, attn_mask=None, **options):
    masks.append(attn_mask is not None)
    return attend(*args, attn_mask=attn_mask, **options)
torch.nn.functional.scaled_dot_product_attention = spy

torch.manual_seed(3)
shape = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
qwen = Qwen2ForCausalLM._from_config(Qwen2Config(**shape, vocab_size=300), attn_implementation="sdpa")
ids = torch.randint(1, 300, (3, 24))
real = torch.arange(24)[None] < torch.tensor([24, 9, 17])[:, None]
labels = ids.masked_fill(~real, -100)

def look(model, are, **inputs):
    masks.clear()
    with padded_at_their_ends(are=are):
        out = model(**inputs)
    assert len(set(masks)) == 1
    return out, masks[0]

leave_out_masks()
"""

_EQUAL = """
def learn(are):
    qwen.zero_grad()
    out, masked = look(qwen, are, input_ids=ids, attention_mask=real.long(), labels=labels)
    out.loss.backward()
    return out, masked, torch.cat([weight.grad.flatten() for weight in qwen.parameters()])

one, had_mask, grads = learn(False)
other, has_mask, others = learn(True)
far = lambda one, other: float((one - other).abs().max() / other.abs().max())
print(json.dumps({
    "masks": [had_mask, has_mask],
    "logits": far(other.logits[real], one.logits[real]),
    "gradients": far(others, grads),
    "finite": bool(other.logits.isfinite().all()),
}))
"""

_STAYS = """
def has(model, **inputs):
    return look(model, True, input_ids=ids, **inputs)[1]

def mistral(window):
    made = MistralConfig(**shape, vocab_size=300, sliding_window=window)
    return MistralForCausalLM._from_config(made, attn_implementation="sdpa")

documents = torch.cat([torch.arange(10), torch.arange(14)])[None].expand(3, -1)
found = {
    "several documents in a row": has(qwen, position_ids=documents, use_cache=False),
    "a window shorter than the row": has(mistral(8), attention_mask=real.long()),
    "not said": look(qwen, False, input_ids=ids, attention_mask=real.long())[1],
}
with torch.no_grad():
    cache = qwen(input_ids=ids[:, :8], use_cache=True).past_key_values
    found["rows that go on"] = has(qwen, attention_mask=torch.ones(3, 32).long(), past_key_values=cache)
qwen.config.is_causal = False
found["tokens that see each other"] = has(qwen, attention_mask=real.long())
print(json.dumps(found))
"""


def test_without_the_mask_real_tokens_and_gradients_are_the_same(payload_python: Interpreter) -> None:
    found = payload_python.told(_MODEL + _EQUAL)
    assert found["masks"] == [True, False]
    assert found["logits"] < 1e-5
    assert found["gradients"] < 1e-5
    assert found["finite"]


def test_a_mask_that_says_anything_else_stays(payload_python: Interpreter) -> None:
    for what, masked in payload_python.told(_MODEL + _STAYS).items():
        assert masked, what
