"""What is recorded of an act, and which commands undo it."""

from __future__ import annotations

import json
import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from armada.foundation.process_identity import current
from armada.store import labels, runs
from armada.tui import acts
from armada.tui.inverse import undoing
from armada.tui.snapshot import RunRow
from tests.tui.conftest import World


def rows(world: World) -> dict[str, RunRow]:
    from armada.tui.reading import RunReader

    return {row.run.run_id: row for row in RunReader(world.database).read({})}


@pytest.mark.parametrize(
    ("command", "undone"),
    [
        ("star old-aaaaaa new-bbbbbb", ["star new-bbbbbb --off"]),
        ("star old-aaaaaa --off", ["star old-aaaaaa"]),
        ("star old-aaaaaa", []),
        ("archive new-bbbbbb", ["archive new-bbbbbb --undo"]),
        ("tag old-aaaaaa --add=arc --add=x", ["tag old-aaaaaa --remove=x"]),
        ("tag old-aaaaaa --remove arc", ["tag old-aaaaaa --add=arc"]),
        (
            "tag old-aaaaaa new-bbbbbb --clear --add y",
            ["tag old-aaaaaa --add=arc --remove=y", "tag new-bbbbbb --remove=y"],
        ),
        ("tag old-aaaaaa new-bbbbbb --add z", ["tag old-aaaaaa new-bbbbbb --remove=z"]),
        ("tag old-aaaaaa", []),
        ("note old-aaaaaa -- -x", ["note old-aaaaaa -- 'the note'"]),
        ("note new-bbbbbb text", ["note new-bbbbbb --clear"]),
        ("note old-aaaaaa --clear", ["note old-aaaaaa -- 'the note'"]),
        ("group old-aaaaaa new-bbbbbb g2", ["group old-aaaaaa g1", "group new-bbbbbb --clear"]),
        ("group old-aaaaaa --clear", ["group old-aaaaaa g1"]),
        ("stop new-bbbbbb", []),
        ("rm old-aaaaaa", []),
        ("star --where loss<1", []),
        ("star old", []),
        ("archive", []),
    ],
)
def test_a_change_of_labels_is_undone_by_what_the_runs_had(world: World, command: str, undone: list[str]) -> None:
    old, new = world.run("old-aaaaaa", state="succeeded"), world.run("new-bbbbbb", state="succeeded")
    labels.star(world.database, old, on=True)
    labels.change_tags(world.database, old, add=["arc"])
    labels.set_note(world.database, old, "the note")
    labels.set_group(world.database, old, "g1")
    assert [shlex.join(words) for words in undoing(shlex.split(command), rows(world))] == undone
    assert runs.find(world.database, new).starred_at is None


def test_acts_of_one_millisecond_have_files_of_their_own(world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        logs = list(pool.map(lambda _: acts.new_log(world.home, "stop"), range(64)))
    assert len(set(logs)) == 64
    assert all(acts.read(log) is not None for log in logs)


def test_after_a_clock_was_set_back_the_newest_act_is_last_and_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    before = [acts.new_log(world.home, "tag", kept=3) for _ in range(3)]
    monkeypatch.setattr(time, "time", lambda: 1_900_000_000.0)
    now = [acts.new_log(world.home, "stop", kept=3) for _ in range(2)]
    assert sorted(path.name for path in now[0].parent.glob("*.log")) == [before[2].name, now[0].name, now[1].name]


def test_only_the_newest_acts_are_kept_with_their_records(world: World) -> None:
    folder = acts.folder_of(world.home)
    for number in range(acts.KEPT + 5):
        log = acts.new_log(world.home, f"x{number}")
        acts.record(log, title="t", words=["ps"], process=current()._replace(start_time="0"))
    assert len(list(folder.glob("*.log"))) == len(list(folder.glob("*.json"))) == acts.KEPT


def test_the_log_of_an_act_that_runs_is_kept_and_listed_however_many_are_newer(world: World) -> None:
    running = acts.new_log(world.home, "resume")
    acts.record(running, title="resume it", words=["resume", "it"], process=current())
    ended = acts.new_log(world.home, "star")
    for _ in range(acts.KEPT):
        acts.new_log(world.home, "stop")
    assert running.exists()
    assert not ended.exists()
    assert acts.newest(world.home)[-1].title == "resume it"


def test_an_act_without_a_record_or_with_a_broken_one_is_shown_by_its_name(world: World) -> None:
    log = acts.new_log(world.home, "stop")
    for content in ("", "{", "[]", '{"words": 7, "undo": {"a": 1}, "process": [true], "exit_code": "x", "title": 3}'):
        log.with_suffix(".json").write_text(content)
        (act,) = acts.newest(world.home)
        assert (act.title, act.words, act.exit_code, act.can_undo, act.runs) == ("stop", (), None, False, False)


@pytest.mark.parametrize("moment", ["1" + "0" * 400, "-1", "1e300", "Infinity", "-Infinity", "NaN", '"now"', "null"])
def test_a_time_that_cannot_be_is_that_of_the_acts_name_or_unknown(world: World, moment: str) -> None:
    log = acts.new_log(world.home, "stop")
    log.with_suffix(".json").write_text(f'{{"started_at": {moment}, "ended_at": {moment}}}')
    (act,) = acts.newest(world.home)
    assert f"{act.started_at:.3f}-stop" == act.name
    assert act.ended_at is None


def test_an_act_runs_while_its_process_lives_and_ended_unknown_after_it(world: World) -> None:
    log = acts.new_log(world.home, "stop")
    acts.record(log, title="t", words=["stop", "a b"], process=current(), undo=[["star", "a"]])
    act = acts.read(log)
    assert act is not None
    assert (act.runs, act.command_line, act.can_undo) == (True, "armada stop 'a b'", False)
    told = json.loads(log.with_suffix(".json").read_text())
    log.with_suffix(".json").write_text(json.dumps(told | {"process": [os.getpid(), "another time", None]}))
    assert acts.exit_code(log) == 0
    acts.record_end(log, 4)
    assert acts.exit_code(log) == 4


def test_files_of_others_are_left_out(world: World) -> None:
    acts.new_log(world.home, "stop")
    (acts.folder_of(world.home) / "mine.log").write_text("x")
    assert [act.title for act in acts.newest(world.home)] == ["stop"]
    assert acts.read(Path("mine.log")) is None


def test_a_hostile_command_names_no_other_folder(world: World) -> None:
    log = acts.new_log(world.home, "../../etc/passwd\x1b")
    assert log.parent == acts.folder_of(world.home)
