from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armada.config.documents import Document, read_document, read_private_document, yaml_text
from armada.errors import ConfigError


def read(tmp_path: Path, text: str | bytes) -> Document:
    file = tmp_path / "file.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(file)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5e-5", 5e-5),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("0x1f", 31),
        ("0o17", 15),
        ("1_000", 1000),
        ("off", "off"),
        ("yes", "yes"),
        ("on", "on"),
        ("n", "n"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("!!str 5", "5"),
        ('"5"', "5"),
        ("=", "="),
        ("[1, a]", [1, "a"]),
        ("{}", {}),
    ],
)
def test_values_are_those_of_yaml_1_2(tmp_path: Path, written: str, value: object) -> None:
    assert read(tmp_path, f"key: {written}\n").data == {"key": value}


def test_the_line_of_every_key_and_value_is_kept(tmp_path: Path) -> None:
    document = read(tmp_path, "# head\na:\n  b:\n    - 1\n    - c: 2\nd:\ne: 3\n")
    assert document.key_place(("a", "b")).line == 3
    assert document.value_place(("a", "b", 1, "c")).line == 5
    assert document.value_place(("d",)).line == 6
    assert document.value_place(("a", "b", 0, "missing", "more")).line == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "second time"),
        ("a:\n  b: 1\n  b: 2\n", 3, "second time"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("a: 'x\n", 2, "not YAML"),
        ("x: 1\n5: 1\n", 2, "must be text"),
        ("? [a]\n: 1\n", 1, "must be text"),
        ("<<: {a: 1}\n", 1, "merge keys"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("a: !mine [x]\n", 1, "tag"),
        ("a: 010\n", 1, "octal"),
        ("a: !!int five\n", 1, "five"),
        ("a: !!bool maybe\n", 1, "maybe"),
        ('a: "\\0"\n', 1, "NUL"),
        ('a: "\\ud800"\n', 1, "half a character"),
        ("a: 1\nb: \x07\n", 2, "U+0007"),
        ("- a\n", 1, "mapping"),
        ("just text\n", 1, "mapping"),
        ("a: 1\n---\nb: 1\n", 2, "not YAML"),
        ("a: &x [*x]\n", 1, "alias"),
        (b"a: 1\nb: \xff\n", 2, "0xff is not UTF-8"),
        ("a: " + "[" * 600, 1, "nested"),
        ("a: " + "9" * 5000 + "\n", 1, "digits"),
    ],
)
def test_what_is_not_accepted_is_refused_with_its_line(
    tmp_path: Path, text: str | bytes, line: int, words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert words in refused.value.message
    assert refused.value.line == line


def test_a_repeated_anchor_of_a_private_file_is_quoted_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "private.yaml"
    path.write_text("urls: &hunter2 x\non: &hunter2 y\n")
    with warnings.catch_warnings(record=True) as quoted:
        warnings.simplefilter("always")
        assert read_private_document(path).data == {"urls": "x", "on": "y"}
    assert quoted == []


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(ConfigError, match="aliases"):
        read(tmp_path, "\n".join(lines))


def test_an_alias_is_the_value_it_stands_for(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &x {b: 1}\nc: *x\n").data == {"a": {"b": 1}, "c": {"b": 1}}


def test_missing_files_folders_and_huge_files_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_document(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="not a file"):
        read_document(tmp_path)
    with pytest.raises(ConfigError, match="larger than"):
        read(tmp_path, b"a: 1\n" * (1 << 20))


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n", "---\n"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).data == {}


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\n").data == {"a": 1}


_texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
_scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | _texts
_values = st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3))


@settings(deadline=None)
@given(value=st.dictionaries(_texts, _values, max_size=4))
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    assert read(tmp_path_factory.mktemp("yaml"), yaml_text(value)).data == value
