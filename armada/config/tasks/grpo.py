"""`task: grpo`: group relative policy optimisation on prompts, whose completions are judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from armada.config.checkpoints import Positive
from armada.config.documents import shown
from armada.config.schedulers import Duration
from armada.config.settings import FilledText, Settings, problem, shaped
from armada.config.tasks.bundled import named_model
from armada.config.tasks.sampled import SampledTraining, Sampling
from armada.units import duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.config.documents import Document

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Judge(Settings):
    """Who judges: a function of your code, or a reward model."""

    other_names: ClassVar[dict[str, str]] = {"reward_func": "function", "path": "model", "reward_model": "model"}

    function: Annotated[FilledText, shaped(_FUNCTION)] | None = None
    """`module:function` of `code`, which returns a number for each completion."""
    model: FilledText | None = None
    """A reward model: a hub id, or a folder."""
    weight: float = 1.0
    """What its number is multiplied by before all are added up."""

    @model_validator(mode="after")
    def _one_judge(self) -> Self:
        if (self.function is None) == (self.model is None):
            raise problem("needs one of `function` and `model`")
        if self.function is not None and not _FUNCTION.fullmatch(self.function):
            raise problem(f"must be `module:function`, not {shown(self.function)}", key="function")
        if not self.weight:
            raise problem("is 0, which leaves it without effect", key="weight", hint="leave the reward out")
        return self


class GrpoSettings(Sampling):
    other_names: ClassVar[dict[str, str]] = {
        "loss_type": "loss",
        "reward_funcs": "rewards",
        "reward_functions": "rewards",
        "reward_weights": "rewards",
        "group_size": "num_generations",
    }

    rewards: Annotated[tuple[FilledText | Judge, ...], Field(strict=False, min_length=1)]
    """Who judges: `module:function`, {function: module:function, weight: 0.5}, or {model: a reward model}."""
    num_generations: Annotated[int, Field(ge=2)] = 8
    """Completions of each prompt, which are compared with each other."""
    beta: Annotated[float, Field(ge=0)] = 0.0
    """How closely the model keeps to the reference; 0 needs none."""
    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """The loss, by TRL's name."""
    epsilon: Positive = 0.2
    """How far a token's probability may move in a step before it is clipped."""
    epsilon_high: Positive | None = None
    """The same upwards; as `epsilon` by default."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """By whose standard deviation rewards are divided: of a prompt's completions, of the batch, or none."""
    mask_truncated_completions: bool = False
    """Leave completions out of the loss that reached max_completion_length."""
    reward_timeout: Duration = "10m"
    """How long a call of a reward function may take."""

    @field_validator("rewards", mode="before")
    @classmethod
    def _each_is_named(cls, value: Any) -> Any:
        if isinstance(value, str | dict):
            raise problem("must be a list", hint="rewards: [module:function]")
        for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
            if isinstance(each, str) and not _FUNCTION.fullmatch(each):
                raise problem(f"must be `module:function`, not {shown(each)}", key=f"rewards[{index}]")
            if not isinstance(each, str | dict | Judge):
                raise problem(f"must be `module:function`, or {{model: …}}, not {shown(each)}", key=f"rewards[{index}]")
        return value

    @model_validator(mode="after")
    def _each_judges_once(self) -> Self:
        named = [judge.function or judge.model for judge in self.judges]
        for index, name in enumerate(named):
            if name in named[:index]:
                raise problem(f"{shown(str(name))} judges twice", key=f"rewards[{index}]", hint="leave one out")
        return self

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Who judges, each in full."""
        return tuple(Judge(function=each) if isinstance(each, str) else each for each in self.rewards)


class Grpo(SampledTraining):
    """Train a model on its own completions, by what reward functions or reward models say of them: rows of `prompt`."""

    has_reference: ClassVar[bool] = True
    eval_metrics: ClassVar[tuple[str, ...]] = ("eval_loss", "eval_reward")
    if_missing: ClassVar[dict[str, str]] = {
        **SampledTraining.if_missing,
        "grpo": "it says who judges: `grpo: {rewards: [module:function]}`",
    }

    task: Literal["grpo"]
    """What the run does."""
    grpo: GrpoSettings
    """Who judges, how completions are sampled, and the loss."""

    @property
    def own(self) -> Settings:
        return self.grpo

    @property
    def sampling(self) -> Sampling:
        return self.grpo

    @property
    def completions(self) -> int:
        return self.grpo.num_generations

    @property
    def needs_reference(self) -> bool:
        return self.grpo.beta > 0

    @property
    def companions(self) -> dict[str, str]:
        return {judge.model: f"grpo.rewards[{at}].model" for at, judge in self._judges() if judge.model is not None}

    @property
    def functions(self) -> dict[str, str]:
        judges = {f"grpo.rewards[{at}]": judge.function for at, judge in self._judges() if judge.function is not None}
        return {**super().functions, **judges}

    def _judges(self) -> Iterator[tuple[int, Judge]]:
        return enumerate(self.grpo.judges)

    def objective_section(self, places: Mapping[str, str]) -> dict[str, object]:
        rewards: list[dict[str, object]] = []
        for _, judge in self._judges():
            if judge.model is None:
                rewards.append({"function": judge.function, "weight": judge.weight})
            else:
                name = judge.model.rstrip("/").rpartition("/")[2]
                rewards.append({"model": places.get(judge.model, judge.model), "name": name, "weight": judge.weight})
        section = {**self.grpo.as_section(), "rewards": rewards}
        section["reward_timeout_s"] = duration_s(str(section.pop("reward_timeout")))
        return section

    def find_files(self, document: Document) -> Self:
        found = super().find_files(document)
        rewards = [
            each
            if isinstance(each, str) or each.model is None
            else each.model_copy(update={"model": named_model(each.model, document, ("grpo", "rewards", at, "model"))})
            for at, each in enumerate(self.grpo.rewards)
        ]
        return found.model_copy(update={"grpo": self.grpo.model_copy(update={"rewards": tuple(rewards)})})
