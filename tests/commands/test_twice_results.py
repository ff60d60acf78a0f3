"""Two of anything at once, of what a run left: sync, pull, retention, rm, and stores of an earlier release."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from armada.store.database import MIGRATIONS, _statements
from tests import moments
from tests.chance import dice
from tests.commands.saved_run import save_and_end
from tests.conftest import Armada
from tests.together import by_code, codes, rounds, said, together

pytestmark = pytest.mark.takes_long(
    "two commands, of which one waits for the other, three times over with runs of their own"
)

THREE = ["checkpoint-10", "checkpoint-20", "checkpoint-30"]


def folder(armada: Armada, run_id: str) -> Path:
    return armada.folder / "home" / "state" / "runs" / run_id


def published(armada: Armada, run_id: str) -> list[str]:
    return sorted(place.name for place in (folder(armada, run_id) / "checkpoints").glob("checkpoint-*"))


@pytest.mark.fault("the same sync twice at once", "all is home once; one brought it, the other found nothing new")
def test_the_same_sync_twice_at_once_brings_everything_once(armada: Armada) -> None:
    for lags in rounds(dice(45)):
        run_id = save_and_end(armada)
        both = together(armada, ["sync", "now", "--json"], ["sync", "now", "--json"], lags=lags)
        assert codes(both) == [0, 0], [said(each) for each in both]
        outcomes = [each for done in both for each in json.loads(done.stdout) if each["run_id"] == run_id]
        brought = sorted(Path(place).name for each in outcomes for place in each["published"])
        deleted = [digest for each in outcomes for digest in each["deleted_host"]]
        assert brought == published(armada, run_id) == THREE
        assert len(deleted) == len(set(deleted)) == 1
        assert armada.run("rm", run_id, "--force").returncode == 0  # despite its file that no sync.outputs names


@pytest.mark.fault("the same pull twice at once", "all is home once; the other says that nothing new is there")
def test_the_same_pull_twice_at_once_brings_everything_once(armada: Armada) -> None:
    for lags in rounds(dice(46)):
        run_id = save_and_end(armada)
        both = together(armada, ["pull", run_id], ["pull", run_id], lags=lags)
        assert codes(both) == [0, 0], [said(each) for each in both]
        assert published(armada, run_id) == THREE
        (second,) = [each for each in both if "verified" not in each.stdout]
        assert f"nothing new; already home: 3 checkpoints of {run_id}" in second.stdout
        copy = armada.folder / f"copy-of-{run_id}"
        both = together(armada, *2 * [["pull", run_id, "--to", str(copy)]], lags=lags)
        assert codes(both) == [0, 8], [said(each) for each in both]
        assert (copy / "model.bin").read_bytes() == b"30" * 1000
        assert armada.run("rm", run_id, "--force").returncode == 0  # despite its file that no sync.outputs names


@pytest.mark.fault("retention twice at once", "what no rule keeps goes once; the other finds nothing to delete")
def test_retention_twice_at_once_deletes_once(armada: Armada) -> None:
    for lags in rounds(dice(47)):
        run_id = save_and_end(armada)
        assert armada.run("pull", run_id).returncode == 0
        store = armada.folder / "home" / "state" / "armada.db"
        with contextlib.closing(sqlite3.connect(store)) as database, database:
            database.execute("UPDATE runs SET spec = json_set(spec, '$.sync', json('{\"keep_home\": {\"last\": 1}}'))")
        words = ["sync", "retention", run_id, "--json"]
        both = together(armada, words, words, lags=lags)
        assert codes(both) == [0, 0], [said(each) for each in both]
        assert len(published(armada, run_id)) < 3
        deleted = [each["digest"] for done in both for each in json.loads(done.stdout) if not each["keep"]]
        assert len(deleted) == len(set(deleted)) > 0
        assert armada.run("rm", run_id, "--force").returncode == 0


@pytest.mark.fault("the same rm twice at once", "the run is forgotten once; the other says that it was, exit 7")
def test_the_same_rm_twice_at_once_forgets_once(armada: Armada) -> None:
    for lags in rounds(dice(48)):
        run_id = save_and_end(armada)
        both = together(armada, *2 * [["rm", run_id, "--force"]], lags=lags)
        assert codes(both) == [0, 7], [said(each) for each in both]
        assert f"{run_id} forgotten" in by_code(both, 0).stdout
        second = by_code(both, 7).stderr
        assert (
            f"{run_id} was just removed by another armada" in second or f"no run's id begins with '{run_id}'" in second
        )
        assert not (armada.local_runs / run_id).exists()
        assert not folder(armada, run_id).exists()


@pytest.mark.fault("rm --force and pull at once", "what came home is named; nothing comes home after it was forgotten")
def test_what_a_pull_brings_beside_an_rm_is_named_by_it(armada: Armada) -> None:
    for lags in rounds(dice(49)):
        run_id = save_and_end(armada)
        pull, rm = together(armada, ["pull", run_id], ["rm", run_id, "--force"], lags=lags)
        codes([pull, rm])
        assert rm.returncode == 0, said(rm)
        assert armada.json("ps", "--all") == []
        if pull.returncode == 0:
            assert f"3 checkpoints kept in {folder(armada, run_id)}" in rm.stdout
            assert published(armada, run_id) == THREE
        else:
            assert pull.returncode == 7, said(pull)
            assert f"{run_id} was just removed by another armada" in pull.stderr or "no run's id" in pull.stderr
            assert not folder(armada, run_id).exists()


def test_a_sync_beside_an_rm_forgets_nothing_else(armada: Armada) -> None:
    for lags in rounds(dice(50)):
        run_id = save_and_end(armada)
        sync, rm = together(armada, ["sync", "now"], ["rm", run_id, "--force"], lags=lags)
        codes([sync, rm])
        assert rm.returncode == 0, said(rm)
        assert sync.returncode in (0, 1, 7), said(sync)
        if sync.returncode:
            assert f"{run_id} was just removed" in sync.stderr or "no run's id" in sync.stderr
        assert armada.json("ps", "--all") == []


@pytest.mark.fault("a store of an earlier release opened by several commands at once", "it is made new once; all go on")
@pytest.mark.parametrize("version", [0, 1, 3, 5])
def test_a_store_is_migrated_once_however_many_open_it(armada: Armada, version: int) -> None:
    store = armada.folder / "home" / "state" / "armada.db"
    store.parent.mkdir(parents=True)
    for _ in range(moments.times(3)):
        for file in store.parent.glob("armada.db*"):
            file.unlink()
        if version:
            with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as database:
                for migration in MIGRATIONS[:version]:
                    for statement in _statements(migration):
                        database.execute(statement)
                database.execute(f"PRAGMA user_version = {version}")
        all_four = together(armada, ["ps"], ["sync", "ls"], ["hosts", "ls"], ["ps", "--json"])
        assert codes(all_four) == [0, 0, 0, 0], [said(each) for each in all_four]
        assert armada.run("store", "check").returncode == 0
