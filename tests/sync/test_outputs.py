"""Logs and the files that an experiment names come home."""

from __future__ import annotations

import os

from armada.sync.transfer.block_writer import BLOCK_BYTES
from tests.sync.conftest import Place, random_bytes


def test_logs_and_chosen_files_come_home_and_only_what_changed_comes_again(place: Place) -> None:
    place.create(outputs=["results/**", "*.csv"])
    remote = place.remote
    (remote / "output.log").write_text("line 1\n")
    for name in ("results/deep/a.txt", "table.csv", "not-this.bin"):
        (remote / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (remote / "work" / name).write_text(name)
    (remote / "wandb").mkdir()
    (remote / "wandb" / "run.wandb").write_bytes(b"w")
    (remote / "secrets.env").write_text("{}")
    fetched = set(place.sync().outputs.fetched)
    assert fetched == {"output.log", "work/results/deep/a.txt", "work/table.csv", "wandb/run.wandb", "spec.json"}
    assert (place.outputs / "work" / "results" / "deep" / "a.txt").read_text() == "results/deep/a.txt"
    with (remote / "output.log").open("a") as stream:
        stream.write("line 2\n")
    assert place.sync().outputs.fetched == ("output.log",)
    assert (place.outputs / "output.log").read_text() == "line 1\nline 2\n"
    assert place.sync().outputs.fetched == ()


def test_tensorboards_and_wandbs_files_come_home_without_being_named(place: Place) -> None:
    place.create()
    names = (
        "logs/events.out.tfevents.1.vm",
        "deep/wandb/offline-run-1-a/run-a.wandb",
        "wandb/run-2-b/files/config.yaml",
    )
    others = ("wandb/settings", "events.txt", "runs/wandb.txt")
    for name in (*names, *others):
        (place.remote / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (place.remote / "work" / name).write_text(name)
    old = place.remote / "work" / names[0]
    os.utime(old, (1, 1))  # as `cp -p` leaves it: the run wrote it all the same
    fetched = set(place.sync().outputs.fetched)
    assert {name for name in fetched if name.startswith("work/")} == {f"work/{name}" for name in names}


def test_a_long_log_that_grew_and_one_that_was_begun_anew_come_right(place: Place) -> None:
    place.create()
    log = place.remote / "output.log"
    log.write_bytes(random_bytes(BLOCK_BYTES + 5))
    place.sync()
    with log.open("ab") as stream:
        stream.write(random_bytes(BLOCK_BYTES))
    place.sync()
    assert (place.outputs / "output.log").read_bytes() == log.read_bytes()
    log.write_bytes(random_bytes(3 * BLOCK_BYTES))  # other bytes from the beginning on
    place.sync()
    assert (place.outputs / "output.log").read_bytes() == log.read_bytes()


def test_output_names_that_could_mean_something_else_are_left_there_and_said(place: Place) -> None:
    place.create(outputs=["**"])
    names = [b"plain", b"two\nlines", b"\xff\xfe", b"esc\x1b[2J"]
    for name in names:
        (place.remote / "work").joinpath(os.fsdecode(name)).write_bytes(b"x")
    outputs = place.sync().outputs
    assert "work/plain" in outputs.fetched
    assert len(outputs.skipped) == 3
    assert [p.name for p in (place.outputs / "work").iterdir()] == ["plain"]
