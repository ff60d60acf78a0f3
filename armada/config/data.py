"""Settings of what a training reads: its sources, and how their rows are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from armada.config.checkpoints import Positive
from armada.config.documents import shown
from armada.config.settings import FilePath, FilledText, Settings, Text, problem, shaped

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})?")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_MOST_SETS = 20
HOOK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

Format = Literal["messages", "sharegpt", "alpaca", "prompt-completion", "text", "preference", "unpaired", "prompt"]
Column = Literal[
    "messages", "tools", "conversations", "system", "instruction", "output", "input", "history", "prompt", "completion",
    "text", "chosen", "rejected", "label",
]  # fmt: skip
Templated = Literal[
    "prompt", "completion", "text", "chosen", "rejected", "instruction", "input", "output", "system"
]  # fmt: skip


class Written(Settings):
    """How rows are written."""

    other_names: ClassVar[dict[str, str]] = {
        "type": "format",
        "formatting": "format",
        "column_mapping": "columns",
        "field_mapping": "columns",
        "jinja": "template",
    }

    format: Format | None = None
    """What the rows are; without it their columns tell."""
    columns: Annotated[dict[FilledText, Column], Field(min_length=1)] | None = None
    """Other names of columns, with ours for each: `{question: prompt, answer: completion}`."""
    template: FilledText | Annotated[dict[Templated, FilledText], Field(min_length=1)] | None = None
    """A Jinja text that makes `text` of a row's columns, or one for each of ours: `{prompt: "{{ title }}", completion: …}`."""

    @field_validator("columns", mode="before")
    @classmethod
    def _theirs_come_first(cls, value: Any) -> Any:
        known = get_args(Column)
        for key, name in value.items() if isinstance(value, dict) else ():
            if key in known and isinstance(name, str) and name not in known:
                raise problem("is the wrong way round: your column comes first", hint=f"`{shown(name)}: {key}`")
        return value

    @field_validator("columns")
    @classmethod
    def _one_for_each(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        named: dict[str, str] = {}
        for theirs, ours in (value or {}).items():
            if ours in named:
                raise problem(f"maps both {shown(named[ours])} and {shown(theirs)} to {ours}", hint="leave one out")
            named[ours] = theirs
        return value

    @field_validator("template")
    @classmethod
    def _is_jinja(cls, value: str | dict[str, str] | None) -> str | dict[str, str] | None:
        if value is None:
            return None
        from jinja2 import Environment, TemplateSyntaxError  # 30 ms, for the few experiments with a template

        environment = Environment(autoescape=False)  # noqa: S701  # it is only parsed
        for name, text in (value if isinstance(value, dict) else {"": value}).items():
            try:
                environment.parse(text)
            except TemplateSyntaxError as error:
                of = f"{name}, " if name else ""
                raise problem(f"is not Jinja ({of}line {error.lineno}): {error.message}") from error
            except RecursionError as error:
                raise problem("is nested too deeply") from error
        return value


class DataSource(Written):
    """A file (.jsonl, .json, .csv, .tsv, also gzip; parquet), a folder of `Dataset.save_to_disk`, a dataset of the hub, or a hook."""

    other_names: ClassVar[dict[str, str]] = {
        "dataset": "hub",
        "name": "config",
        "subset": "config",
        "file": "path",
        **Written.other_names,
    }

    path: FilePath | None = None
    """A file or a folder at home."""
    hub: Annotated[FilledText, shaped(HUB_ID)] | None = None
    """A dataset's id; the host fetches it, or finds it in its cache."""
    split: FilledText | None = None
    """Of the hub's dataset; `train` in data.train unless it says otherwise."""
    config: FilledText | None = None
    """The configuration of the hub's dataset, where it has several."""
    revision: FilledText | None = None
    """A commit keeps the data as it is; without one a resume is refused when rows to train on have changed."""
    hook: Annotated[FilledText, shaped(HOOK)] | None = None
    """`module:function`, called as sample(index, rng), returns one row."""
    weight: Positive = 1.0
    """How many passes over it one epoch makes; beside hooks, its share of the samples."""

    @classmethod
    def refusal(cls, key: str) -> tuple[str, str | None] | None:
        if key != "streaming":
            return None
        return (
            "is not supported: rows are tokenised once, before the first step, so that a resume continues at the very row",
            "leave it out: the host reads the dataset row by row, and keeps the tokens on its disk",
        )

    @model_validator(mode="before")
    @classmethod
    def _path_is_no_address(cls, data: Any) -> Any:
        path = data.get("path") if isinstance(data, dict) else None
        if isinstance(path, str) and (found := _ADDRESS.match(path)):
            hint = (
                "`hub: owner/name` names a dataset of the hub"
                if found[0] == "hf://"
                else "download it, and name the file"
            )
            raise problem("is an address, and data is a file or a folder here", key="path", hint=hint)
        return data

    @field_validator("hook")
    @classmethod
    def _names_a_function(cls, value: str | None) -> str | None:
        if value is not None and not HOOK.fullmatch(value):
            raise problem(f"must be `module:function`, not {shown(value)}")
        return value

    @field_validator("hub")
    @classmethod
    def _is_an_id(cls, value: str | None) -> str | None:
        if value is not None and not HUB_ID.fullmatch(value):
            raise problem(f"must be a dataset's id on the hub, owner/name, not {shown(value)}")
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> DataSource:
        if sum(origin is not None for origin in (self.path, self.hub, self.hook)) != 1:
            raise problem("needs one of `path`, `hub` and `hook`")
        for key in ("split", "config", "revision"):
            if self.hub is None and getattr(self, key) is not None:
                raise problem("belongs to a dataset of the `hub`", key=key, hint="leave it out")
        for key in ("format", "columns", "template"):
            if self.hook is not None and getattr(self, key) is not None:
                raise problem("does not go with a hook, which returns rows as they should be", key=key)
        return self


def _set_name(name: str) -> str:
    if not _SET_NAME.fullmatch(name):
        said = f"{shown(name)} cannot name an evaluation set: metrics carry the name, as in eval_math_loss"
        raise problem(said, hint="letters, digits and `_`, at most 40, beginning with a letter")
    return name


def _shape(value: Any) -> str:
    return "a mapping" if isinstance(value, dict | DataSource) else "a list"


SetName = Annotated[Text, AfterValidator(_set_name), shaped(_SET_NAME)]
# By its shape alone, so that what is wrong in one is not also said to be no other.
_SetSources = Annotated[
    Annotated[DataSource, Tag("a mapping")]
    | Annotated[tuple[DataSource, ...], Field(strict=False, min_length=1), Tag("a list")],
    Discriminator(_shape),
]
_EvalSources = Annotated[
    Annotated[tuple[DataSource, ...], Field(strict=False), Tag("a list")]
    | Annotated[dict[SetName, _SetSources], Field(max_length=_MOST_SETS), Tag("a mapping")],
    Discriminator(_shape),
]


class Data(Written):
    other_names: ClassVar[dict[str, str]] = {
        "validation": "eval",
        "test": "eval",
        "training": "train",
        "dataloader_num_workers": "workers",
        **Written.other_names,
    }

    train: Annotated[tuple[DataSource, ...], Field(strict=False, min_length=1)]
    """What is trained on."""
    eval: _EvalSources = ()
    """What the evaluation loss is computed on; always the same rows. Several sets by name: `{math: [{path: …}], code: …}`."""
    workers: Annotated[int, Field(ge=0, le=256)] = 0
    """Processes of each rank that make or fetch rows beside the training."""

    @field_validator("eval", mode="before")
    @classmethod
    def _is_no_single_source(cls, value: Any) -> Any:
        """A source where a list should be is no mapping of names."""
        if isinstance(value, dict) and any(
            key in DataSource.model_fields and not isinstance(one, dict | list | tuple | DataSource)
            for key, one in value.items()
        ):
            raise problem("must be a list of sources, or a mapping of names to them", hint="eval: [{path: eval.jsonl}]")
        for name, one in value.items() if isinstance(value, dict) else ():
            if isinstance(one, list) and not one:
                raise problem("names no source", key=str(name), hint=f"{name}: [{{path: eval.jsonl}}]")
        return value

    @model_validator(mode="after")
    def _eval_is_fixed(self) -> Data:
        for location, source in sources_in(self.eval):
            key = "eval" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
            if source.hook is not None:
                raise problem("cannot be a hook: evaluation compares the same rows each time", key=key)
            if source.weight != 1.0 and isinstance(self.eval, dict):
                raise problem(
                    "has no effect: evaluation reads every row once", key=f"{key}.weight", hint="leave it out"
                )
        return self

    @property
    def eval_sets(self) -> dict[str, tuple[DataSource, ...]]:
        """The evaluation sets by name; a single one without a name has the empty one."""
        if not isinstance(self.eval, dict):
            return {"": self.eval} if self.eval else {}
        return {name: one if isinstance(one, tuple) else (one,) for name, one in self.eval.items()}

    @property
    def eval_sources(self) -> tuple[DataSource, ...]:
        """What all evaluation sets read."""
        return tuple(source for sources in self.eval_sets.values() for source in sources)

    def form_of(self, source: DataSource) -> dict[str, Any]:
        """Return how a source's rows are written, as the payload takes it: what it says itself, else what holds for all."""
        if source.hook is not None:
            return {}
        stated = {key: getattr(source, key) or getattr(self, key) for key in ("format", "columns", "template")}
        if isinstance(stated["template"], str):
            stated["template"] = {"text": stated["template"]}
        return {key: value for key, value in stated.items() if value}

    @property
    def paths(self) -> list[Path]:
        """Every file and folder named, each once."""
        return list(dict.fromkeys(s.path for s in (*self.train, *self.eval_sources) if s.path is not None))

    @property
    def is_local(self) -> bool:
        """Whether the host has nothing to fetch from the hub."""
        return all(source.hub is None for source in (*self.train, *self.eval_sources))

    @property
    def has_hook(self) -> bool:
        return any(source.hook is not None for source in self.train)


def sources_in(listed: Any) -> Iterator[tuple[tuple[str | int, ...], DataSource]]:
    """Yield each source of `data.train` or `data.eval`, with its place below that key."""
    if isinstance(listed, DataSource):
        yield (), listed
        return
    for key, item in listed.items() if isinstance(listed, dict) else enumerate(listed or ()):
        for below, source in sources_in(item):
            yield (key, *below), source
