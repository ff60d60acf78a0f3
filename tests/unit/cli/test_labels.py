"""`armada tag`, `group`, `note`, `star` and `archive`: what is recorded, shown, refused, and copied beside the checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from armada.cli.main import run
from armada.cli.shapes import SHAPES, schema_of
from armada.paths import HomePaths
from armada.store import labels, runs
from armada.store.database import Database
from armada.sync.checkpoints.lock import leave

RUNS = {"one-aaaaaa": "succeeded", "two-bbbbbb": "failed", "busy-cccccc": "running"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomePaths:
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = HomePaths.from_environment()
    found.make()
    with Database(found.store) as database:
        for run_id, state in RUNS.items():
            runs.insert(
                database,
                run_id=run_id,
                name=run_id.partition("-")[0],
                host="desk",
                task="sft",
                experiment=None,
                spec={},
            )
            runs.set_state(database, run_id, state)
    return found


def stored(home: HomePaths, run_id: str) -> runs.Run:
    with Database(home.store) as database:
        return runs.find(database, run_id)


def test_tags_are_added_in_order_removed_and_cleared(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tag", "one", "two", "--add", "arc", "--add", "Größe:1"]) == 0
    assert run(["tag", "one", "--add", "arc", "--add", "new", "--remove", "Größe:1", "--remove", "never"]) == 0
    assert stored(home, "one").tags == ("arc", "new")
    assert stored(home, "two").tags == ("arc", "Größe:1")
    assert run(["tag", "two", "--clear", "--add", "only"]) == 0
    capsys.readouterr()
    assert run(["tag", "one", "two", "busy"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "one-aaaaaa: tags arc new",
        "two-bbbbbb: tags only",
        "busy-cccccc: no tags",
    ]


@pytest.mark.parametrize("tag", ["", "-old", "two words", "a\x1b[31m", "#x", "a" * 51, "line\nline", "\u202eevil"])
def test_what_cannot_be_a_tag_changes_no_run(home: HomePaths, capsys: pytest.CaptureFixture[str], tag: str) -> None:
    assert run(["tag", "one", f"--add={tag}", "--add", "fine"]) == 2
    err = capsys.readouterr().err
    assert "cannot be a tag" in err
    assert not {"\x1b", "\u202e"} & set(err)
    assert stored(home, "one").tags == ()


def test_a_run_has_a_limited_number_of_tags(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    many = [word for number in range(51) for word in ("--add", f"t{number}")]
    assert run(["tag", "one", *many]) == 2
    assert "would have 51 tags; the most is 50" in capsys.readouterr().err
    assert stored(home, "one").tags == ()


def test_an_interruption_changes_no_run_and_says_so(
    home: HomePaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    change, changed = labels.change_tags, list[str]()

    def interrupted(database: Database, run_id: str, **how: Any) -> runs.Run:
        if changed:
            raise KeyboardInterrupt
        changed.append(run_id)
        return change(database, run_id, **how)

    monkeypatch.setattr(labels, "change_tags", interrupted)
    assert run(["tag", "--where", "age>=0s", "--add", "arc"]) == 130
    assert "interrupted: 0 of 3 runs were changed" in capsys.readouterr().err
    assert [stored(home, each).tags for each in RUNS] == [(), (), ()]
    assert not any(home.labels(each).exists() for each in RUNS)


def test_an_interruption_between_the_copies_is_mended_by_the_same_command(
    home: HomePaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, kept = labels.keep, list[str]()

    def interrupted(paths: HomePaths, about: runs.Run) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(about.run_id)
        keep(paths, about)

    with monkeypatch.context() as patched:
        patched.setattr(labels, "keep", interrupted)
        assert run(["tag", "--where", "age>=0s", "--add", "arc"]) == 130
    assert "interrupted: 3 of 3 runs were changed" in capsys.readouterr().err
    assert [stored(home, each).tags for each in RUNS] == [("arc",)] * 3
    assert sum(home.labels(each).exists() for each in RUNS) == 1
    assert run(["tag", "--where", "age>=0s", "--add", "arc"]) == 0
    assert all(home.labels(each).exists() for each in RUNS)


def test_tags_are_listed_while_another_process_writes(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(home.store) as database, database.transaction():
        assert run(["tag", "one", "two"]) == 0
    assert capsys.readouterr().out.splitlines() == ["one-aaaaaa: no tags", "two-bbbbbb: no tags"]


def test_many_runs_are_changed_in_one_transaction(home: HomePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    update = runs.require

    def watched(database: Database, run_id: str) -> None:
        database.connection.set_trace_callback(statements.append)
        update(database, run_id)

    monkeypatch.setattr(runs, "require", watched)
    assert run(["group", "one", "two", "busy", "sweep"]) == 0
    assert [each for each in statements if each.startswith(("BEGIN", "COMMIT"))] == ["COMMIT"]
    assert [stored(home, each).group for each in RUNS] == ["sweep"] * 3


def test_a_group_is_named_last_and_taken_away(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["group", "one", "two", "lr sweep 3"]) == 0
    assert [stored(home, each).group for each in RUNS] == ["lr sweep 3", "lr sweep 3", None]
    assert run(["group", "two", "--clear"]) == 0
    assert stored(home, "two").group is None
    capsys.readouterr()
    assert run(["group", "one", "two-bbbbbb"]) == 2
    assert "is a run, and the last word must be the name of a group" in capsys.readouterr().err
    assert run(["group", "one"]) == 2
    assert "the name of the group of one-aaaaaa is missing" in capsys.readouterr().err
    assert run(["group", "alone"]) == 7
    assert run(["group"]) == 2
    assert run(["group", "--where", "nothing-like-it", "--clear"]) == 0
    assert run(["group", "one", " bad "]) == 2
    assert stored(home, "one").group == "lr sweep 3"


def test_a_note_replaces_the_former_and_is_printed_without_escapes(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["note", "one", "first"]) == 0
    assert run(["note", "one", "  [b]second[/b]\x1b]52;c;x\x07\nline 2 "]) == 0
    capsys.readouterr()
    assert run(["note", "one"]) == 0
    assert capsys.readouterr().out == "[b]second[/b]�]52;c;x�\nline 2\n"
    assert stored(home, "one").noted_at is not None
    assert run(["note", "one", " "]) == 2
    assert run(["note", "one", "x" * 10_001]) == 2
    assert run(["note", "one", "text", "--clear"]) == 2
    assert run(["note", "one", "--edit"]) == 2  # no terminal
    assert (stored(home, "one").note or "").startswith("[b]second")
    assert run(["note", "one", "--clear"]) == 0
    assert stored(home, "one").note is None
    assert stored(home, "one").noted_at is None


def test_a_star_keeps_its_time_until_it_is_taken_away(home: HomePaths) -> None:
    assert run(["star", "one", "busy"]) == 0
    first = stored(home, "one").starred_at
    assert run(["star", "one"]) == 0
    assert stored(home, "one").starred_at == first
    assert run(["star", "one", "--off"]) == 0
    assert stored(home, "one").starred_at is None
    assert stored(home, "busy").starred_at is not None


def test_only_ended_runs_are_archived_and_a_resumed_one_is_not_any_more(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["archive", "one", "busy", "two"]) == 8
    assert "busy-cccccc is running; only runs that have ended can be archived" in capsys.readouterr().err
    assert [stored(home, each).is_archived for each in RUNS] == [True, True, False]
    assert run(["archive", "one", "--undo"]) == 0
    assert not stored(home, "one").is_archived
    with Database(home.store) as database:
        runs.set_state(database, "two-bbbbbb", "unknown")
        assert runs.find(database, "two-bbbbbb").archived_at is not None
        runs.set_state(database, "two-bbbbbb", "submitted")
        runs.set_state(database, "two-bbbbbb", "failed")
    assert not stored(home, "two").is_archived


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (("tag", "one", "--add", "arc"), "tag"),
        (("tag", "one", "two"), "tag RUN RUN"),
        (("group", "one", "g"), "group"),
        (("note", "one", "text"), "note"),
        (("star", "one", "two"), "star RUN RUN"),
        (("archive", "one", "busy"), "archive RUN RUN"),
    ],
)
def test_json_has_its_shape(
    home: HomePaths, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], shape: str
) -> None:
    del home
    run([*words, "--json"])
    jsonschema.validate(json.loads(capsys.readouterr().out), schema_of(SHAPES[shape]))


def test_labels_survive_the_loss_of_the_store(home: HomePaths) -> None:
    assert run(["tag", "one", "--add", "arc"]) == 0
    assert run(["group", "one", "sweep"]) == 0
    assert run(["note", "one", "why"]) == 0
    assert run(["star", "one"]) == 0
    assert run(["archive", "one"]) == 0
    before = stored(home, "one")
    home.store.unlink()
    with Database(home.store) as database:
        runs.insert(database, run_id="one-aaaaaa", name="one", host="desk", task="sft", experiment=None, spec={})
        runs.set_state(database, "one-aaaaaa", "succeeded")
        assert labels.restore(database, home, runs.find(database, "one-aaaaaa"))
        found = runs.find(database, "one-aaaaaa")
        assert not labels.restore(database, home, found)  # it has labels now
    assert (found.tags, found.group, found.note, found.starred_at, found.archived_at) == (
        before.tags,
        before.group,
        before.note,
        before.starred_at,
        before.archived_at,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"tags": 5, "group": "\\u001b", "note": 7, "starred_at": NaN, "archived_at": true, "noted_at": 1e999}',
        '{"tags": ["-x", 4, null], "starred_at": -1}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_of_labels_gives_none(home: HomePaths, text: str) -> None:
    path = home.labels("one-aaaaaa")
    path.parent.mkdir()
    path.write_text(text)
    with Database(home.store) as database:
        assert not labels.restore(database, home, runs.find(database, "one-aaaaaa"))
        found = runs.find(database, "one-aaaaaa")
    assert (found.tags, found.group, found.note, found.starred_at, found.archived_at) == ((), None, None, None, None)


def test_the_file_goes_with_the_last_label_and_with_a_removed_run(home: HomePaths) -> None:
    folder = home.run("one-aaaaaa")
    assert run(["star", "one"]) == 0
    assert home.labels("one-aaaaaa").stat().st_mode & 0o777 == 0o600
    assert run(["star", "one", "--off"]) == 0
    assert not folder.exists()
    assert run(["star", "one"]) == 0
    home.checkpoints("one-aaaaaa").mkdir()
    (home.checkpoints("one-aaaaaa") / ".lock").touch()
    leave(home.checkpoints("one-aaaaaa"))
    assert not folder.exists()
    assert run(["star", "two"]) == 0
    (home.checkpoints("two-bbbbbb") / "checkpoint-5").mkdir(parents=True)
    leave(home.checkpoints("two-bbbbbb"))
    assert home.labels("two-bbbbbb").exists()  # with the checkpoint that stays


def test_labels_are_shown(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tag", "one", "--add", "arc"]) == 0
    assert run(["group", "one", "sweep"]) == 0
    assert run(["note", "one", "because\nof this"]) == 0
    assert run(["star", "one"]) == 0
    capsys.readouterr()
    assert run(["show", "one"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["  labels     ★ sweep #arc", "  note       because", "             of this"]
    assert run(["show", "one", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    jsonschema.validate(shown, schema_of(SHAPES["show"]))
    assert (shown["group"], shown["tags"]) == ("sweep", ["arc"])
