"""SDPA's kernel that is prepared for each shape is left to rows of full length; which one may be taken needs no GPU."""

from __future__ import annotations

import pytest

from tests.payload.interpreter import Interpreter

pytestmark = pytest.mark.payload

_MODEL = """
from types import SimpleNamespace as Named
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from armada_train.model.sdpa_kernels import use_plans_for_full_rows

seen = []
attend = torch.nn.functional.scaled_dot_product_attention
def spy(query, *rest, **options):
    if query.shape[2] == 13:
        raise MemoryError
    seen.append((query.shape[2], torch.backends.cuda.cudnn_sdp_enabled()))
    return attend(query, *rest, **options)
torch.nn.functional.scaled_dot_product_attention = spy

torch.manual_seed(1)
shape = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1)
model = Qwen2ForCausalLM._from_config(Qwen2Config(**shape, vocab_size=32), attn_implementation="sdpa")

def training(device="cuda", compiles=False):
    return Named(device=device, schedule=Named(compile=compiles, max_length=64), batch=Named(micro=2))

def look(rows, length, **options):
    seen.clear()
    logits = model(torch.arange(rows * length).reshape(rows, length) % 32, **options).logits
    assert seen[0] == seen[1]
    return logits, seen[0]
"""

_BY_LENGTH = """
before, had = look(2, 33)
assert had == (33, True), had
assert use_plans_for_full_rows(training())
after, had = look(2, 33)
assert had == (33, False), had
assert torch.equal(before, after)
mask = torch.ones(2, 64); mask[1, 60:] = 0
assert look(2, 64, attention_mask=mask)[1] == (64, True)
assert look(1, 128)[1] == (128, True), "the rows of a micro batch that packing joined"
assert look(1, 1)[1] == (1, False)
try:
    look(1, 13)
except MemoryError:
    pass
assert torch.backends.cuda.cudnn_sdp_enabled(), "a failure left it off"
model.gradient_checkpointing_enable()
model.train()
seen.clear()
model(torch.full((1, 5), 7)).logits.sum().backward()
assert seen == [(5, False)] * 4, "a layer that is computed again takes the same kernel"
torch.backends.cuda.enable_cudnn_sdp(False)
assert look(1, 64)[1] == (64, False)
assert look(1, 7)[1] == (7, False)
assert not torch.backends.cuda.cudnn_sdp_enabled(), "what was off came on"
print("done")
"""

_OTHERWISE = """
assert not use_plans_for_full_rows(training(device="cpu"))
assert look(1, 7)[1] == (7, True)
assert use_plans_for_full_rows(training(compiles=True))
assert look(1, 64)[1] == (64, False), "a length is not known when code is compiled"
print("done")
"""


@pytest.mark.parametrize("program", [_BY_LENGTH, _OTHERWISE], ids=["by length", "otherwise"])
def test_only_rows_of_full_length_have_a_kernel_that_is_prepared_for_each_shape(
    program: str, payload_python: Interpreter
) -> None:
    ended = payload_python.finish("-c", _MODEL + program)
    assert ended.code == 0, ended.output
    assert ended.output.splitlines()[-1] == "done"


# The warning's own words, by TRL's own statement: the rest of its trainer needs a GPU with Liger's kernels.
_WARNS = """
import ast, inspect, warnings
from types import SimpleNamespace as Named
import trl.trainer.sft_trainer as sft
from armada_train.training import libraries

found = [
    node
    for node in ast.walk(ast.parse(inspect.getsource(sft)))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn" and "use_liger_kernel=True" in ast.unparse(node)
]
assert len(found) == 1, found
code = compile(ast.unparse(found[0]), "trl", "exec")
with warnings.catch_warnings(record=True) as before:
    warnings.simplefilter("always")
    exec(code, {"warnings": warnings, "FutureWarning": FutureWarning})
libraries._configure_wandb = lambda *_: False
training = Named(model_is_local=False, data_is_local=False)
with warnings.catch_warnings(record=True) as after:
    warnings.simplefilter("always")
    libraries.configure_libraries(training, None, {})
    exec(code, {"warnings": warnings, "FutureWarning": FutureWarning})
    warnings.warn("another", FutureWarning)
print(len(before), [str(each.message) for each in after])
"""


def test_trls_warning_that_nobody_can_act_on_is_left_out(payload_python: Interpreter) -> None:
    ended = payload_python.finish("-c", _WARNS)
    assert (ended.code, ended.output.splitlines()[-1:]) == (0, ["1 ['another']"]), ended.output
