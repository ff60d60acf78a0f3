"""What is believed of a batch system's word when the job's own records say something else: the table, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from armada_agent.verdicts import liveness
from armada_agent.verdicts.liveness import BEGUN, GOES_BACK, UNBEGUN

DAY_S = 86_400.0


def watch(word: str, *, lasted_s: float, silent_s: float, looks: int, changed_s: float | None = None) -> dict[str, Any]:
    """What a reader remembers at second 0 of its clock."""
    changed = None if changed_s is None else -changed_s
    told = {"word": word, "since": -lasted_s, "heard": 0.0, "looks": looks, "answer": looks}
    return {**told, "sign": "s", "still": -silent_s, "changed": changed}


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("missing while it writes", watch("missing", lasted_s=0, silent_s=0, looks=9, changed_s=5), BEGUN, "running"),
    ("missing for days, written since", watch("missing", lasted_s=DAY_S, silent_s=59, looks=99, changed_s=59), BEGUN, "running"),
    ("missing, silent for two minutes", watch("missing", lasted_s=120, silent_s=120, looks=9, changed_s=120), BEGUN, "unknown"),
    ("missing and silent, looked at twice", watch("missing", lasted_s=DAY_S, silent_s=DAY_S, looks=2), BEGUN, "unknown"),
    ("missing and silent", watch("missing", lasted_s=180, silent_s=180, looks=3), BEGUN, "ask"),
    ("missing, never begun, too soon", watch("missing", lasted_s=29, silent_s=29, looks=9), UNBEGUN, "unknown"),
    ("missing, never begun", watch("missing", lasted_s=45, silent_s=45, looks=3), UNBEGUN, "ask"),
    ("ended while it writes", watch("ended", lasted_s=DAY_S, silent_s=10, looks=99, changed_s=10), BEGUN, "running"),
    ("ended, not seen for long enough", watch("ended", lasted_s=179, silent_s=179, looks=9), BEGUN, "ending"),
    ("ended and silent", watch("ended", lasted_s=180, silent_s=180, looks=2, changed_s=180), BEGUN, "ended"),
    ("ended, said once", watch("ended", lasted_s=DAY_S, silent_s=DAY_S, looks=1), BEGUN, "ending"),
    ("ended, never begun", watch("ended", lasted_s=30, silent_s=30, looks=2), UNBEGUN, "ended"),
    ("ended, never begun, too soon", watch("ended", lasted_s=29, silent_s=29, looks=9), UNBEGUN, "ending"),
    ("ended while it goes back", watch("ended", lasted_s=59, silent_s=59, looks=9), GOES_BACK, "unknown"),
    ("ended a moment after it left", watch("ended", lasted_s=5, silent_s=5, looks=9, changed_s=5), GOES_BACK, "unknown"),
    ("ended although it was to go back", watch("ended", lasted_s=60, silent_s=60, looks=2), GOES_BACK, "ended"),
    ("ended although it was to go back, said once", watch("ended", lasted_s=60, silent_s=60, looks=1), GOES_BACK, "ending"),
    ("held, to go back", watch("held", lasted_s=0, silent_s=0, looks=1, changed_s=0), GOES_BACK, "held"),
    ("running again", watch("running", lasted_s=0, silent_s=0, looks=1, changed_s=0), GOES_BACK, "running"),
    ("missing while it goes back", watch("missing", lasted_s=179, silent_s=179, looks=9), GOES_BACK, "unknown"),
    ("missing although it was to go back", watch("missing", lasted_s=180, silent_s=180, looks=9), GOES_BACK, "ask"),
    ("pending while it writes", watch("pending", lasted_s=0, silent_s=0, looks=1, changed_s=0), BEGUN, "running"),
    ("pending, not seen for long enough", watch("pending", lasted_s=0, silent_s=0, looks=1), BEGUN, "unknown"),
    ("pending and silent: its node died", watch("pending", lasted_s=60, silent_s=60, looks=1), BEGUN, "pending"),
    ("pending, its supervisor left", watch("pending", lasted_s=0, silent_s=0, looks=1, changed_s=0), GOES_BACK, "pending"),
    ("held while it writes", watch("held", lasted_s=0, silent_s=0, looks=1, changed_s=0), BEGUN, "running"),
    ("held and silent", watch("held", lasted_s=60, silent_s=60, looks=1), BEGUN, "held"),
    ("running, whatever else", watch("running", lasted_s=0, silent_s=DAY_S, looks=1), BEGUN, "running"),
    ("running, its last sign a moment ago", watch("running", lasted_s=0, silent_s=0, looks=1), BEGUN, "running"),
    ("ending, whatever else", watch("ending", lasted_s=0, silent_s=0, looks=1, changed_s=0), BEGUN, "ending"),
    ("nothing to be known, and it writes", watch("unknown", lasted_s=0, silent_s=0, looks=1, changed_s=0), BEGUN, "unknown"),
    ("nothing to be known", watch("unknown", lasted_s=DAY_S, silent_s=DAY_S, looks=99), BEGUN, "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "wrote", "believed"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_signs_of_life_outrank_the_scheduler(seen: dict[str, Any], wrote: str, believed: str) -> None:
    assert liveness.judge(seen, 0.0, wrote, 15.0) == believed


@pytest.mark.parametrize(
    ("lasted_s", "is_whole", "accounting", "believed"),
    [
        (200.0, True, None, "gone"),
        (200.0, BEGUN, "ended", "ended"),
        (200.0, BEGUN, "running", "unknown"),
        (200.0, BEGUN, "pending", "unknown"),
        (200.0, BEGUN, "unknown", "unknown"),
        (3600.0, BEGUN, "running", "gone"),  # accounting may never hear of an end
        (200.0, False, None, "unknown"),
        (200.0, UNBEGUN, "ended", "ended"),
        (3600.0, False, None, "gone"),
    ],
)
def test_a_job_is_gone_only_where_nothing_contradicts_it(
    lasted_s: float, is_whole: bool, accounting: str | None, believed: str
) -> None:
    assert liveness.confirm(lasted_s, is_whole, accounting) == believed


@pytest.mark.parametrize(
    ("ages_s", "doubted", "dated"),
    [
        ([5.0, DAY_S], False, "fresh"),
        ([DAY_S, 180.0], False, "fresh"),
        ([-180.0], False, "fresh"),  # the clocks of two machines, never quite the same
        ([-DAY_S, 5.0], False, "fresh"),  # its log was written before the clock was set back, and it still writes
        ([5.0, DAY_S], True, "doubtful"),  # the clock was set back while it was silent
        ([-181.0], False, "doubtful"),
        ([-DAY_S, DAY_S], True, "doubtful"),
        ([-DAY_S, DAY_S], False, "doubtful"),
        ([181.0, DAY_S], False, "silent"),
        ([DAY_S], True, "silent"),
    ],
)
def test_a_date_later_than_now_is_no_sign_of_life(ages_s: list[float], doubted: bool, dated: str) -> None:
    assert liveness.judge_dates(ages_s, doubted) == dated


def test_a_change_of_the_signs_begins_the_count_anew() -> None:
    seen = liveness.follow(None, 0.0, "missing", 1, "a")
    for moment in range(1, 100):
        seen = liveness.follow(seen, moment * 60.0, "missing", moment, "a" if moment < 50 else "b")
    assert (seen["since"], seen["looks"], seen["changed"]) == (3000.0, 50, 3000.0)


def test_one_answer_read_often_is_one_look() -> None:
    seen = liveness.follow(None, 0.0, "missing", "the same", "a")
    for moment in range(1, 100):
        seen = liveness.follow(seen, moment * 60.0, "missing", "the same", "a")
    assert seen["looks"] == 1
    assert liveness.judge(seen, 6000.0, BEGUN, 15.0) == "unknown"


WATCH = {"word": "ended", "since": 0.0, "looks": 2, "answer": 0, "sign": "a", "still": 0.0, "changed": None}
LACKING = [{key: value for key, value in WATCH.items() if key != lacking} for lacking in WATCH]
WRONG = [{**WATCH, key: "x"} for key in ("since", "heard", "looks", "still", "changed")]


@pytest.mark.parametrize("damaged", [None, {}, {**WATCH, "word": 7}, *LACKING, *WRONG])
def test_a_reader_without_a_memory_concludes_nothing(damaged: dict[str, Any] | None) -> None:
    seen = liveness.follow(damaged, 5.0, "ended", 1, "a")
    assert (seen["since"], seen["still"], seen["looks"], seen["changed"]) == (5.0, 5.0, 1, None)
    assert liveness.judge(seen, 5.0, BEGUN, 0.0) == "ending"


def test_a_clock_that_went_back_begins_the_count_anew() -> None:
    seen = liveness.follow(liveness.follow(None, 1000.0, "missing", 1, "a"), 10.0, "missing", 2, "a")
    assert (seen["since"], seen["still"], seen["looks"]) == (10.0, 10.0, 1)


@pytest.mark.parametrize(("word", "wrote"), [("ended", GOES_BACK), ("missing", UNBEGUN)])
def test_the_silence_of_a_scheduler_repeats_nothing(word: str, wrote: str) -> None:
    seen = None
    for moment in (0.0, 5.0, 10.0, *(10.0 + 60.0 * look for look in range(100))):
        seen = liveness.follow(seen, moment, word, min(moment, 10.0), "a")
    assert seen is not None
    assert liveness.judge(seen, 6000.0, wrote, 0.0) == "unknown"
    seen = liveness.follow(seen, 6000.0, word, 6000.0, "a")
    assert liveness.judge(seen, 6000.0, wrote, 0.0) == {"ended": "ended", "missing": "ask"}[word]


@pytest.mark.parametrize(
    ("given_s", "believed"), [(60.0, "unknown"), (0.0, "unknown"), (61.0, "ended"), (9e9, "ended")]
)
def test_an_answer_that_was_kept_is_as_old_as_it_is_when_it_is_read(given_s: float, believed: str) -> None:
    seen = liveness.follow(None, 1.0, "ended", 1, "a")
    seen = liveness.follow(seen, 6000.0, "ended", 2, "a", given_s)
    assert liveness.judge(seen, 6000.0, GOES_BACK, 15.0) == believed


def test_an_agent_of_before_did_not_note_when_it_last_heard() -> None:
    before = {
        key: value for key, value in watch("ended", lasted_s=DAY_S, silent_s=DAY_S, looks=9).items() if key != "heard"
    }
    assert liveness.judge(before, 0.0, GOES_BACK, 15.0) == "unknown"
    assert liveness.judge(liveness.follow(before, 1.0, "ended", "new", "s"), 1.0, GOES_BACK, 15.0) == "ended"


def test_two_looks_at_one_moment_are_two_looks() -> None:
    seen = liveness.follow(liveness.follow(None, 10.0, "missing", 1, "a"), 10.0, "missing", 2, "a")
    assert seen["looks"] == 2


def test_another_word_begins_its_own_count_and_keeps_the_silence() -> None:
    seen = liveness.follow(liveness.follow(None, 0.0, "missing", 1, "a"), 500.0, "ended", 2, "a")
    assert (seen["since"], seen["looks"], seen["still"]) == (500.0, 1, 0.0)


def test_a_line_of_a_log_that_stays_is_believed_at_its_first_reading() -> None:
    seen = watch("ended", lasted_s=0, silent_s=180, looks=1)
    assert liveness.judge(seen, 0.0, BEGUN, 2.0, needs_looks=False) == "ended"


@pytest.mark.parametrize(("lasted_s", "believed"), [(0, "unknown"), (59, "unknown"), (60, "ask"), (DAY_S, "ask")])
def test_the_queue_is_asked_about_a_job_that_went_back_and_that_its_log_calls_removed(
    lasted_s: float, believed: str
) -> None:
    seen = watch("ended", lasted_s=lasted_s, silent_s=lasted_s, looks=1)
    assert liveness.judge(seen, 0.0, GOES_BACK, 2.0, needs_looks=False) == believed
