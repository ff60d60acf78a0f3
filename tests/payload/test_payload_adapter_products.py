"""LoRA's product is added within the product: as exact as PEFT's way, and PEFT's own wherever something is out of the ordinary."""

from __future__ import annotations

import pytest

from tests.payload.interpreter import Interpreter

pytestmark = pytest.mark.payload

_MODEL = """
import json, sys
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.layer import Linear
from transformers import Qwen2Config, Qwen2ForCausalLM
from armada_train.training.adapter_casts import leave_out_casts
from armada_train.training.adapter_products import add_within_products

torch.manual_seed(3)
shape = dict(hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
base = Qwen2ForCausalLM(Qwen2Config(**shape, vocab_size=300))
ids = torch.randint(0, 300, (2, 40))
plain, calls = Linear.forward, []

def adapted(dtype=torch.bfloat16, **options):
    torch.manual_seed(4)
    settings = dict(r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False, lora_dropout=0.0)
    model = get_peft_model(base.to(dtype), LoraConfig(**{**settings, **options}))
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return model.train()

def gradients(model, autocasts=True):
    torch.manual_seed(5)
    calls.clear()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocasts):
        loss = model(input_ids=ids, labels=ids).loss
    if loss.requires_grad:
        loss.backward()
    grads = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    return torch.cat([loss.detach().reshape(1).float(), *grads])

def counted(layer, *args, **kwargs):
    calls.append(layer)
    return plain(layer, *args, **kwargs)

Linear.forward = plain
leave_out_casts()
def both(model, **options):
    "Return what PEFT computes, what we do, and how many layers PEFT computed for us."
    Linear.forward = plain
    theirs = gradients(model, **options)
    Linear.forward = counted
    add_within_products()
    ours = gradients(model, **options)
    Linear.forward = plain
    return theirs, ours, len(calls)
"""

_ORDINARY = """
def far(one, other):
    return float((one - other).norm() / other.norm())

found = {}
for dropout in (0.0, 0.1):
    model = adapted(lora_dropout=dropout)
    theirs, ours, others = both(model)
    Linear.forward = plain
    exact = gradients(model.float(), autocasts=False)
    found[str(dropout)] = {"others": others, "theirs": far(theirs, exact), "ours": far(ours, exact)}
    model.unload()
print(json.dumps(found))
"""

_ODD = """
leave_out_casts()
layer = next(each for each in adapted().modules() if isinstance(each, Linear))
add_within_products()
with torch.autocast("cpu", torch.bfloat16):
    shapes = [list(layer(torch.ones(*shape, 64, dtype=torch.bfloat16)).shape) for shape in ((0,), (2, 0), (), (2, 3))]
print(json.dumps({"shapes": shapes}))
"""

_OTHERWISE = """
def describe(model, **options):
    theirs, ours, others = both(model, **options)
    return [bool(torch.equal(theirs, ours)), others]

found = {"outside of autocast": describe(adapted(torch.float32), autocasts=False)}
for name, options in {"dora": {"use_dora": True}, "a bias": {"lora_bias": True}}.items():
    found[name] = describe(adapted(**options))
model = adapted()
with model.disable_adapter():
    found["switched off"] = describe(model)
model.merge_adapter()
found["merged"] = describe(model)
model.unmerge_adapter()
model.add_adapter("second", model.peft_config["default"])
model.base_model.set_adapter(["default", "second"])
found["two"] = describe(model)
print(json.dumps(found))
"""


def test_an_ordinary_adapter_is_as_exact_and_needs_nothing_of_pefts_way(payload_python: Interpreter) -> None:
    for dropout, told in payload_python.told(_MODEL + _ORDINARY).items():
        assert told["others"] == 0, dropout
        assert told["ours"] < 1.05 * told["theirs"] < 0.01, (dropout, told)


def test_rows_of_any_number_and_shape_pass(payload_python: Interpreter) -> None:
    assert payload_python.told(_MODEL + _ODD)["shapes"] == [[0, 64], [2, 0, 64], [64], [2, 3, 64]]


def test_everything_else_goes_pefts_way_to_the_bit(payload_python: Interpreter) -> None:
    found = payload_python.told(_MODEL + _OTHERWISE)
    assert len(found) == 6
    for name, told in found.items():
        assert told == [True, 14], name  # equal, and each of the layers was PEFT's
