"""What a message refuses, what it reads as not said, and what it says about it."""

from __future__ import annotations

from typing import Annotated

import pytest

from armada.errors import UnexpectedAnswer
from armada.protocol.message import (
    MAY_MISS,
    Count,
    Digest,
    Entries,
    Flag,
    Line,
    Many,
    ManyOrNone,
    Message,
    Misfit,
    RelativePath,
    Request,
    RunId,
    Text,
    UnixTime,
    Unsaid,
    any_word,
    parse,
    word,
)


class Beat(Message):
    step: Unsaid[Count] = None
    phase: Unsaid[Line] = None


class Entry(Message):
    run_id: RunId
    exists: bool
    seen_at: Unsaid[UnixTime] = None
    beat: Unsaid[Beat] = None
    state: Annotated[str, word("on", "off")] = "off"
    shown: Annotated[str, any_word("on", "off")] = "off"
    sizes: Many[Count] = ()
    digests: ManyOrNone[Digest] = ()
    text: Text = ""
    is_new: Flag = False


class Answer(Message):
    runs: Entries[Entry]


class Ask(Request[Answer]):
    method = "entry.ask"
    answer = Answer
    path: RelativePath
    tail: Annotated[int | None, MAY_MISS] = None


def entry(**fields: object) -> Entry:
    return parse(Entry, {"run_id": "a", "exists": True, **fields}, host="box", method="entry.ask")


def test_an_entry_that_does_not_fit_is_refused_alone() -> None:
    said = {"runs": [{"run_id": "a", "exists": True}, {"run_id": "b"}, 5, {"run_id": [], "exists": "yes"}]}
    found = parse(Answer, said, host="box", method="entry.ask").runs
    assert found[0] == entry()
    assert found[1] == Misfit("b", "exists: is missing")
    assert [each.run_id for each in found[2:] if isinstance(each, Misfit)] == [None, None]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "runs: is missing"),
        ({"runs": {}}, "runs: should be a list"),
        ([], "the whole: should be an object"),
        (None, "the whole: should be an object"),
    ],
)
def test_an_answer_that_does_not_fit_names_the_host_the_method_and_the_field(said: object, words: str) -> None:
    with pytest.raises(UnexpectedAnswer) as refused:
        parse(Answer, said, host="box", method="entry.ask")
    assert str(refused.value) == f"box: the answer to entry.ask does not fit: {words}"


def test_what_was_said_is_not_repeated_in_the_error() -> None:
    with pytest.raises(UnexpectedAnswer) as refused:
        entry(run_id="my password\n", sizes=["my password"])
    assert "password" not in str(refused.value)
    assert "(and 1 more)" in str(refused.value)


@pytest.mark.parametrize("step", [-1, 1 << 60, 10**400, True, 1.5, "5", None, [], {}])
def test_an_absurd_number_is_read_as_not_said(step: object) -> None:
    assert entry(beat={"step": step, "phase": "training"}).beat == Beat(step=None, phase="training")


@pytest.mark.parametrize("time", [-1.0, float("nan"), float("inf"), 1e300, 10**400, "now", True])
def test_a_time_that_no_calendar_shows_is_read_as_not_said(time: object) -> None:
    assert entry(seen_at=time).seen_at is None


def test_a_record_that_is_none_is_read_as_not_said() -> None:
    assert entry(beat="garbage").beat is None
    assert entry(digests=["a" * 64, "b"]).digests == ()
    assert entry(is_new="yes").is_new is False


def test_an_unknown_word_is_read_as_unknown_or_kept_to_be_shown() -> None:
    assert entry(state="paused").state == "unknown"
    assert entry(shown="pau\x1b[2Jsed").shown == "pau\ufffd[2Jsed"


def test_texts_are_sanitized_where_they_are_for_a_person_and_kept_where_they_are_data() -> None:
    assert entry(beat={"phase": "a\nb\x07\ud800"}).beat == Beat(phase="a b\ufffd\ufffd")
    assert entry(text="a\nb\ud800").text == "a\nb\ud800"


def test_fields_of_a_newer_side_are_ignored() -> None:
    assert entry(added="later") == entry()


def test_a_request_sends_what_was_given_and_no_more() -> None:
    assert Ask(path="a/b").as_params() == {"path": "a/b"}
    assert Ask(path="a/b", tail=None).as_params() == {"path": "a/b", "tail": None}
