"""Settings of `task: distill`: who teaches, how far from it the student is, and what it samples. Without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada_train.specification.section import Section, bad_spec

if TYPE_CHECKING:
    from armada_train.specification.values import Training

_TINY = {"hidden_size": 128, "layers": 4, "heads": 4, "kv_heads": 2, "intermediate_size": 352}
"""Sizes of a tiny teacher; it has the student's vocabulary."""


def parse_distill(section: Section) -> dict[str, Any]:
    """Read the settings of `task: distill`.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    settings: dict[str, Any] = {
        "teacher": _parse_teacher(section.optional_section("teacher")),
        "beta": section.number("beta", 0.5),
        "temperature": section.number("temperature", 1.0, above=True),
        "lmbda": section.number("lmbda", 0.0),
        "max_completion_length": section.integer("max_completion_length", 128, minimum=1),
    }
    section.close()
    for key in ("beta", "lmbda"):
        if settings[key] > 1:
            raise section.wrong(key, "at most 1", settings[key])
    return settings


def _parse_teacher(section: Section | None) -> dict[str, Any] | None:
    if section is None:
        return None
    path, tiny = section.optional_text("path"), section.optional_section("tiny")
    section.close()
    if (path is None) == (tiny is None):
        raise bad_spec(f"`{section.where}` must hold either `path` or `tiny`")
    if tiny is None:
        return {"path": path}
    sizes = {key: tiny.integer(key, size, minimum=1) for key, size in _TINY.items()}
    sizes["vocab_size"] = tiny.integer("vocab_size", 560, minimum=300)
    tiny.close()
    return {"tiny": sizes}


def check_distillation(training: Training) -> None:
    """Refuse what does not go with a teacher.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    objective, schedule = training.objective, training.schedule
    if objective.name != "distill":
        return
    settings = objective.settings
    if settings["teacher"] is None:
        raise bad_spec("`training.distill.teacher` names nobody who teaches: give a hub id, or a folder")
    if "tiny" in settings["teacher"] and isinstance(training.model, str):
        raise bad_spec("`training.distill.teacher` is tiny, which only goes with a tiny `training.model`")
    if training.deepspeed is not None:
        key = "train.sharding" if schedule.sharding != "none" else "deepspeed"
        raise bad_spec(f"`training.{key}` does not go with `task: distill`: DeepSpeed would not divide the teacher")
    if training.lora is not None and "lm_head" in training.lora.modules_to_save:
        raise bad_spec(
            "`training.lora.modules_to_save`: `lm_head` does not go with `task: distill`, whose loss reads the base's own head"
        )
    if settings["lmbda"] and schedule.max_length <= settings["max_completion_length"]:
        raise bad_spec(
            f"`training.train.max_length` {schedule.max_length} holds a prompt and its completion, so it must be more than "
            f"`distill.max_completion_length`, {settings['max_completion_length']}"
        )
