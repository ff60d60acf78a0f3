"""`task: distill`: a student learns a teacher's probabilities for each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from armada.config.checkpoints import Count, Positive
from armada.config.documents import shown
from armada.config.settings import FilledText, Settings, problem
from armada.config.tasks.bundled import BundledTraining, named_model
from armada.config.training import FSDP_WORDS, ZERO_STAGES, TinyChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.documents import Document

_NOT_OFFERED = {
    "seq_kd": "let the teacher write answers once with your own script, and train on them with `task: sft`",
    **dict.fromkeys(
        ("revision", "teacher_revision"), "`hf download ID --revision COMMIT --local-dir FOLDER`, and give the folder"
    ),
    **dict.fromkeys(
        ("quantize", "load_in_4bit", "load_in_8bit", "teacher_model_init_kwargs"),
        "`train: {sharding: fsdp}` divides the teacher among the processes; or take a smaller one",
    ),
}
"""What other programs call things that are not offered here, with what to do instead."""

_SHARE = Annotated[float, Field(ge=0, le=1)]


class DistillSettings(Settings):
    other_names: ClassVar[dict[str, str]] = {
        "teacher_model": "teacher",
        "teacher_model_name_or_path": "teacher",
        "lambda": "lmbda",
        "on_policy": "lmbda",
        "max_new_tokens": "max_completion_length",
    }

    teacher: FilledText | TinyChoice
    """Who teaches: a hub id, or a folder. Its tokenizer is the student's. A tiny one is for trying things out."""
    beta: _SHARE = 0.5
    """The divergence: 0 is the forward KL, 1 the reverse KL, and between them Jensen-Shannon's."""
    temperature: Positive = 1.0
    """Divides the logits of both models, and of what the student samples; higher compares unlikely tokens more."""
    lmbda: _SHARE = 0.0
    """The share of micro batches whose answers the student writes itself; 0 uses the data's alone."""
    max_completion_length: Count = 128
    """Longest answer that the student writes, in tokens; it is a part of train.max_length."""

    @model_validator(mode="before")
    @classmethod
    def _offers_no_more(cls, values: Any) -> Any:
        given = values if isinstance(values, dict) else {}
        teacher = given.get("teacher")
        for prefix, keys in (("", given), ("teacher.", teacher if isinstance(teacher, dict) else {})):
            for key in keys:
                if key in _NOT_OFFERED:
                    raise problem("is not offered", key=f"{prefix}{key}", hint=_NOT_OFFERED[key])
        return values

    @field_validator("teacher", mode="before")
    @classmethod
    def _teacher_is_a_name_or_tiny(cls, value: Any) -> Any:
        if not isinstance(value, str | dict | TinyChoice) or (isinstance(value, dict) and "tiny" not in value):
            raise problem(f"must be a hub id, a folder, or {{tiny: {{}}}}, not {shown(value)}")
        return value


class Distill(BundledTraining):
    """Train a student to give each token the probability that a teacher gives it: rows as for `sft`."""

    shards: ClassVar[tuple[str, ...]] = FSDP_WORDS
    if_missing: ClassVar[dict[str, str]] = {
        **BundledTraining.if_missing,
        "distill": "it says who teaches: `distill: {teacher: owner/name}`",
    }

    task: Literal["distill"]
    """What the run does."""
    distill: DistillSettings
    """Who teaches, and how its probabilities are compared with the student's."""

    @property
    def own(self) -> Settings:
        return self.distill

    @property
    def may_shard(self) -> bool:
        return super().may_shard and not self.distill.lmbda

    @property
    def named_teacher(self) -> str | None:
        """The teacher's folder or hub id; None for a tiny one."""
        return self.distill.teacher if isinstance(self.distill.teacher, str) else None

    @property
    def companions(self) -> dict[str, str]:
        return {self.named_teacher: "distill.teacher"} if self.named_teacher is not None else {}

    def objective_section(self, places: Mapping[str, str]) -> dict[str, object]:
        section = super().objective_section(places)
        if (name := self.named_teacher) is not None:
            section["teacher"] = {"path": places.get(name, name)}
        return section

    def find_files(self, document: Document) -> Self:
        found = super().find_files(document)
        if (name := self.named_teacher) is None:
            return found
        teacher = named_model(name, document, ("distill", "teacher"))
        return found.model_copy(update={"distill": self.distill.model_copy(update={"teacher": teacher})})

    @model_validator(mode="after")
    def _models_are_divided_together(self) -> Self:
        word, said = self.train.sharding, "does not go with `task: distill`: DeepSpeed would not divide the teacher"
        if word in ZERO_STAGES:
            raise problem(f"{word} {said}", key="train.sharding", hint="fsdp, which divides both models")
        if self.deepspeed is not None:
            raise problem(said, key="deepspeed", hint="`train: {sharding: fsdp}`, which divides both models")
        if word in FSDP_WORDS and self.distill.lmbda:
            said = f"does not go with `train.sharding: {word}`: each process samples answers from a whole student"
            raise problem(said, key="distill.lmbda", hint="0, or `train: {sharding: none}`")
        if not isinstance(self.distill.teacher, str) and isinstance(self.model, str):
            said = "is a tiny one, which knows nothing: only a tiny `model` can be tried with it"
            raise problem(said, key="distill.teacher", hint="give a hub id, or a folder")
        return self

    @model_validator(mode="after")
    def _head_is_the_models(self) -> Self:
        if self.lora is not None and "lm_head" in self.lora.modules_to_save:
            said = "lm_head does not go with `task: distill`, whose loss reads the base's own head"
            raise problem(said, key="lora.modules_to_save", hint="leave it out")
        return self

    @model_validator(mode="after")
    def _holds_prompt_and_answer(self) -> Self:
        longest, room = self.train.max_length, self.distill.max_completion_length
        if self.distill.lmbda and longest <= room:
            said = f"{longest} holds a prompt and its answer, which alone may have {room} tokens"
            raise problem(said, key="train.max_length", hint=f"distill: {{max_completion_length: {longest // 2}}}")
        return self
