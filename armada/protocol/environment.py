"""`environment.*` and `model.*`: the software and the models that a training needs on its host."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel

from armada.protocol.message import (
    MAY_MISS,
    EnvironmentKey,
    Line,
    Many,
    Message,
    OrMissing,
    Request,
    Seconds,
    Size,
    Text,
    any_word,
    line,
    word,
)

Variables = dict[str, Text]
"""Variables for access to the hub, if the plan sets them: HF_ENDPOINT, proxies."""


class FlashAttention(Message):
    """How flash-attn is installed in an environment."""

    mode: Literal["wheel", "build"]
    url: str | None
    version: str | None
    capabilities: Many[str]
    required: bool


class BuiltEnvironment(Message):
    """A finished environment; `notes` report the outcome of its optional parts."""

    outcome: Annotated[str, word("ready", "built")]
    path: Text
    python: Text
    seconds: Seconds
    freeze: Text | None = None
    notes: Many[Line] = ()


class EnsureEnvironment(Request[BuiltEnvironment]):
    """Build an environment if it is missing.

    `optional`: requirements that are skipped if the index does not have them. `constraints`: versions that all other
    packages must match. `uvs_python`: use a Python that uv downloads, which can be sent to other hosts.
    """

    method = "environment.ensure"
    answer = BuiltEnvironment
    key: EnvironmentKey
    requirements: str
    python: str
    torch_index: Annotated[str | None, MAY_MISS] = None
    optional: Annotated[str | None, MAY_MISS] = None
    constraints: Annotated[str | None, MAY_MISS] = None
    flash_attn: Annotated[FlashAttention | None, MAY_MISS] = None
    uvs_python: Annotated[bool, MAY_MISS] = False


class ExaminedEnvironment(Message):
    """An environment. A package is null if it is missing, and empty if its version is unknown; `missing`: modules it lacks."""

    path: Text
    python: Text
    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    is_conda: bool
    packages: dict[str, Annotated[str, line(60)] | None]
    missing: Many[Line] = ()


class ExamineEnvironment(Request[ExaminedEnvironment]):
    """Examine an environment: the one at `path`, or conda's environment of that name. Nothing in it is imported."""

    method = "environment.examine"
    answer = ExaminedEnvironment
    packages: Many[str]
    path: Annotated[str | None, MAY_MISS] = None
    conda: Annotated[str | None, MAY_MISS] = None
    modules: Annotated[Many[str], MAY_MISS] = ()


class EnvironmentStates(RootModel[dict[str, Annotated[str, any_word("ready", "building", "absent", "partial")]]]):
    """The states of the requested environments by key."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True, hide_input_in_errors=True)


class AskEnvironments(Request[EnvironmentStates]):
    """Return the states of environments."""

    method = "environment.status"
    answer = EnvironmentStates
    keys: Many[EnvironmentKey]


class HubCache(Message):
    """What the host's Hugging Face cache has of a model. `shares_disk`: the cache is on the disk of the host's root."""

    size_bytes: Size
    free_bytes: Size
    shares_disk: bool


class FoundModel(Message):
    """A model on the hub, and whether the host has it.

    `refused`: the hub answered with an error. `denied`: the hub lists its files, but lets only some users read them.
    `config`: its config.json; `config_problem`: why there is none.
    """

    commit: Text | None
    path: Text | None
    present: bool
    size_bytes: Size | None
    error: Line | None
    refused: bool
    denied: Line | None = None
    config: Text | None = None
    config_problem: Line | None = None
    cache: HubCache | None = None


class FindModel(Request[FoundModel]):
    """Look up a model on the hub and on the host."""

    method = "model.find"
    answer = FoundModel
    repo: str
    revision: str
    variables: OrMissing[Variables] = None
    token: Annotated[str | None, MAY_MISS] = None


class FetchedModel(Message):
    """The model's folder on the host."""

    outcome: Annotated[str, word("ready", "fetched")]
    path: Text
    size_bytes: Size


class FetchModel(Request[FetchedModel]):
    """Download a model to the host."""

    method = "model.fetch"
    answer = FetchedModel
    repo: str
    revision: str
    variables: OrMissing[Variables] = None
    token: Annotated[str | None, MAY_MISS] = None
    commit: str
    environment: EnvironmentKey
