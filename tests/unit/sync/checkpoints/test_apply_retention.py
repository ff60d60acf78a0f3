"""What is deleted, kept and cleared away of a run's checkpoints at home, without a host."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from armada.config.sync import SyncSettings
from armada.paths import HomePaths
from armada.store import checkpoints, runs, transfers
from armada.store.checkpoints import WAS_HOME, Checkpoint
from armada.store.database import Database
from armada.sync.checkpoints import apply_retention
from armada.sync.checkpoints.proof import Prover
from armada.sync.schedule.due import NOT_WANTED
from tests.answers import outbox

RUN = "q-aaaaaa"


class Home:
    """A store and the checkpoints of one run: what its host lists, and what lies in the run's folder."""

    def __init__(self, folder: Path) -> None:
        self.paths = HomePaths(config=folder / "config", state=folder)
        self.paths.checkpoints(RUN).mkdir(parents=True)
        self.database = Database(self.paths.store)
        runs.insert(self.database, run_id=RUN, name="q", host="box", task="sft", experiment=None, spec={})
        self.listed: dict[int, dict[str, Any]] = {}
        self.digests: dict[int, str] = {}

    def add(
        self,
        step: int,
        *,
        here: bool = True,
        there: bool = True,
        created_at: float | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> str:
        """A checkpoint that its host had, and may have, and that may be at home; its digest."""
        files = files or {"model": b"%d" % step}
        listed = [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        ]
        manifest = json.dumps({"format": 1, "run_id": RUN, "step": step, "files": listed})
        digest = hashlib.sha256(manifest.encode()).hexdigest()
        size = sum(map(len, files.values()))
        made_at = float(step) if created_at is None else created_at
        entry = {"digest": digest, "step": step, "size_bytes": size, "file_count": len(files), "created_at": made_at}
        self.listed[step], self.digests[step] = entry, digest
        self.tell()
        if here:
            place = self.place(step)
            place.mkdir()
            (place / "MANIFEST.json").write_text(manifest)
            for name, data in files.items():
                (place / name).write_bytes(data)
            checkpoints.mark_home(self.database, RUN, digest, place)
        if not there:
            del self.listed[step]
            self.tell()
        return digest

    def tell(self) -> None:
        checkpoints.record_outbox(self.database, RUN, outbox(list(self.listed.values())))

    def place(self, step: int) -> Path:
        return self.paths.checkpoints(RUN) / f"checkpoint-{step}"

    def fail(self, step: int) -> None:
        transfers.begin(self.database, RUN, self.digests[step], 1)
        transfers.give_up(self.database, RUN, self.digests[step], "failed", "rejected", next_try_at=None)

    @property
    def known(self) -> dict[int, Checkpoint]:
        return {checkpoint.step: checkpoint for checkpoint in checkpoints.of_run(self.database, RUN)}

    @property
    def steps(self) -> list[int]:
        return [step for step, checkpoint in self.known.items() if checkpoint.home_path is not None]

    def tidy(self) -> None:
        apply_retention.tidy(self.database, self.paths, RUN)

    def retain(self, **settings: Any) -> list[str]:
        chosen = SyncSettings.model_validate(settings)
        return [place.name for place in apply_retention.retain_home(self.database, self.paths, RUN, chosen)]

    def surplus(self, keep_remote: int) -> list[int]:
        digests = apply_retention.surplus_on_host(self.database, RUN, SyncSettings(keep_remote=keep_remote))
        return [step for step, digest in self.digests.items() if digest in digests]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_what_a_person_deleted_here_is_no_longer_home_and_says_so_where_its_host_has_lost_it_too(home: Home) -> None:
    for step in (1, 2, 3):
        home.add(step, there=step != 2)
    shutil.rmtree(home.place(1))
    shutil.rmtree(home.place(2))
    home.tidy()
    assert home.steps == [3]
    assert {step: checkpoint.trouble for step, checkpoint in home.known.items()} == {1: None, 2: WAS_HOME, 3: None}


def test_only_what_is_still_to_come_stays_in_staging(home: Home) -> None:
    coming, gone = home.add(1, here=False), home.add(2, here=False, there=False)
    home_already, unknown = home.add(3), "f" * 64
    staging = home.paths.checkpoints(RUN) / ".staging"
    for digest in (coming, gone, home_already, unknown):
        (staging / digest).mkdir(parents=True)
        (staging / f"{digest}.blocks").write_text("")
    home.tidy()
    assert sorted(path.name for path in staging.iterdir()) == [coming, f"{coming}.blocks"]


def test_a_quarantine_is_forgotten_only_of_what_is_gone_everywhere(home: Home) -> None:
    """While its host lists it, it is not fetched at each sync; what is at home keeps the record of its repair."""
    home.add(1, here=False)
    home.add(2, here=False, there=False)
    home.add(3, there=False)
    home.add(4, here=False, there=False)
    for step in (1, 2, 3):
        home.fail(step)
    transfers.begin(home.database, RUN, home.digests[4], 1)
    transfers.finish(home.database, RUN, home.digests[4], 1)
    home.tidy()
    kept = transfers.of_run(home.database, RUN)
    assert [step for step, digest in home.digests.items() if digest in kept] == [1, 3, 4]


def test_only_what_the_rules_want_and_home_lacks_is_only_on_the_host(home: Home) -> None:
    for step in (1, 2, 3, 4):
        home.add(step, here=step == 3)
    known = list(home.known.values())
    chosen = SyncSettings.model_validate({"keep_home": {"last": 3}})
    assert [c.step for c in apply_retention.wanted(home.database, RUN, known, chosen)] == [2, 4]


def test_what_no_rule_keeps_is_deleted_here_and_does_not_come_again(home: Home) -> None:
    for step in (1, 2, 3):
        home.add(step)
    assert home.retain(keep_home={"last": 2}) == ["checkpoint-1"]
    assert (home.steps, home.place(1).exists()) == ([2, 3], False)
    assert home.known[1].trouble == NOT_WANTED
    assert home.retain(keep_home={"last": 2}) == []


@pytest.mark.parametrize("name", ["eval.json", "plots/loss.png", "mine/", "sub/own.txt"])
def test_what_armada_did_not_put_into_a_checkpoint_stays_when_that_is_deleted(home: Home, name: str) -> None:
    home.add(1, files={"model": b"1"})
    home.add(2)
    mine = home.place(1) / name
    if name.endswith("/"):
        mine.mkdir()
    else:
        mine.parent.mkdir(exist_ok=True)
        mine.write_text("mine")
    (home.place(1) / "link").symlink_to(home.place(2))
    assert home.retain(keep_home={"last": 1}) == ["checkpoint-1"]
    assert mine.exists()
    assert (home.place(1) / "link").is_symlink()
    assert not (home.place(1) / "model").exists()
    assert not (home.place(1) / "MANIFEST.json").exists()
    assert (home.place(2) / "model").exists()
    assert not (home.paths.checkpoints(RUN) / ".trash").exists()
    assert home.steps == [2]
    assert home.retain(keep_home={"last": 1}) == []
    home.tidy()
    assert mine.exists()


def test_a_checkpoint_whose_manifest_is_damaged_is_not_deleted_by_name(home: Home) -> None:
    home.add(1)
    home.add(2)
    (home.place(1) / "MANIFEST.json").write_text("{}")
    assert home.retain(keep_home={"last": 1}) == []
    assert (home.place(1) / "model").exists()


def test_what_is_still_to_come_puts_nothing_here_in_doubt(home: Home) -> None:
    for step in (1, 2, 3, 4):
        home.add(step, here=step != 4)
    assert home.retain(keep_home={"last": 2}) == ["checkpoint-1"]  # two stay until the fourth is here


def test_what_may_never_come_replaces_nothing_here(home: Home) -> None:
    for step in (1, 2, 3):
        home.add(step, here=step != 3)
    assert home.retain(keep_home={"last": 2}) == []


def pinning(home: Home, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Have a person ask for a checkpoint by name while those that stay are read."""
    prove = Prover.are_proven

    def proving(prover: Prover, known: Iterable[Checkpoint]) -> bool:
        found = prove(prover, known)
        checkpoints.pin(home.database, RUN, home.digests[step])
        return found

    monkeypatch.setattr(Prover, "are_proven", proving)


def test_what_a_person_asks_for_while_those_that_stay_are_read_stays_too(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2, 3):
        home.add(step)
    pinning(home, monkeypatch, 1)
    assert home.retain(keep_home={"last": 1}) == ["checkpoint-2"]
    assert (home.steps, home.known[1].pinned, home.place(1).is_dir()) == ([1, 3], True, True)


def test_nothing_is_deleted_here_while_what_would_stay_is_in_doubt(home: Home) -> None:
    for step in (1, 2, 3):
        home.add(step)
    (home.place(2) / "model").write_bytes(b"?")
    assert home.retain(keep_home={"last": 2}) == []
    assert home.steps == [1, 2, 3]
    assert home.retain(keep_home={"last": 1}) == ["checkpoint-1", "checkpoint-2"]


OPTIMIZER = {"model": b"m", "optimizer.pt": b"o"}


def with_optimizer(home: Home) -> list[int]:
    return [step for step in home.steps if (home.place(step) / "optimizer.pt").exists()]


def test_the_newest_the_youngest_and_what_a_person_asked_for_keep_their_optimizers(home: Home) -> None:
    for step, created_at in ((1, 1.0), (2, 2.0), (3, 9.0), (4, 4.0)):
        home.add(step, files=OPTIMIZER, created_at=created_at)
    checkpoints.pin(home.database, RUN, home.digests[1])
    home.retain(include_optimizer=True)
    assert with_optimizer(home) == [1, 2, 3, 4]
    home.retain(include_optimizer="last")
    assert with_optimizer(home) == [1, 3, 4]
    home.retain(include_optimizer="last")
    assert [(home.place(step) / "model").exists() for step in home.steps] == [True] * 4


def test_what_a_person_asks_for_while_others_are_read_keeps_its_optimizer(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2, 3):
        home.add(step, files=OPTIMIZER)
    pinning(home, monkeypatch, 1)
    home.retain(include_optimizer="last")
    assert with_optimizer(home) == [1, 3]


def test_what_is_only_on_the_host_is_not_the_newest_here(home: Home) -> None:
    """The last that is here is what a resume from home needs, for as long as the next one has not come."""
    home.add(1, files=OPTIMIZER)
    home.add(2, files=OPTIMIZER)
    home.add(3, files=OPTIMIZER, here=False)
    home.retain(include_optimizer="last")
    assert with_optimizer(home) == [2]


def test_a_checkpoint_without_an_optimizer_stays_a_whole_one(home: Home) -> None:
    for step in (1, 2):
        home.add(step)
    home.retain(include_optimizer="last")
    assert sorted(path.name for path in home.place(1).iterdir()) == ["MANIFEST.json", "model"]


def test_without_a_checkpoint_here_nothing_is_removed(home: Home) -> None:
    home.add(1, files=OPTIMIZER, here=False)
    assert home.retain(include_optimizer="last") == []


def test_a_checkpoint_of_nothing_but_what_a_resume_needs_keeps_it(home: Home) -> None:
    home.add(1, files={"optimizer.pt": b"o"})
    home.add(2)
    home.retain(include_optimizer="last")
    assert with_optimizer(home) == [1]


def test_a_checkpoint_whose_manifest_was_damaged_keeps_its_files_and_holds_up_no_other(home: Home) -> None:
    for step in (1, 2, 3):
        home.add(step, files=OPTIMIZER)
    (home.place(1) / "MANIFEST.json").write_text("{}")
    home.retain(include_optimizer="last")
    assert with_optimizer(home) == [1, 3]


@pytest.mark.parametrize(("keep_remote", "surplus"), [(1, [1, 2]), (2, [1]), (3, [])])
def test_a_host_gives_up_what_is_proven_here_beyond_what_it_keeps(
    home: Home, keep_remote: int, surplus: list[int]
) -> None:
    for step in (1, 2, 3):
        checkpoints.mark_acknowledged(home.database, RUN, home.add(step))
    home.add(4, there=False)  # no longer there: it does not count
    assert home.surplus(keep_remote) == surplus


def test_a_host_gives_up_nothing_whose_bytes_here_are_others(home: Home) -> None:
    for step in (1, 2, 3):
        checkpoints.mark_acknowledged(home.database, RUN, home.add(step))
    (home.place(1) / "model").write_bytes(b"?")
    assert home.surplus(1) == [2]


def test_what_a_host_keeps_anyway_is_not_read_for_that(home: Home) -> None:
    for step in (1, 2, 3):
        checkpoints.mark_acknowledged(home.database, RUN, home.add(step, there=step != 1))
    (home.place(2) / "model").write_bytes(b"?")
    plan = apply_retention.plan_host(home.database, RUN, SyncSettings(keep_remote=2))
    assert [(each.candidate.step, each.keep, each.reason) for each in plan] == [
        (2, True, "one of the last 2 (keep_remote)"),
        (3, True, "the newest: what a resume needs"),
    ]
