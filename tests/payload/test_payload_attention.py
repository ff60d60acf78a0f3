"""Which attention is chosen, with every reason; the world as it is against the plan. No GPU is needed to decide."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import PayloadFailure
from armada_train.model.attention import Attention, choose_attention, rule_out_flash
from armada_train.runfolder import RunFolder
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Training, check_gpus
from armada_train.training.libraries import configure_libraries

from tests.payload.payload_run import make_training

KERNEL, WHEEL = "kernels-community/flash-attn2", "flash_attention_2"


def training(**changes: Any) -> Training:
    raw = copy.deepcopy(make_training(Path("t.jsonl")))
    lora = changes.pop("lora", {})
    raw |= {"device": "cuda", "precision": "bf16", **changes}
    raw["lora"] |= lora
    return parse_training(Section(raw, "training"))


def choose(wanted: Training, kernel: str | None, wheel: str | None, others: int = 0) -> Attention:
    attempts = ((KERNEL, lambda: kernel), (WHEEL, lambda: wheel))
    return choose_attention(wanted, (8, 6), attempts, lambda mine: max(mine, others))


@pytest.mark.parametrize(
    ("kernel", "wheel", "name", "why"),
    [
        (None, None, KERNEL, "the first choice"),
        ("offline", None, WHEEL, f"{KERNEL}: offline"),
        ("offline", "none", "sdpa", f"{KERNEL}: offline; {WHEEL}: none"),
    ],
)
def test_the_best_that_can_be_had_is_taken_and_the_others_say_why_not(
    kernel: str | None, wheel: str | None, name: str, why: str
) -> None:
    assert choose(training(), kernel, wheel) == Attention(name, why)


def test_one_rank_that_cannot_load_a_kernel_decides_for_all() -> None:
    assert choose(training(), None, None, others=1) == Attention(WHEEL, f"{KERNEL}: another rank has none")
    assert choose(training(), None, None, others=2).name == "sdpa"


def test_what_is_asked_for_is_taken() -> None:
    assert choose(training(attention="eager"), None, None) == Attention("eager", "requested by the profile")


@pytest.mark.parametrize(
    ("changes", "capability", "why"),
    [
        ({"device": "cpu", "precision": "fp32"}, None, "the run is on CPUs"),
        ({"precision": "fp32"}, (8, 0), "the precision is fp32"),
        ({"precision": "fp16"}, (7, 5), "this GPU has 7.5"),
        ({}, (9, 0), None),
    ],
)
def test_where_no_flash_attention_can_run_none_is_tried(
    changes: dict[str, Any], capability: tuple[int, int] | None, why: str | None
) -> None:
    obstacle = rule_out_flash(training(**changes), capability)
    assert (obstacle is None) is (why is None)
    assert why is None or why in (obstacle or "")


@pytest.mark.parametrize(("visible", "reason"), [(0, "env_error"), (1, "world_mismatch"), (8, "world_mismatch")])
def test_other_gpus_in_sight_than_planned_are_refused(visible: int, reason: str) -> None:
    planned = training(batch={"global": 16, "micro": 4, "accumulation": 2, "processes": 2})
    with pytest.raises(PayloadFailure) as refused:
        check_gpus(planned, 2, visible, "2.13")
    assert refused.value.reason == reason
    assert (
        f"2 process(es) are planned, 2 of them on this machine, each with a GPU, but torch 2.13 sees {visible}"
        in str(refused.value)
    )
    check_gpus(planned, 2, 2, "2.13")


def test_a_base_in_four_bits_is_read_and_what_cannot_be_is_refused() -> None:
    wanted = training(lora={"quantize": "nf4"})
    assert wanted.lora is not None
    assert wanted.lora.quantize == "nf4"
    for changes, words in (
        ({"lora": {"quantize": "nf4"}, "device": "cpu", "precision": "fp32"}, "needs a GPU"),
        ({"lora": {"quantize": "nf4"}, "precision": "fp16"}, "needs the precision bf16"),
        ({"lora": {"quantize": "nf4", "init": "pissa"}}, "starts from the base's weights"),
        ({"lora": {"quantize": "int3"}}, "one of none, nf4, fp4"),
        ({"deepspeed": "x.json", "device": "cpu", "precision": "fp32"}, "`training.deepspeed` needs GPUs"),
    ):
        with pytest.raises(PayloadFailure) as refused:
            training(**changes)
        assert words in str(refused.value)


def test_a_kernel_may_be_fetched_where_one_can_be_used_although_the_model_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tmp_path)
    for installed, device, offline in ((False, "cuda", "1"), (True, "cuda", None), (True, "cpu", "1")):
        monkeypatch.setattr("importlib.util.find_spec", lambda _name, there=installed: object() if there else None)
        environment: dict[str, str] = {}
        wanted = training(device=device, precision="bf16" if device == "cuda" else "fp32")
        configure_libraries(wanted, run, environment)
        assert environment.get("HF_HUB_OFFLINE") == offline
