"""Filter expressions: what they match, what a missing value does, and where an error points."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.costs.tariff import Tariff
from armada.errors import ArmadaError
from armada.filters.cells import cell
from armada.filters.errors import FilterError
from armada.filters.expression import compile_filter
from armada.filters.keys import RUN_KEYS, Subject, UnknownKey, Value, Vocabulary, resolve
from armada.filters.syntax import DEEPEST, LONGEST, parse
from armada.filters.trouble import Trouble
from armada.store.runs import Run

NOW = 1_800_000_000.0
DAY = 86_400.0
VOCABULARY = Vocabulary(
    frozenset(
        {
            "model",
            "train.learning_rate",
            "train.seed",
            "data.seed",
            "data.train.path",
            "resources.time_limit",
            "train.bf16",
        }
    ),
    frozenset({"eval_loss", "eval/acc", "loss"}),
    lambda: ["train.max_length", "lora.r"],
)


def run_of(**changes: Any) -> Run:
    values: dict[str, Any] = dict.fromkeys(Run._fields)
    values |= {
        "run_id": "qwen-lora-aaaaaa",
        "name": "Qwen LoRA",
        "host": "a100-1",
        "task": "sft",
        "state": "failed",
        "reason": "oom",
    }
    values |= {"submission": 1, "attempt": 1, "seq": 1, "gpus": (0, 1), "metrics_offset": 0, "events_offset": 0}
    values |= {
        "log_size_bytes": 12_000_000,
        "unreadable_count": 0,
        "tags": ("arc", "Größe"),
        "group": "lr sweep",
        "checkpoints_home": 3,
    }
    values |= {
        "checkpoints_host": 3,
        "created_at": NOW - 2 * DAY,
        "started_at": NOW - 2 * DAY,
        "ended_at": NOW - 2 * DAY + 7200,
    }
    values |= {"step": 50, "total_steps": 100, "loss": 0.31, "note": "diverged at the end", "starred_at": NOW}
    return Run(**{**values, **changes})


FACTS: dict[str, Value] = {
    "model": ("Qwen/Qwen3-8B",),
    "train.learning_rate": (2e-5,),
    "data.train.path": ("a.jsonl", "b.jsonl"),
    "resources.time_limit": ("4h",),
    "train.bf16": (1,),
    "last(eval_loss)": 0.41,
    "min(eval_loss)": 0.35,
    "last(eval/acc)": 0.9,
}


def subject(**changes: Any) -> Subject:
    return Subject(run_of(**changes), NOW, Tariff.of(2.0), Trouble("no_number", "its loss is NaN"), FACTS)


def matches(text: str, about: Subject | None = None) -> bool:
    return compile_filter(text, lambda: VOCABULARY).matches(about or subject())


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "lora", "LORA qwen", "qwen*", "*aaaaaa", "a100", "failed", "oom", "arc", "host:a100", "host:a100*", "host:A100-1",
        "host=a100-1", "host!=other", "state:failed", "reason:oom", "task:sft", "tag:arc", "tag:größe", "tag:gr*", "tag=arc", "tags:arc",
        'group:"lr sweep"', "group:lr*", "name:\"Qwen LoRA\"", "name:qwen", "note:diverged", "loss<0.4", "loss <= 0.31", "loss>=0.31",
        "loss=0.31", "loss:0.31", "loss!=0.4", "loss>3e-1", "progress>=50%", "step<1k", "cost>3", "cost<$5", "price=2", "age>1d", "age<3d",
        "lasted=2h", "runtime<=120m", "log>10MB", "log<12MiB", "gpus=2", "checkpoints>2", "created<2100-01-01", "created>2020-01-01T10:00",
        "created>3d", "starred", "is:starred", "is:trouble", "trouble", "ended", "-active", "not active", "!active", "-archived",
        "archived:no", "starred=yes", "lr>1e-5", "lr=2e-5", "learning_rate<1e-4", "train.learning_rate:2e-5", "model:qwen3",
        "model=qwen/qwen3-8b", "model:Qwen/*", "path:b.jsonl", "data.train.path=a.jsonl", "time_limit>2h", "time_limit=240m", "bf16=true",
        "bf16:yes", "bf16!=no", "eval_loss<0.42", "min(eval_loss)<0.36", "best<0.36", "last(eval_loss)>0.4", "eval/acc>=0.9",
        "loss<0.4 tag:arc lr>1e-5 host:a100*", "loss>1 or tag:arc", "(loss>1 or tag:arc) starred", "loss>1 or (tag:arc and starred)",
        "not (loss>1 or state:running)", "-(loss>1)", "--lora", "NOT running", "tag:arc AND starred", '"lora"', '"Qwen LoRA"',
        "Min(eval_loss)<0.36", "MIN (eval_loss)<0.36", "min( eval_loss )<0.36", "not is:ended or ended",
        "state:fail", "state!=running", "is:UNREACH or ended",
        "age<2d1h", "age>1d12h", "age>1d23h59m59s", 'age<"2 d 1 h"', "lasted=1h60m", "lasted<1.5h45m", "time_limit>3h59m", "created>2d1h",
        "tag!=old", "group!=old", "note!=old", "starred:yes", "last or lora", "12:30 or lora", '"<" or lora',
        '-"or else"', "-tag:old", "!host:far", "loss<0.4 -eval_loss>1",
    ],
)  # fmt: skip
def test_these_match(text: str) -> None:
    assert matches(text)


@pytest.mark.parametrize(
    "text",
    [
        "nothing", "qwen", "host:b*", "host=a100", "tag:ar", "group:lr", "group:sweep", "loss<0.3", "loss>1 tag:arc", "-starred", "active",
        "archived", "note:fine", "age<1d", "lr>1e-4", "model=qwen3", "model!=qwen/qwen3-8b", "path!=a.jsonl", "time_limit>5h", "bf16=0",
        "state:running or state:queued", "not (starred)", "is:archived", '"starred"', "lora -failed", "gpus=3", "created>1d",
        "tag!=arc", "tag!=ARC", 'group!="lr sweep"', "starred:no", "is:unreachable", "state!=failed",
    ],
)  # fmt: skip
def test_these_do_not(text: str) -> None:
    about = subject(name="LoRA", run_id="lora-aaaaaa") if text == "qwen" else None
    assert not matches(text, about)


@pytest.mark.parametrize(
    "text",
    [
        "loss<9e9", "loss>-9e9", "loss!=0", "lr<1", "lr>0", "lr!=1", "lr:1", "model:q", "model!=q", "eval_loss<9", "eval_loss!=1", "best<9",
        "cost>0", "group:*", "note:a", "tag:*", "step>=0", "eta>0s", "lasted>0s", "started>2000-01-01", "exit_code!=1", "message:x",
    ],
)  # fmt: skip
def test_what_is_missing_is_never_true(text: str) -> None:
    nothing = {
        "loss": None,
        "group": None,
        "note": None,
        "tags": (),
        "step": None,
        "started_at": None,
        "ended_at": None,
    }
    about = Subject(run_of(**nothing, state="running"), NOW)
    assert not matches(text, about)
    assert matches(f"not {text}", about)


@pytest.mark.parametrize("text", ["tag!=arc", "group!=arc", "note!=arc"])
def test_a_run_without_a_label_is_known_not_to_have_it(text: str) -> None:
    about = Subject(run_of(tags=(), group=None, note=None), NOW)
    assert matches(text, about)
    assert matches(f"not {text.replace('!=', '=')}", about)


def test_nan_and_infinity_of_a_metric() -> None:
    about = Subject(run_of(), NOW, facts={"last(eval_loss)": float("nan")})
    assert not any(matches(f"eval_loss{sign}1", about) for sign in ("<", "<=", ">", ">=", "=", "!="))
    assert matches("eval_loss>9e300", Subject(run_of(), NOW, facts={"last(eval_loss)": float("inf")}))


@pytest.mark.parametrize(
    ("text", "place", "sentence", "hint"),
    [
        ("tag:arc losss<0.4", (8, 13), "no run has a key called `losss`", "did you mean loss"),
        ("learnin_rate<1", (0, 12), "no run has a key called `learnin_rate`", "learning_rate"),
        ("tag:arc seed=1", (8, 12), "`seed` may be data.seed or train.seed", "whole key"),
        ("loss<abc", (5, 8), "'abc' is not a number for `loss`", "0.4, 1e-5"),
        ("loss<2h", (5, 7), "'2h' is not a number for `loss`", None),
        ("loss<1e999", (5, 10), "'1e999' is not a number for `loss`", None),
        ("loss<nan", (5, 8), "'nan' is not a number for `loss`", None),
        ("age<2x", (4, 6), "'2x' is not a duration for `age`", "2h or 7d"),
        ("host<3", (0, 6), "`host` is text, which has no order", "host:3"),
        ("starred:maybe", (8, 13), "`starred` is yes or no", None),
        ("created:2026-11-23", (8, 18), "`created` is a time: compare it with < or >", None),
        ("created<yesterday", (8, 17), "'yesterday' is not a time for `created`", None),
        ("lr>warm", (3, 7), "'warm' is not a number for `lr`", None),
        ("min(nothing)<3", (0, 12), "no run has a metric called `nothing`", None),
        ("age<12h1d", (4, 9), "'12h1d' is not a duration for `age`", "1d12h"),
        ("age<1d1d", (4, 8), "'1d1d' is not a duration for `age`", None),
        ("age<1d12", (4, 8), "'1d12' is not a duration for `age`", None),
        ("age<1d2y", (4, 8), "'1d2y' is not a duration for `age`", None),
        ("created>1d1x", (8, 12), "'1d1x' is not a time for `created`", None),
        ("a tag:arc,b", (6, 11), "a tag has no comma", "tag:arc tag:b, or with `or`"),
        ("tag!=a*,b", (5, 9), "a tag has no comma", "tag!=a* tag!=b"),
        ("tag:,", (4, 5), "a tag has no comma", None),
        ("is:foo", (3, 6), "`is` is never 'foo'", "known: trouble, ended"),
        ("not is:stared", (7, 13), "`is` is never 'stared'", "did you mean starred?"),
        ("is:z*", (3, 5), "`is` is never 'z*'", None),
        ("state=nonsense", (6, 14), "`state` is never 'nonsense'", "known: preparing"),
        ("state!=runing", (7, 13), "`state` is never 'runing'", "did you mean running?"),
        ("state=run", (6, 9), "`state` is never 'run'", None),
        ("state:failed,running", (6, 20), "`state` is never 'failed,running'", None),
        ("archived:maybe", (9, 14), "`archived` is yes or no", None),
        ("min(losss)", (0, 10), "`min(losss)` is not compared with a value", "min(losss)<0.4"),
        ("a Max(loss) b", (2, 11), "`Max(loss)` is not compared with a value", None),
        ("min(min(loss))<1", (0, 7), "`min(` takes the name of one metric", "min(eval_loss)<0.4"),
        ("min()<1", (0, 5), "`min()` is not compared with a value", None),
        ("max(a b)<1", (0, 5), "`max(` takes the name of one metric", None),
        ("max(Losss)<1", (0, 10), "no run has a metric called `Losss`", "loss"),
        ("0<loss", (0, 6), "a comparison begins with its key", "loss<0.4"),
        ("0 < loss", (2, 3), "a comparison begins with its key", None),
        ("-<0.4", (1, 5), "a comparison begins with its key", "in quotes"),
        ("<0.4", (0, 4), "a comparison begins with its key", None),
        ("mean(loss)<1", (10, 12), "a comparison begins with its key", None),
        ("tag:", (0, 4), "a value is missing after `tag:`", None),
        ("tag: arc", (0, 4), "a value is missing after `tag:`", None),
        ("loss<", (0, 5), "a value is missing after `loss<`", None),
        ("(loss<1", (0, 1), "a `(` without its `)`", None),
        ("loss<1)", (6, 7), "a `)` without its `(`", None),
        ("a ()", (2, 4), "nothing stands in the brackets", None),
        ('name:"a b', (5, 6), 'a `"` without its second `"`', None),
        ('""', (0, 2), "the text in quotes is empty", None),
        ("or tag:a", (0, 2), "nothing stands before `or`", "in quotes"),
        ("tag:a or", (6, 8), "nothing follows `or`", None),
        ("tag:a or or b", (6, 8), "nothing follows `or`", None),
        ("and a", (0, 3), "nothing stands before `and`", None),
        ("a and", (2, 5), "nothing follows `and`", None),
        ("a not", (2, 5), "nothing follows `not`", None),
        ("(a or)", (3, 5), "nothing follows `or`", None),
        ("(not)", (1, 4), "nothing follows `not`", None),
        ("(-)", (1, 2), "nothing follows `-`", None),
        ("(" * 60 + "a" + ")" * 60, None, f"more than {DEEPEST} levels of brackets", None),
        ("-" * 60 + "a", None, f"more than {DEEPEST} levels of brackets", None),
        ("a" * (LONGEST + 1), None, "the filter has 4,001 characters; the most is 4,000", None),
    ],
)  # fmt: skip
def test_an_error_points_into_the_text(
    text: str, place: tuple[int, int] | None, sentence: str, hint: str | None
) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text, lambda: VOCABULARY)
    error = caught.value
    assert error.sentence == sentence
    assert hint is None or hint in (error.hint or "")
    assert error.exit_code == 2
    if place is not None:
        assert (error.start, error.end) == place
        first, shown, marks = str(error).splitlines()
        assert first == sentence
        assert shown[marks.index("^") : marks.rindex("^") + 1] == text[slice(*place)]


def test_an_error_is_inert_and_short() -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter("x" * 2000 + " loss<\x1b]52;c;x\x07\u202e" + "y" * 1000, lambda: VOCABULARY)
    assert not {"\x1b", "\x07", "\u202e"} & set(str(caught.value))
    assert len(str(caught.value)) < 1200


def test_the_vocabulary_is_asked_only_for_what_is_no_fact_of_a_run() -> None:
    def never() -> Vocabulary:
        raise AssertionError

    for name, key in RUN_KEYS.items():
        assert resolve(name, never) is key
    compile_filter("qwen loss<1 tag:a starred (host:b or age<2d)", never)


@pytest.mark.parametrize(
    ("word", "name", "source"),
    [
        ("lr", "train.learning_rate", "setting"),
        ("LOSS", "loss", "run"),
        ("max_length", "train.max_length", "setting"),
        ("lora.r", "lora.r", "setting"),
        ("eval_loss", "eval_loss", "metric"),
        ("max(eval_loss)", "max(eval_loss)", "metric"),
        ("min(loss)", "min(loss)", "metric"),
        ("grad_norm", "grad_norm", "metric"),
    ],
)
def test_a_key_is_found_by_name_alias_and_last_part(word: str, name: str, source: str) -> None:
    key = resolve(word, lambda: VOCABULARY)
    assert (key.name, key.source) == (name, source)


def test_the_alias_of_a_setting_yields_to_a_setting_of_that_name() -> None:
    assert resolve("lr", lambda: Vocabulary(frozenset({"arguments.lr"}))).name == "arguments.lr"
    with pytest.raises(UnknownKey):
        resolve("lr2", lambda: Vocabulary(frozenset({"arguments.lr"})))


def test_a_filter_says_what_it_needs() -> None:
    needs = compile_filter("cost>3 lr>1 best<2 age<1d is:trouble", lambda: VOCABULARY)
    assert (needs.is_timed, needs.names_archive) == (True, False)
    assert {key.name for key in needs.keys if key.source != "run"} == {"train.learning_rate", "min(eval_loss)"}
    plain = compile_filter("tag:a", lambda: VOCABULARY)
    assert not plain.is_timed
    for text in ("archived", "-archived", "is:archived", "archived:no"):
        assert compile_filter(text, lambda: VOCABULARY).names_archive


_PARTS = (
    "loss<0.4",
    "tag:arc",
    "(",
    ")",
    "or",
    "and",
    "not",
    "-",
    "!",
    '"',
    '"a b"',
    " ",
    "lr>1e-5",
    "min(eval_loss)<1",
    "x:",
)
_parts = st.lists(st.sampled_from((*_PARTS, "<", "qwen*", "[", "\\", "\x00")), max_size=14)


@given(st.one_of(st.text(max_size=60), _parts.map(" ".join), _parts.map("".join)))
def test_any_text_is_a_filter_or_is_refused_with_a_place_inside_it(text: str) -> None:
    try:
        outcome: object = compile_filter(text, lambda: VOCABULARY).matches(subject())
    except FilterError as error:
        str(error).encode()
        outcome = 0 <= error.start < error.end <= len(text) + 1 or "outside"
    assert outcome in (True, False)


_leaves = st.sampled_from(["starred", "tag:arc", "loss>1", "nothing"])
_trees = st.recursive(_leaves, lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner), max_leaves=12)


@given(_trees)
def test_and_or_and_brackets_mean_what_python_means(tree: Any) -> None:
    def text(node: Any) -> str:
        return node if isinstance(node, str) else f"({text(node[1])} {node[0]} -{text(node[2])})"

    def value(node: Any) -> bool:
        if isinstance(node, str):
            return node in ("starred", "tag:arc")
        first, second = value(node[1]), not value(node[2])
        return (first and second) if node[0] == "and" else (first or second)

    assert matches(text(tree)) is value(tree)


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("id", "qwen-lora-aaaaaa"), ("tag", "arc, Größe"), ("loss", "0.31"), ("lr", "2e-05"), ("cost", "$4.00"), ("age", "2 d 0 h"),
        ("log", "12.0 MB"), ("progress", "50%"), ("starred", "yes"), ("archived", ""), ("eval_loss", "0.41"),
        ("data.train.path", "a.jsonl, b.jsonl"),
        ("exit_code", ""), ("step", "50"), ("forecast", ""), ("max(eval_loss)", ""),
    ],
)  # fmt: skip
def test_a_cell_shows_a_value(word: str, shown: str) -> None:
    assert cell(resolve(word, lambda: VOCABULARY), subject()) == shown


def test_the_forecast_of_a_run_is_its_cost_at_its_last_step() -> None:
    running = subject(
        state="running", ended_at=None, started_at=NOW - 7200, created_at=NOW - 7200, step_time_s=72.0, observed_at=NOW
    )
    assert cell(resolve("forecast", lambda: VOCABULARY), running) == "$6.00"
    assert matches("forecast>5 forecast<=6", running)
    assert not matches("forecast>0"), "it has ended"


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e308, -0.0, 10**18, "\x1b[31m" + "x" * 500, ("a\nb",)])
def test_a_cell_of_a_hostile_value_is_one_inert_line(value: Any) -> None:
    key = resolve("lr", lambda: VOCABULARY)
    shown = cell(key, Subject(run_of(), NOW, facts={"train.learning_rate": value}))
    assert len(shown) <= 60
    assert shown.isprintable() or "�" in shown
    assert "\x1b" not in shown
    assert cell(RUN_KEYS["created"], Subject(run_of(created_at=1e300), NOW)) == ""


def test_an_empty_filter_is_true_of_every_run() -> None:
    assert parse("  ") == parse("")
    assert issubclass(FilterError, ArmadaError)
