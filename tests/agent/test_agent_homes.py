"""What homes say about a run's checkpoints, and what a host keeps for each of them: files alone, without a job."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.session import Call, Session
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths
from armada_agent.runs import outputs

LAPTOP = {"id": "a" * 32, "label": "ann@laptop", "path": "/home/ann"}
DESKTOP = {"id": "b" * 32, "label": "ann@desktop", "path": "/home/ann"}
FIRST, SECOND = "1" * 64, "2" * 64


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return Call(Session(str(tmp_path), "", 1, sys.stdin.buffer, 0), 1)


@pytest.fixture
def run(call: Call) -> RunPaths:
    """A run that was submitted once and has two checkpoints."""
    paths = RunPaths(call.root, "r-1")
    for digest in (FIRST, SECOND):
        Path(paths.checkpoint(digest)).mkdir(parents=True)
        Path(paths.checkpoint(digest, "MANIFEST.json")).write_text("{}")
    Path(paths.submission(1)).mkdir(parents=True)
    Path(paths.submission(1, "claim.json")).write_text("{}")
    Path(paths.spec).write_text("{}")
    return paths


def said(run: RunPaths, home: dict[str, str]) -> dict[str, Any]:
    (found,) = [each for each in homes.describe(run) if each["id"] == home["id"]]
    return found


@pytest.mark.parametrize(
    "told", [7, ["a" * 32], {"id": 7, "label": "", "path": ""}, {"id": "a", "label": "", "path": ""}]
)
def test_a_home_that_cannot_be_one_is_refused(told: object) -> None:
    with pytest.raises(AgentError) as refusal:
        homes.read_asker({"home": told})
    assert refusal.value.kind == "bad_request"
    assert homes.read_asker({}) is None


def test_a_home_is_registered_once_under_its_newest_name_and_only_where_the_run_is(call: Call, run: RunPaths) -> None:
    for label in ("old", "new"):
        homes.register(run, {**LAPTOP, "label": label})
    assert homes.name_of(run, LAPTOP["id"]) == "new (home aaaaaaaa)"
    homes.register(run, None)
    (Path(run.homes) / "a note of somebody").mkdir()
    assert homes.registered_ids(run) == {LAPTOP["id"]}
    elsewhere = RunPaths(call.root, "r-2")
    homes.register(elsewhere, LAPTOP)
    assert not Path(elsewhere.folder).exists()
    assert homes.enroll(call, {"home": DESKTOP, "run_ids": ["r-1", "r-2"]}) == {"runs": ["r-1"]}
    assert homes.enroll(call, {"run_ids": ["r-1"]}) == {"runs": []}
    assert not Path(elsewhere.folder).exists()


def test_a_host_says_for_which_runs_it_could_not_register_a_home(call: Call, run: RunPaths) -> None:
    Path(run.homes).write_text("in the way")
    assert homes.enroll(call, {"home": LAPTOP, "run_ids": ["r-1"]}) == {"runs": []}


def test_a_host_says_why_it_could_not_register_the_home_that_syncs(call: Call, run: RunPaths) -> None:
    asked = {"runs": [{"run_id": "r-1"}], "home": LAPTOP}
    Path(run.homes).write_text("in the way")
    (refused,) = outputs.look(call, asked)["runs"]
    assert refused["unregistered"] == "Not a directory"
    assert "unregistered" not in outputs.look(call, {"runs": asked["runs"]})["runs"][0]  # nobody asked to be
    Path(run.homes).unlink()
    (entry,) = outputs.look(call, asked)["runs"]
    assert "unregistered" not in entry
    full = OSError(errno.ENOSPC, "No space left on device")
    with mock.patch.object(files, "write_json", side_effect=full):
        assert homes.register(run, {**LAPTOP, "label": "renamed"}) is None  # it is, under its former name
        with mock.patch.object(files, "make_within", side_effect=full):
            assert homes.register(run, DESKTOP) == "No space left on device"
        assert homes.register(run, DESKTOP) is None  # a folder without a record counts
        assert homes.registered_ids(run) == {LAPTOP["id"], DESKTOP["id"]}


def test_a_home_has_others_beside_it_whether_they_were_forgotten_or_not(call: Call, run: RunPaths) -> None:
    homes.register(run, LAPTOP)
    assert (homes.has_others(run, LAPTOP), homes.has_others(run, DESKTOP)) == (False, True)
    homes.register(run, DESKTOP)
    homes.forget(call, {"forget": DESKTOP["id"]})
    assert homes.has_others(run, LAPTOP)


def test_each_report_counts_for_its_own_checkpoint_and_the_last_one_for_each(run: RunPaths) -> None:
    homes.note(run, LAPTOP, FIRST, is_wanted=True)
    homes.note(run, DESKTOP, FIRST, is_wanted=False)
    words = homes.read_words(run, FIRST)
    assert (set(words.held_by), set(words.unwanted_by)) == ({LAPTOP["id"]}, {DESKTOP["id"]})
    words = homes.read_words(run, SECOND)
    assert words.registered == {LAPTOP["id"], DESKTOP["id"]}
    assert not words.held_by | words.unwanted_by
    assert (said(run, LAPTOP)["held"], said(run, LAPTOP)["unwanted"]) == ([FIRST], [])
    assert (said(run, DESKTOP)["held"], said(run, DESKTOP)["unwanted"]) == ([], [FIRST])
    homes.note(run, DESKTOP, FIRST, is_wanted=True)
    assert (said(run, DESKTOP)["held"], said(run, DESKTOP)["unwanted"]) == ([FIRST], [])
    homes.drop_words(run, FIRST)
    assert homes.read_words(run, FIRST).held_by == set()


def test_what_is_no_report_counts_for_nothing(run: RunPaths) -> None:
    homes.register(run, LAPTOP)
    for name in (f"{FIRST}.bak", f"{SECOND}.forsaken"):
        (Path(run.home(LAPTOP["id"])) / name).write_text("{}")
    assert (said(run, LAPTOP)["held"], said(run, LAPTOP)["unwanted"]) == ([], [])


def test_another_home_loses_what_it_has_neither_fetched_nor_declined(call: Call, run: RunPaths) -> None:
    for home in (LAPTOP, DESKTOP):
        homes.register(run, home)
    words = "ann@desktop (home bbbbbbbb) has not fetched {} of r-1"
    assert homes.find_lacking(run, LAPTOP) == {DESKTOP["id"]: words.format("2 checkpoints")}
    homes.note(run, DESKTOP, FIRST, is_wanted=True)
    homes.note(run, DESKTOP, SECOND, is_wanted=False)
    assert homes.find_lacking(run, LAPTOP) == {DESKTOP["id"]: words.format("the end of its logs and outputs")}
    homes.settle(call, {"home": DESKTOP, "run_id": "r-1", "digests": [], "submission": 1})
    assert homes.find_lacking(run, LAPTOP) == {}
    third = Path(run.checkpoint("3" * 64))
    third.mkdir()
    (third / "MANIFEST.json").write_text("{}")
    assert homes.find_lacking(run, LAPTOP) == {DESKTOP["id"]: words.format("1 checkpoints")}
    assert homes.find_lacking(run, None).keys() == {LAPTOP["id"], DESKTOP["id"]}


@pytest.mark.parametrize(
    ("told", "settled", "unwanted"),
    [
        ({"submission": 1, "digests": [FIRST]}, True, [FIRST]),
        ({"submission": 0, "digests": []}, False, []),
        ({"submission": "1", "digests": {}}, False, []),
        ({"submission": 1, "digests": [[FIRST], 7, SECOND]}, True, [SECOND]),
        ({"submission": None}, False, []),
        (None, False, []),
    ],
)
def test_a_home_has_all_only_of_the_submission_that_it_names(
    run: RunPaths, told: object, settled: bool, unwanted: list[str]
) -> None:
    homes.register(run, LAPTOP)
    (Path(run.home(LAPTOP["id"])) / "settled.json").write_text(json.dumps(told) if told is not None else "{")
    assert (said(run, LAPTOP)["settled"], said(run, LAPTOP)["unwanted"]) == (settled, unwanted)


@pytest.mark.parametrize(("told", "settled"), [({}, True), ({"submission": 1}, True), ({"submission": 0}, False)])
def test_a_home_that_names_no_submission_means_the_newest(
    call: Call, run: RunPaths, told: dict[str, int], settled: bool
) -> None:
    homes.settle(call, {"home": LAPTOP, "run_id": "r-1", "digests": [], **told})
    assert said(run, LAPTOP)["settled"] is settled


def test_of_a_run_that_was_never_submitted_all_is_had_with_no_number(call: Call, run: RunPaths) -> None:
    Path(run.submission(1, "claim.json")).unlink()
    Path(run.submission(1)).rmdir()
    homes.settle(call, {"home": LAPTOP, "run_id": "r-1", "digests": []})
    assert said(run, LAPTOP)["settled"]


def test_nobody_has_all_of_a_run_without_a_name(call: Call, run: RunPaths) -> None:
    with pytest.raises(AgentError, match="`home` is missing"):
        homes.settle(call, {"run_id": "r-1", "digests": []})
    assert homes.describe(run) == []


def test_only_the_home_that_is_named_is_forgotten_and_only_where_it_was(call: Call, run: RunPaths) -> None:
    Path(RunPaths(call.root, "r-2").folder).mkdir(parents=True)
    for home in (LAPTOP, DESKTOP):
        homes.register(run, home)
    assert homes.forget(call, {"home": LAPTOP, "forget": DESKTOP["id"]}) == {"runs": ["r-1"]}
    assert homes.registered_ids(run) == {LAPTOP["id"]}
    assert homes.forget(call, {"home": LAPTOP, "forget": DESKTOP["id"]}) == {"runs": []}
    homes.register(run, DESKTOP)
    assert homes.registered_ids(run) == {LAPTOP["id"], DESKTOP["id"]}
    for nobody in ("x", 7, None):
        with pytest.raises(AgentError, match="is not the id of a home"):
            homes.forget(call, {"forget": nobody})
