"""Group relative policy optimisation: TRL's GRPOTrainer on prompts, whose completions are judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from trl import GRPOConfig, GRPOTrainer

from armada_train.failure import GENERIC, PayloadFailure
from armada_train.model.loading import load_scorer
from armada_train.specification.generation import sampling_arguments
from armada_train.specification.values import Training
from armada_train.training.judges import PLACES, Judge, load_functions
from armada_train.training.objectives.sampled import LENGTHS, SampledTrainer
from armada_train.training.reward_model import ModelJudge


class GrpoTrainer(SampledTrainer, GRPOTrainer):  # type: ignore[misc]  # trl is not installed where types are checked
    """The loss compares the completions of a prompt with each other; the evaluation's is the negative mean reward."""

    config: ClassVar[Any] = GRPOConfig
    eval_curves: ClassVar[tuple[str, ...]] = ("reward", "completions/mean_length", "completions/clipped_ratio")
    curves: ClassVar[tuple[str, ...]] = (
        *("reward", "reward_std", "frac_reward_zero_std", "entropy", "kl"),
        *LENGTHS,
        *("clip_ratio/low_mean", "clip_ratio/low_min", "clip_ratio/high_mean", "clip_ratio/high_max"),
        *("clip_ratio/region_mean", "cispo_clip_ratio", "vespo/phi_seq_mean"),
        *("sampling/sampling_logp_difference/mean", "sampling/importance_sampling_ratio/mean"),
    )

    def __init__(self, **given: Any) -> None:
        training: Training = given["training"]
        judges = _load_judges(training, given["attempt"].run.attempt_folder)
        self._judges = judges
        names = [judge.__name__ for judge in judges]
        self.eval_curves = (*self.eval_curves, *(f"rewards/{name}/mean" for name in names))  # type: ignore[misc]  # of this run
        told = (f"rewards/{name}/{what}" for name in names for what in ("mean", "std"))
        self.curves = (*self.curves, *told)  # type: ignore[misc]  # of this run
        model, start = given["model"], training.start_from
        named = model.config._name_or_path  # noqa: SLF001  # TRL loads the reference by it
        if start is not None and training.lora is None:
            model.config._name_or_path = str(start.path)  # noqa: SLF001
        super().__init__(reward_funcs=list(judges), **given)
        model.config._name_or_path = named  # noqa: SLF001
        for judge in judges:
            judge.check(self.columns)
            if isinstance(judge, ModelJudge):
                judge.to(self.accelerator.device)

    @classmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        settings = training.objective.settings
        loss = settings["loss"]
        return {
            **sampling_arguments(settings, training.schedule.max_length),
            "num_generations": settings["num_generations"],
            "num_generations_eval": 1,  # the evaluation has a batch of its own
            "reward_weights": [judge["weight"] for judge in settings["rewards"]],
            "beta": settings["beta"],
            "loss_type": loss,
            "epsilon": settings["epsilon"],
            "epsilon_high": settings["epsilon_high"],
            "scale_rewards": settings["scale_rewards"],
            "mask_truncated_completions": settings["mask_truncated_completions"],
            "importance_sampling_level": "sequence" if loss == "luspo" else "token",
        }

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Any:
        self._heartbeat.beat("training", self.state.global_step)
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        mine = rewards[self._run.rank * len(prompts) :][: len(prompts)]
        for row, scores in zip(inputs, mine.isnan().all(dim=1).tolist(), strict=True):
            if scores:
                raise _unjudged(row)
        return rewards

    def evaluate_batch(self, _model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, tuple[Any, Any]]]:
        made = self.sample(inputs)
        ids, completions = made[1], made[3]
        if not inputs["counts"]:
            return 0.0, 0, {}
        row, weights, each = inputs["row"], self.reward_weights.tolist(), self._each
        given = {name: [value] * each for name, value in row.items() if name != "prompt"}
        total, judged, sums = 0.0, [False] * each, self.lengths_of(ids)
        for judge, weight in zip(self._judges, weights, strict=True):
            scores = judge(
                prompts=[row["prompt"]] * each,
                completions=completions,
                completion_ids=ids,
                trainer_state=self.state,
                log_extra=_say_nothing,
                log_metric=_say_nothing,
                **given,
            )
            said = [score for score in scores if score is not None]
            total += weight * sum(said)
            judged = [before or score is not None for before, score in zip(judged, scores, strict=True)]
            sums[f"rewards/{judge.__name__}/mean"] = (float(sum(said)), len(said))
        if not all(judged):
            raise _unjudged(row)
        return -total, each, {**sums, "reward": (total, each)}


def _load_judges(training: Training, attempt_folder: Path) -> list[Judge | ModelJudge]:
    settings = training.objective.settings
    functions = load_functions(settings, attempt_folder)
    return [
        functions[judge["name"]]
        if "function" in judge
        else ModelJudge(judge["name"], *load_scorer(training, judge["model"]), training.batch.micro)
        for judge in settings["rewards"]
    ]


def _unjudged(row: Mapping[str, Any]) -> PayloadFailure:
    return PayloadFailure(
        GENERIC, f"every reward function returned None for a completion of the prompt of {row[PLACES]}"
    )


def _say_nothing(*_: Any, **__: Any) -> None:
    """Take what a reward function would log of a training."""


TRAINER = GrpoTrainer
