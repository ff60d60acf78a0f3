"""What tasks share that train on completions which their model samples."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from armada.config.checkpoints import Count, Positive
from armada.config.schedulers import Duration
from armada.config.settings import FilledText, Settings, problem, shaped
from armada.config.tasks.bundled import BundledTraining
from armada.units import duration_s

_URL = re.compile(r"https?://\S+")
_MOST = Annotated[float, Field(gt=0, le=1)]


class Vllm(Settings):
    """Sample by vLLM, which the environment must have, on GPUs."""

    other_names: ClassVar[dict[str, str]] = {
        "vllm_mode": "mode",
        "base_url": "url",
        "host": "url",
        "server_base_url": "url",
        "gpu_memory_utilization": "gpu_memory",
        "tensor_parallel_size": "tensor_parallel",
    }

    mode: Literal["colocate", "server"] = "colocate"
    """`colocate`: in the training's own processes, on its GPUs. `server`: by a `trl vllm-serve` that you started."""
    url: Annotated[FilledText, shaped(_URL)] | None = None
    """Where the server is, as the host reaches it: `http://localhost:8000`."""
    gpu_memory: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """The share of each GPU's memory for vLLM, with `colocate`."""
    tensor_parallel: Count = 1
    """Among how many processes vLLM divides the model, with `colocate`."""
    timeout: Duration = "4m"
    """How long the training waits for the server when it begins."""

    @model_validator(mode="after")
    def _a_server_has_a_url(self) -> Self:
        if self.url is not None and not _URL.fullmatch(self.url):
            raise problem("must be http://HOST:PORT", key="url")
        if self.mode == "server" and self.url is None:
            raise problem("is needed with the mode server", key="url", hint="url: http://localhost:8000")
        if self.mode != "server" and self.url is not None:
            raise problem("belongs to the mode server", key="url", hint="mode: server")
        return self


class Sampling(Settings):
    """How completions are sampled."""

    max_completion_length: Count = 512
    """Longest completion, in tokens; it is a part of train.max_length."""
    temperature: Positive = 1.0
    """Higher is more random."""
    top_p: _MOST = 1.0
    """Sample from the most probable tokens that together have this probability; 1 is all."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Sample from this many of the most probable tokens; 0 is all."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Leave out tokens below this share of the most probable one's probability."""
    vllm: Vllm | None = None
    """Sample by vLLM; without it transformers does."""

    def as_section(self) -> dict[str, object]:
        """Return the settings as the payload takes them."""
        found = self.model_dump(mode="json")
        if self.vllm is not None:
            found["vllm"]["timeout_s"] = duration_s(found["vllm"].pop("timeout"))
        return found


class SampledTraining(BundledTraining):
    """A training on prompts, whose completions the model samples meanwhile."""

    samples: ClassVar[bool] = True

    @property
    def sampling(self) -> Sampling:
        """How it samples."""
        raise NotImplementedError

    @property
    def completions(self) -> int:
        """Completions of each prompt in a step."""
        return 1

    @model_validator(mode="after")
    def _samples_from_a_whole_model(self) -> Self:
        task = f"`task: {self.task}`"
        if self.train.sharding != "none":
            said = f"{self.train.sharding} does not go with {task}, which samples from the whole model"
            raise problem(said, key="train.sharding", hint="leave it out; `lora: {}` needs less memory")
        if self.deepspeed is not None:
            raise problem(f"does not go with {task}, which samples from the whole model", key="deepspeed")
        for key in ("group_by_length", "neftune_alpha"):
            if getattr(self.train, key):
                raise problem(f"does not go with {task}, whose model writes the completions", key=f"train.{key}")
        if self.train.long_samples != "drop":
            said = f"must be drop with {task}: a prompt that is cut asks something else"
            raise problem(said, key="train.long_samples", hint="leave it out")
        return self

    @model_validator(mode="after")
    def _holds_prompt_and_completion(self) -> Self:
        longest, room = self.train.max_length, self.sampling.max_completion_length
        if longest <= room:
            said = f"{longest} holds a prompt and its completion, which alone may have {room} tokens"
            raise problem(said, key="train.max_length", hint=f"{self.task}: {{max_completion_length: {longest // 2}}}")
        size, each = self.train.global_batch_size, self.completions
        if size % each:
            near = " or ".join(str(other) for other in (size // each * each, (size // each + 1) * each) if other)
            said = f"{size} counts completions, and each prompt has {each} (`{self.task}.num_generations`)"
            raise problem(said, key="train.global_batch_size", hint=f"a multiple of {each}: {near}")
        return self
