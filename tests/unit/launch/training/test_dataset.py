from __future__ import annotations

import json
from pathlib import Path

import pytest
from armada_train.data import readers
from hypothesis import given, settings
from hypothesis import strategies as st

from armada.config.data import Data
from armada.errors import ConfigError
from armada.launch.training.dataset import check_data

CHAT = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
ROWS = {
    "messages": CHAT,
    "conversations": '{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}',
    "prompt_completion": '{"prompt": "a", "completion": "b"}',
    "text": '{"text": "a", "extra": 1}',
}


def data(train: Path, *evaluation: Path) -> Data:
    """The `data:` of an experiment."""
    content = {"train": [{"path": str(train)}], "eval": [{"path": str(path)} for path in evaluation]}
    return Data.model_validate(content, context={"folder": train.parent})


def check_dataset(file: Path) -> int | None:
    return check_data(data(file)).counts[file]


def write(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "d.jsonl"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n", "\n  \n\n"])
def test_each_shape_is_known_whatever_the_end_of_the_file(tmp_path: Path, kind: str, end: str) -> None:
    raw = (f"{ROWS[kind]}\n{ROWS[kind]}" + end).encode()
    assert check_dataset(write(tmp_path, raw)) == 2


def test_what_only_the_host_can_read_is_left_to_it(tmp_path: Path) -> None:
    assert check_dataset(write(tmp_path, b"PAR1....")) is None
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "state.json").write_text("{}")
    assert check_dataset(saved) is None


def test_kinds_mixed_between_files_are_refused(tmp_path: Path) -> None:
    train, evaluation = write(tmp_path, CHAT), tmp_path / "e.jsonl"
    evaluation.write_text(ROWS["text"])
    with pytest.raises(ConfigError, match="training rows have messages, eval rows have text"):
        check_data(data(train, evaluation))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{"messages": [', "not JSON"),
        ("not json", "not JSON: Expecting value (column 1)"),
        (CHAT + CHAT, "not JSON: Extra data"),
        ("[1]", "must be a JSON object, not [1]"),
        ("null", "must be a JSON object, not null"),
        ("{}", "the row has nothing"),
        ('{"question": "a", "answer": "b"}', 'the row has "question", "answer"; it needs messages'),
        ('{"messages": []}', "`messages` must be a filled list of turns, not []"),
        ('{"messages": "a"}', "`messages` must be a filled list"),
        ('{"messages": ["a"]}', "`messages[0]` must be an object with role and content"),
        ('{"messages": [{"role": "user"}]}', "`messages[0].content` must be text, not null"),
        ('{"messages": [{"content": "a"}]}', "`messages[0].role` is null; known roles are system, user"),
        ('{"messages": [{"role": "boss", "content": "a"}]}', '`messages[0].role` is "boss"; known roles are'),
        (
            '{"messages": [{"role": "user", "content": "a"}]}',
            "`messages` has no assistant turn, so there is nothing to train on",
        ),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image", "url": "a"}]}]}',
            "`messages[0].content` is a list of parts, as for images",
        ),
        (
            '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "images": ["cat.png"]}',
            "`images` holds images, and the bundled trainer trains on text alone",
        ),
        (
            '{"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {}}]}]}',
            "`messages[0].tool_calls` must hold a function's name and arguments",
        ),
        (
            '{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}',
            "`prompt` is a list of messages, and must be text",
        ),
        ('{"messages": [{"role": "user", "content": 5}]}', "`messages[0].content` must be text, not 5"),
        ('{"conversations": [{"from": "bot", "value": "a"}]}', '`conversations[0].from` is "bot"; known roles are'),
        ('{"prompt": "a"}', "`completion` is missing beside `prompt`"),
        ('{"completion": "a"}', "`prompt` is missing beside `completion`"),
        ('{"prompt": "a", "completion": 5}', "`completion` must be text, not 5"),
        ('{"prompt": "a", "completion": []}', "`completion` is a list of messages, and must be text"),
        ('{"text": null}', "`text` must be text, not null"),
        ('{"text": "a"}', "this row has text, but earlier ones have messages"),
        ('{"text": NaN}', "NaN is not JSON"),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "half a character"),
        ('{"text": ' + "[" * 100_000, "nested too deeply"),
        ('{"text": ' + "9" * 5000 + "}", "number too long"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: str, words: str) -> None:
    file = write(tmp_path, f"{CHAT}\n" * 16 + row + f"\n{CHAT}\nalso bad\n")
    with pytest.raises(ConfigError) as refused:
        check_dataset(file)
    assert words in refused.value.message
    assert (refused.value.path, refused.value.line) == (file, 17)


def test_a_column_of_images_that_is_empty_or_left_out_by_the_format_is_no_matter(tmp_path: Path) -> None:
    check_dataset(write(tmp_path, CHAT.replace("{", '{"images": [], ', 1) + "\n"))
    with_images = write(tmp_path, CHAT.replace("{", '{"images": ["cat.png"], ', 1) + "\n")
    stated = {"train": [{"path": str(with_images)}], "format": "messages"}
    check_data(Data.model_validate(stated, context={"folder": tmp_path}))


@pytest.mark.parametrize(
    ("raw", "line", "words"),
    [
        (CHAT.encode() + b'\n{"text": "\xff"}\n', 2, "byte 0xff at 11 is not UTF-8"),
        (b"\xef\xbb\xbf" + CHAT.encode(), 1, "byte order mark"),
        (CHAT.encode("utf-16"), 1, "UTF-16"),
        (f"{CHAT}\n\n{CHAT}\n".encode(), 2, "it is empty, and more rows follow"),
        (b"", None, "has no rows"),
        (b"\n \n", None, "has no rows"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, raw: bytes, line: int | None, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_dataset(write(tmp_path, raw))
    assert words in refused.value.message
    assert refused.value.line == line


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist") as refused:
        check_dataset(tmp_path / "none.jsonl")
    assert refused.value.path == tmp_path / "none.jsonl"
    with pytest.raises(ConfigError, match="not a file"):
        check_dataset(tmp_path)


def test_a_file_without_line_ends_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LONGEST_LINE_BYTES", 1000)
    with pytest.raises(ConfigError, match="longer than") as refused:
        check_dataset(write(tmp_path, CHAT + "\n" + "x" * 2000))
    assert refused.value.line == 2


@settings(deadline=None)
@given(
    rows=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5), ascii_only=st.booleans()
)
def test_any_text_counts_as_one_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], ascii_only: bool
) -> None:
    text = "".join(json.dumps({"text": row}, ensure_ascii=ascii_only) + "\n" for row in rows)
    assert check_dataset(write(tmp_path_factory.mktemp("d"), text)) == len(rows)
