"""Rows as people have them: ShareGPT, Alpaca, other columns, templates and tables; what is wrong is named with its line."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from armada_train.data.columns import Columns
from armada_train.data.rows import read_source
from armada_train.data.templates import MOST_STEPS
from armada_train.data.turns import describe_lack_of_tools
from armada_train.failure import PayloadFailure
from armada_train.specification import forms
from armada_train.specification.objectives import KINDS
from armada_train.specification.section import Section
from armada_train.specification.values import Source

from armada.config import data as config
from armada.config.data import Data
from armada.config.experiments import load_experiment
from armada.errors import ConfigError
from armada.launch.training.dataset import DataFacts, check_data, payload_source

ALPACA = {"instruction": "Add.", "input": "1 and 2", "output": "3"}
SHAREGPT = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}


def settings(tmp_path: Path, content: str | bytes, name: str, **written: Any) -> Data:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return Data.model_validate({"train": [{"path": str(file)}], **written}, context={"folder": tmp_path})


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def check(
    tmp_path: Path, content: str | bytes, name: str = "rows.jsonl", task: str = "sft", **written: Any
) -> DataFacts:
    return check_data(settings(tmp_path, content, name, **written), task)


def read(
    tmp_path: Path, content: str | bytes, name: str = "rows.jsonl", task: str = "sft", **written: Any
) -> list[dict[str, Any]]:
    data = settings(tmp_path, content, name, **written)
    return read_source(payload_source(data, data.train[0]), Counter(), KINDS[task])[1]


def refused(tmp_path: Path, content: str | bytes, name: str = "rows.jsonl", **written: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check(tmp_path, content, name, **written)
    assert str(caught.value.path) == str(tmp_path / name)
    return caught.value


def test_home_and_host_know_the_same_names() -> None:
    assert get_args(config.Format) == tuple(forms.FORMATS)
    assert set(get_args(config.Column)) == set(forms.COLUMNS)
    assert get_args(config.Templated) == forms.TEMPLATED


def test_alpaca_and_sharegpt_are_known_by_their_columns_and_become_chats(tmp_path: Path) -> None:
    rows = lines(ALPACA, {**ALPACA, "input": "", "system": "Be short.", "history": [["Hi", "Hello"]]})
    assert check(tmp_path, rows).looks == ("Alpaca",)
    first, second = read(tmp_path, rows)
    assert first["messages"][0] == {"role": "user", "content": "Add.\n1 and 2"}
    assert [(turn["role"], turn["content"]) for turn in second["messages"]] == [
        ("system", "Be short."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Add."), ("assistant", "3")
    ]  # fmt: skip
    assert check(tmp_path, lines(SHAREGPT)).looks == ("ShareGPT",)
    assert read(tmp_path, lines(SHAREGPT))[0]["messages"][1] == {"role": "assistant", "content": "b"}


def test_a_stated_format_decides_where_columns_say_several_things(tmp_path: Path) -> None:
    row = {**ALPACA, "text": "Below is an instruction."}
    assert check(tmp_path, lines(row)).kind == "text"
    assert check(tmp_path, lines(row), format="alpaca").kind == "messages"
    ignored: Counter[str] = Counter()
    Columns(forms.Form("alpaca"), "here", is_table=False).apply(row, "here", ignored, KINDS["sft"])
    assert ignored == {"text": 1}


def test_columns_are_renamed_and_a_template_makes_what_is_trained_on(tmp_path: Path) -> None:
    row = {"question": "Far?", "answer": "No.", "prompt": "unused"}
    assert read(tmp_path, lines(row), columns={"question": "prompt", "answer": "completion"}) == [
        {"prompt": "Far?", "completion": "No."}
    ]
    template = {"prompt": "Q: {{ question }}\n", "completion": '{{ answer | trim }}{{ row["answer"] | length }}'}
    assert read(tmp_path, lines(row), template=template) == [{"prompt": "Q: Far?\n", "completion": "No.3"}]
    text = "{% for key, value in row | items %}\n  {% if value %}{{ key ~ '=' ~ value }};{% endif %}\n{% endfor %}"
    assert read(tmp_path, lines(row), template=text) == [{"text": "question=Far?;answer=No.;prompt=unused;"}]
    judged = {"q": "a", "a": "b", "good": True}
    made = read(
        tmp_path,
        lines(judged),
        task="kto",
        columns={"good": "label"},
        template={"prompt": "{{ q }}", "completion": "{{ a | tojson }}"},
    )
    assert made == [{"prompt": "a", "completion": '"b"', "label": True}]


def test_prompts_keep_their_columns_whatever_makes_them(tmp_path: Path) -> None:
    row = {"question": "Far?", "answer": "No."}
    forms_of_it: list[dict[str, Any]] = [
        {"columns": {"question": "prompt"}},
        {"template": {"prompt": "{{ question }}"}},
    ]
    for form in forms_of_it:
        (made,) = read(tmp_path, lines(row), task="grpo", format="prompt", **form)
        assert (made["prompt"], made["columns"]["answer"], made["at"]) == ("Far?", "No.", "rows.jsonl:1")


def test_a_source_may_say_other_things_than_all(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines({"q": "x", "a": "y"}))
    (tmp_path / "b.jsonl").write_text(lines({"frage": "x", "antwort": "y"}))
    content = {
        "columns": {"q": "prompt", "a": "completion"},
        "train": [{"path": "a.jsonl"}, {"path": "b.jsonl", "columns": {"frage": "prompt", "antwort": "completion"}}],
    }
    facts = check_data(Data.model_validate(content, context={"folder": tmp_path}))
    assert (facts.rows, facts.kind) == (2, "prompt_completion")


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz"])
def test_tables_are_read_with_quotes_line_breaks_and_a_byte_order_mark(tmp_path: Path, name: str) -> None:
    sign = "\t" if "tsv" in name else ","
    text = f'\ufeffprompt{sign}completion\r\n"a {sign} ""b""\r\nc"{sign}d\r\n'
    content = gzip.compress(text.encode()) if name.endswith("gz") else text
    assert read(tmp_path, content, name) == [{"prompt": f'a {sign} "b"\r\nc', "completion": "d"}]


def test_cells_of_tables_are_more_than_text_where_a_column_needs_it(tmp_path: Path) -> None:
    judged = "prompt,completion,label\na,b,TRUE\nc,d,0\n"
    assert [row["label"] for row in read(tmp_path, judged, "rows.csv", task="kto")] == [True, False]
    chats = 'messages\n"[{""role"": ""user"", ""content"": ""a""}, {""role"": ""assistant"", ""content"": ""b""}]"\n'
    assert read(tmp_path, chats, "rows.csv")[0]["messages"][1]["content"] == "b"
    alpaca = ",instruction,input,output\n0,Add.,,3\n"  # pandas writes its index without a name
    assert read(tmp_path, alpaca, "rows.csv")[0]["messages"][0]["content"] == "Add."


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("prompt,completion\na,b\nc\n", 3, "the row has 1 values, and the header names 2 columns"),
        ('prompt,completion\n"a\nb",c\nd,e,f\n', 4, "the row has 3 values"),
        ('prompt,completion\na,b\n"c,d\ne,f\n', 3, "a quote opens a value here and is never closed"),
        ('prompt,completion\n"a"b,c\n', 2, "text follows the quote that closes a value"),
        ("prompt,completion\na,b\n\nc,d\n", 3, "it is empty, and more rows follow"),
        (b"prompt,completion\na,b\ncaf\xe9,d\n", 3, "byte 0xe9 at 4 is not UTF-8"),
        ("prompt,completion\na,b\n".encode("utf-16"), 1, "the file is UTF-16, not UTF-8"),
        ("prompt,prompt\na,b\n", 1, "the header names the column prompt twice"),
        ("prompt,completion\ra,b\r", 1, "a line ends with a carriage return alone"),
        ("prompt;completion\na;b\n", 1, "the header names one column"),
        ("", 1, "it has no header"),
        ("prompt,completion\n", None, "it has no rows"),
        ("question,completion\na,b\n", 2, "`prompt` is missing beside `completion`"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, line: int | None, words: str
) -> None:
    error = refused(tmp_path, content, "rows.csv")
    assert words in error.message
    assert error.line == line


@pytest.mark.parametrize(
    ("row", "written", "words", "hint"),
    [
        ({"q": "a", "r": "b"}, {"columns": {"x": "prompt"}}, 'names "x", and the row has no such', 'it has "q", "r"'),
        ({"q": "a", "text": "b"}, {"columns": {"x": "system"}}, 'names "x", and no row has it', '"q", "text"'),
        (ALPACA, {"format": "sharegpt"}, "`format: sharegpt` needs `conversations`, and the row has", "their name"),
        ({**ALPACA, "output": " "}, {}, "`output` is empty, so there is nothing to train on", "leave"),
        ({**ALPACA, "output": 3}, {}, "`output` must be text, not 3", None),
        ({**ALPACA, "history": "a"}, {}, "`history` must be a list of [instruction, output]", None),
        ({"q": "a"}, {"template": "{{ answer }}"}, "`template` (text): 'answer' is undefined", 'the row has "q"'),
        ({"q": None}, {"template": "{{ q }}"}, "it would print a value that is null", None),
        ({"q": ""}, {"template": {"prompt": "a", "completion": "{{ q }}"}}, "makes an empty `completion`", "leave"),
        ({"q": "a"}, {"template": "{{ q.__class__.__mro__ }}"}, "access to attribute '__class__'", None),
        ({"q": "a"}, {"template": "{{ q.format_map(row) }}"}, "access to attribute 'format_map'", None),
        ({"q": "a"}, {"template": "{{ cycler.__init__.__globals__ }}"}, "access to attribute '__init__'", None),
        ({"q": "a"}, {"template": "{% include 'x' %}"}, "no loader", None),
        ({"q": "a"}, {"template": "{% for x in q recursive %}{{ loop(q) }}{% endfor %}"}, "`recursive` loops", None),
        ({"q": "a"}, {"template": "{{ '%99999999999d' % 1 }}"}, "`%` is for numbers", None),
        ({"q": "a"}, {"template": "{{ q | random }}"}, "No filter named 'random'", None),
        ({"q": "a"}, {"template": "{{ q + 1 }}"}, "TypeError", None),
        ({"q": "a"}, {"template": "{{ q * 99999999999 }}"}, "longer than 16 million characters", None),
        ({"q": "a"}, {"template": "{{ 9 ** 9 ** 9 ** 9 }}"}, "a number is too large", None),
        (
            {"q": "a"},
            {"template": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"},
            f"more than {MOST_STEPS:,} steps",
            None,
        ),
        (
            {"q": "a"},
            {"template": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}"},
            "needs too much memory",
            None,
        ),
        (
            {"q": "abcd"},
            {"template": "{% set n = namespace(t=q) %}{% for i in range(99) %}{% set n.t = n.t ~ n.t %}{% endfor %}"},
            "longer than 16 million characters",
            None,
        ),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_line(
    tmp_path: Path, row: dict[str, Any], written: dict[str, Any], words: str, hint: str | None
) -> None:
    error = refused(tmp_path, lines(row), **written)
    assert words in error.message
    assert hint is None or hint in (error.hint or "")


def test_a_format_of_another_task_is_refused(tmp_path: Path) -> None:
    assert "needs" in refused(tmp_path, lines(ALPACA), task="dpo", format="preference").message


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"columns": {"a": "prompt", "b": "prompt"}}, "maps both 'a' and 'b' to prompt"),
        ({"columns": {"prompt": "question"}}, "is the wrong way round: your column comes first"),
        ({"columns": {"a": "promt"}}, "columns"),
        ({"format": "csv"}, "format"),
        ({"template": "{{ a "}, "is not Jinja (line 1)"),
        ({"template": {"completion": "{% for %}"}}, "is not Jinja (completion, line 1)"),
        ({"template": {"label": "1"}}, "template"),
    ],
)
def test_settings_that_cannot_be_are_refused(written: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Data.model_validate({"train": [{"hub": "a/b"}], **written})


def test_a_hook_takes_no_form_and_sources_say_theirs() -> None:
    with pytest.raises(ValueError, match="does not go with a hook"):
        Data.model_validate({"train": [{"hook": "a:b", "format": "text"}]})
    assert Source(Path("a")).form.digest == ""
    assert forms.Form("text").digest != forms.Form(template={"text": "a"}).digest


@pytest.mark.parametrize("name", ["rows.json", "rows.json.gz"])
def test_a_list_of_rows_is_read_like_lines(tmp_path: Path, name: str) -> None:
    text = json.dumps([ALPACA, {**ALPACA, "output": "é]["}], indent=2)
    content = gzip.compress(text.encode()) if name.endswith("gz") else text
    assert [row["messages"][1]["content"] for row in read(tmp_path, content, name)] == ["3", "é]["]
    assert check(tmp_path, "\n [ ]".replace("]", json.dumps(ALPACA) + "]"), "rows.json").rows == 1


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ('[\n {"text": "a"},\n {"text": 5}\n]', 3, "`text` must be text, not 5"),
        ('[\n {"text": "a"},\n {"text": \n}\n]', 4, "not JSON: Expecting value (column 1)"),
        ('[\n {"text": "a"}\n {"text": "b"}\n]', 3, "without a comma, or ends without `]`"),
        ('[\n {"text": "a"}\n', 3, "without a comma, or ends without `]`"),
        ('[{"text": "a"},\n]', 2, "not JSON: Expecting value"),
        ('[{"text": "a"}]\n[{"text": "a"}]', 2, "more follows its end"),
        ('[{"text": NaN}]', 1, "NaN is not JSON"),
        (b'[{"text": "a"},\n{"text": "\xff"}]', 2, "byte 0xff is not UTF-8"),
        ("[" * 100_000, 1, "nested too deeply"),
        ("[]", None, "it has no rows"),
        ("[1]", 1, "a row must be a JSON object, not 1"),
    ],
)
def test_a_bad_list_is_refused_with_its_line(
    tmp_path: Path, content: str | bytes, line: int | None, words: str
) -> None:
    error = refused(tmp_path, content, "rows.json")
    assert words in error.message
    assert error.line == line


CALL = {"function": {"name": "rain", "arguments": '{"city": "Bonn"}'}, "id": "c1"}
ASKED = {"role": "user", "content": "Rain?"}


def called(**changes: Any) -> dict[str, Any]:
    turns = [ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    return {"messages": [*turns, {"role": "tool", "content": "no", "tool_call_id": "c1"}], **changes}


def test_calls_of_tools_are_read_in_every_spelling(tmp_path: Path) -> None:
    tool = {"name": "rain", "parameters": {}}
    (row,) = read(tmp_path, lines(called(tools=json.dumps([tool]))))
    assert row["tools"] == [{"type": "function", "function": tool}]
    _, turn, answer = row["messages"]
    assert turn["tool_calls"] == [
        {"type": "function", "function": {"name": "rain", "arguments": {"city": "Bonn"}}, "id": "c1"}
    ]
    assert (turn["content"], answer) == ("", {"role": "tool", "content": "no", "tool_call_id": "c1"})
    facts = check(tmp_path, lines({"messages": [ASKED, {"role": "assistant", "content": "a"}]}, called()))
    assert facts.tools == (False, True)
    shared = {"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": json.dumps(CALL)}]}
    (row,) = read(tmp_path, lines({**shared, "system": "Be kind.", "tools": ""}))
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
    assert "tools" not in row
    pair = {"prompt": [ASKED], "chosen": called()["messages"][1:2], "rejected": [{"role": "assistant", "content": "?"}]}
    assert "tools" in read(tmp_path, lines({**pair, "tools": [tool]}), task="dpo")[0]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (called(tools="none"), '`tools` must be a list of functions, not "none"'),
        (called(tools=[{"type": "function"}]), "`tools[0]` must be an object with the function's name"),
        (called(tools=[{"name": 5}]), "`tools[0]` must be an object with the function's name"),
        ({"messages": [{**ASKED, "tool_calls": [CALL]}]}, "an assistant calls tools"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "[1]"}]}]},
            "the arguments of f must be an object, not [1]",
        ),
        ({"conversations": [{"from": "function_call", "value": "f(x)"}]}, "must hold a function's name and arguments"),
    ],
)
def test_calls_that_are_none_are_refused_with_their_line(tmp_path: Path, row: dict[str, Any], words: str) -> None:
    error = refused(tmp_path, lines(row))
    assert words in error.message
    assert error.line == 1


@pytest.mark.parametrize(
    ("template", "lacking"),
    [
        ("{{ messages }}", "`tools` and `tool_calls`"),
        ("{% if tools %}{{ tools }}{% endif %}", "`tool_calls`"),
        ("{{ tools }}{{ message.tool_calls }}", None),
    ],
)
def test_a_template_that_leaves_out_tools_is_known(template: str, lacking: str | None) -> None:
    said = describe_lack_of_tools(template, rows_call=True)
    assert said is None if lacking is None else lacking in (said or "")


@pytest.mark.parametrize(
    ("source", "words", "hint"),
    [
        ("{path: 's3://bucket/rows.jsonl'}", "`data.train[0].path` is an address", "download it"),
        ("{path: 'hf://datasets/a/b'}", "`data.train[0].path` is an address", "hub: owner/name"),
        ("{hub: a/b, streaming: true}", "`data.train[0].streaming` is not supported", "leave it out"),
        ("{hub: a/b, template: '{{ x'}", "`data.train[0].template` is not Jinja", ""),
        ("{hub: a/b, columns: {x: promt}}", "data.train[0].columns", ""),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, source: str, words: str, hint: str
) -> None:
    file = tmp_path / "exp.yaml"
    text = f"name: a\ntask: sft\nmodel: {{tiny: {{}}}}\ndata:\n  train:\n    - {source}\n"
    file.write_text(text + "train: {global_batch_size: 2, epochs: 1}\n")
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.line == 6


def test_a_format_that_the_task_does_not_take_is_refused_for_the_hub_too() -> None:
    section = Section({"hub": {"id": "a/b"}, "format": "alpaca"}, "training.data.train[0]")
    form = forms.parse_form(section)
    with pytest.raises(PayloadFailure, match="alpaca does not go with `task: dpo`, which takes preference"):
        forms.refuse_other_format("training.data.train[0]", form, "dpo", KINDS["dpo"])
