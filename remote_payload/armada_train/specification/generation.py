"""Settings of the tasks that train on what their model writes: how it samples, who judges. Without torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from armada_train.specification.section import Section, bad_spec

if TYPE_CHECKING:
    from armada_train.specification.values import Training

GRPO_LOSSES = ("grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
"""The losses of TRL 1.16's GRPOTrainer."""

SCALES = ("group", "batch", "none")
VLLM_MODES = ("colocate", "server")
FREE = ("reward_timeout_s", "vllm")
"""Settings that a resume may change: they decide how long is waited, and where completions are sampled."""

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def parse_sampling(section: Section) -> dict[str, Any]:
    """Read how completions are sampled, with TRL's defaults."""
    settings: dict[str, Any] = {
        "max_completion_length": section.integer("max_completion_length", 512, minimum=1),
        "temperature": section.number("temperature", 1.0, above=True),
        "top_p": section.number("top_p", 1.0, above=True),
        "top_k": section.integer("top_k", 0, minimum=0),
        "min_p": section.optional_number("min_p"),
        "vllm": _parse_vllm(section.optional_section("vllm")),
    }
    for key in ("top_p", "min_p"):
        if settings[key] is not None and settings[key] > 1:
            raise section.wrong(key, "at most 1", settings[key])
    return settings


def parse_grpo(section: Section) -> dict[str, Any]:
    """Read the settings of `task: grpo`.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    settings = {
        "rewards": _parse_rewards(section),
        "num_generations": section.integer("num_generations", 8, minimum=2),
        **parse_sampling(section),
        "beta": section.number("beta", 0.0),
        "loss": section.choice("loss", GRPO_LOSSES, "dapo"),
        "epsilon": section.number("epsilon", 0.2, above=True),
        "epsilon_high": section.optional_number("epsilon_high", above=True),
        "scale_rewards": section.choice("scale_rewards", SCALES, "group"),
        "mask_truncated_completions": section.flag("mask_truncated_completions", default=False),
        "reward_timeout_s": section.number("reward_timeout_s", 600.0, above=True),
    }
    section.close()
    return settings


def sampling_arguments(settings: Mapping[str, Any], max_length: int) -> dict[str, Any]:
    """Return the arguments of TRL's configuration that say how completions are sampled."""
    found = {key: settings[key] for key in ("max_completion_length", "temperature", "top_p", "top_k", "min_p")}
    vllm = settings["vllm"]
    if vllm is None:
        return found
    found |= {
        "use_vllm": True,
        "vllm_mode": vllm["mode"],
        "vllm_gpu_memory_utilization": vllm["gpu_memory"],
        "vllm_tensor_parallel_size": vllm["tensor_parallel"],
        "vllm_max_model_length": max_length,
    }
    if vllm["mode"] == "server":
        found |= {"vllm_server_base_url": vllm["url"], "vllm_server_timeout": vllm["timeout_s"]}
    return found


def check_generation(training: Training) -> None:
    """Refuse what does not go with a training on completions that its model samples.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    objective, schedule, batch = training.objective, training.schedule, training.batch
    if not objective.samples:
        return
    settings, task = objective.settings, f"`task: {objective.name}`"
    if objective.name == "grpo" and not settings["rewards"]:
        raise bad_spec("`training.grpo.rewards` names nobody who judges: give `module:function`, or a reward model")
    if schedule.sharding != "none" or training.deepspeed is not None:
        key = "train.sharding" if schedule.sharding != "none" else "deepspeed"
        raise bad_spec(f"`training.{key}` does not go with {task}, which samples from the whole model")
    for key in ("group_by_length", "neftune_alpha"):
        if getattr(schedule, key):
            raise bad_spec(f"`training.train.{key}` does not go with {task}, whose model writes the completions")
    if schedule.long_samples != "drop":
        raise bad_spec(
            f"`training.train.long_samples` must be drop with {task}: a prompt that is cut asks something else"
        )
    if schedule.max_length <= objective.room:
        raise bad_spec(
            f"`training.train.max_length` {schedule.max_length} holds a prompt and its completion, so it must be more than "
            f"`{objective.name}.max_completion_length`, {objective.room}"
        )
    if settings["vllm"] is not None and training.device == "cpu":
        raise bad_spec(f"`training.{objective.name}.vllm` needs GPUs: leave it out, and transformers samples")
    each = objective.completions
    if batch.overall % each:
        below = batch.overall // each * each
        near = " or ".join(str(size) for size in (below, below + each) if size)
        raise bad_spec(
            f"`training.train.global_batch_size` {batch.overall} counts completions, so it must be a multiple of "
            f"`{objective.name}.num_generations`, {each}: {near}"
        )


def _parse_rewards(section: Section) -> list[dict[str, Any]]:
    """Read the judges: functions of the user's code, and reward models."""
    found: list[dict[str, Any]] = []
    for item in section.sections("rewards", []):
        function, model = item.optional_text("function"), item.optional_text("model")
        name = item.optional_text("name")
        weight = item.number("weight", 1.0, minimum=float("-inf"))
        item.close()
        if (function is None) == (model is None):
            raise bad_spec(f"`{item.where}` must hold either `function` or `model`")
        if function is not None and not _FUNCTION.fullmatch(function):
            raise item.wrong("function", "`module:function`", function)
        if not weight:
            raise item.wrong("weight", "another number than 0, which leaves it without effect", weight)
        origin = {"function": function} if function is not None else {"model": model}
        found.append({**origin, "name": name or _short(function, model), "weight": weight})
    for judge in found:
        if sum(other["name"] == judge["name"] for other in found) > 1 and "function" in judge:
            judge["name"] = judge["function"].replace(":", ".")
    names = [judge["name"] for judge in found]
    if len(set(names)) < len(names):
        raise section.wrong("rewards", "judges of different names", names)
    return found


def _short(function: str | None, model: str | None) -> str:
    """Name a judge as its curves do."""
    return function.rpartition(":")[2] if function is not None else str(model).rstrip("/").rpartition("/")[2]


def _parse_vllm(section: Section | None) -> dict[str, Any] | None:
    if section is None:
        return None
    share = section.number("gpu_memory", 0.3, above=True)
    vllm = {
        "mode": section.choice("mode", VLLM_MODES, "colocate"),
        "url": section.optional_text("url"),
        "gpu_memory": share,
        "tensor_parallel": section.integer("tensor_parallel", 1, minimum=1),
        "timeout_s": section.number("timeout_s", 240.0, above=True),
    }
    section.close()
    if share >= 1:
        raise section.wrong("gpu_memory", "a share of a GPU's memory, below 1", share)
    if (vllm["mode"] == "server") != (vllm["url"] is not None):
        raise bad_spec(f"`{section.where}.url` belongs to the mode server, which needs it: http://localhost:8000")
    return vllm
