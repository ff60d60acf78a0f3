"""What destroying a host would lose of a run that home put there, and that its list does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armada.store import checkpoints, runs
from armada.sync.checkpoints.proof import Prover
from armada.sync.context import HostContext, SyncContext
from armada.sync.release.judge import judge_absent, judge_and_forget_secrets, losses
from armada.sync.schedule.due import NOT_WANTED
from armada.verdicts.proof import Proof
from tests.answers import outbox
from tests.unit.sync.release.worlds import CHECKPOINT, DIGEST, RUN, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class TestNotThere:
    """A run that home put on the host, and that its list does not have."""

    @pytest.fixture(autouse=True)
    def put_there(self, world: World) -> None:
        world.insert()
        world.listed = []

    def test_it_would_be_lost_with_a_root_that_is_not_the_one_it_was_put_into(self, world: World) -> None:
        runs.set_root(world.database, RUN, "its own")
        assert len(world.lost()) == 1
        world.root = "its own"
        world.remains = {"processes": 0}
        assert world.lost() == []

    @pytest.mark.parametrize("said", [None, {}, {"processes": "many"}, []])
    def test_a_host_that_does_not_say_whether_its_job_lives_is_no_proof_that_it_does_not(
        self, world: World, said: Any
    ) -> None:
        runs.set_root(world.database, RUN, "r")
        world.remains = said
        untold = "its folder is missing, and its host does not say whether its job runs"
        assert world.lost() == [untold]
        world.vanished = {"run.observe": []}
        assert world.lost() == [untold], "its answer lacks the run"
        world.settle()
        assert world.lost() == [], "home knows its end"

    def test_of_thousands_of_them_each_is_asked_about(self, world: World) -> None:
        asked: list[str] = []
        for number in range(2100):
            run_id = f"m-{number:06}"
            runs.insert(world.database, run_id=run_id, name="m", host="box", task="sft", experiment=None, spec={})
            runs.set_root(world.database, run_id, "r")
        said = world.said

        def observe(method: str, params: dict[str, Any], /, **options: Any) -> Any:
            if method != "run.observe":
                return said(method, params, **options)
            ids = [each["run_id"] for each in params["runs"]]
            asked.extend(ids)
            remains = {run_id: {"processes": int(run_id == "m-002099")} for run_id in ids}
            return {"root": "r", "runs": [{"run_id": i, "exists": False, "remains": remains[i]} for i in ids]}

        world.said = observe  # type: ignore[method-assign]
        assert world.lost() == ["its folder is missing, but its job runs (processes: 1)"]
        assert len(asked) == len(set(asked)) == 2101

    @pytest.mark.parametrize("root", ["r", "its own"])
    def test_its_job_may_live_there_without_its_folder(self, world: World, root: str) -> None:
        runs.set_root(world.database, RUN, root)
        world.settle()
        world.remains = {"processes": 2}
        assert world.lost() == ["its folder is missing, but its job runs (processes: 2)"]
        said: list[Any] = [{"processes": 0}, {"processes": "many"}, {}, None, []]  # a host may say anything
        for world.remains in said:
            assert world.lost() == []

    @pytest.mark.parametrize("evidence", [None, {"supervisor": "dead", "processes": 0}])
    def test_a_folder_that_is_shown_or_cannot_be_read_was_not_removed(
        self, world: World, evidence: dict[str, Any] | None
    ) -> None:
        runs.set_root(world.database, RUN, "r")
        world.settle()
        world.shows, world.evidence = True, evidence
        said = "its host did not list it a moment ago, and shows its folder now, or cannot read it"
        assert world.lost() == [said]
        context = SyncContext(world.database, world, world.paths, RUN)  # type: ignore[arg-type]  # all that is used of a session
        assert [item.what for item in judge_absent(context)] == [said]

    def test_what_never_got_there_is_not_missed(self, world: World) -> None:
        assert world.lost() == []

    def test_it_would_be_lost_where_an_old_record_does_not_say_into_which_root_it_was_put(self, world: World) -> None:
        with world.database.transaction() as connection:
            connection.execute("UPDATE runs SET observed_at = 1.0 WHERE run_id = ?", (RUN,))
        assert len(world.lost()) == 1

    def test_what_a_stop_found_never_to_have_come_is_not_missed(self, world: World) -> None:
        with world.database.transaction() as connection:
            connection.execute("UPDATE runs SET observed_at = 1.0 WHERE run_id = ?", (RUN,))
        runs.set_state(world.database, RUN, "cancelled", reason="killed_by_user")
        assert world.lost() == []

    def test_what_was_stopped_after_it_was_handed_over_is_missed(self, world: World) -> None:
        with world.database.transaction() as connection:
            connection.execute("UPDATE runs SET observed_at = 1.0 WHERE run_id = ?", (RUN,))
        runs.set_state(world.database, RUN, "submitted")
        runs.set_state(world.database, RUN, "cancelled", reason="killed_by_user")
        assert len(world.lost()) == 1

    def test_what_the_host_lists_is_there_whatever_its_root_is_called(self, world: World) -> None:
        runs.set_root(world.database, RUN, "its own")
        world.listed = [RUN]
        assert world.lost() == []

    def test_it_is_not_missed_once_all_of_it_is_proven_to_be_home(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs.set_root(world.database, RUN, "its own")
        world.settle()
        assert world.lost() == []
        checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
        assert len(world.lost()) == 1
        checkpoints.mark_trouble(world.database, RUN, DIGEST, NOT_WANTED)
        world.settle()  # by the sync that did not want it: a checkpoint that appears later withdraws the end
        assert len(world.lost()) == 1  # home has nothing in its place
        monkeypatch.setattr(Prover, "prove", lambda _, each: Proof.PROVEN if each.step == 6 else Proof.MISSING)
        kept = {**CHECKPOINT, "digest": "e" * 64, "step": 6}
        checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT, kept]))
        checkpoints.mark_home(world.database, RUN, "e" * 64, world.paths.run(RUN) / "checkpoints" / "checkpoint-6")
        world.settle()
        assert world.lost() == []
        checkpoints.record_outbox(world.database, RUN, [])
        checkpoints.mark_trouble(world.database, RUN, DIGEST, "was home, is gone")
        assert world.lost() == []

    def test_it_is_not_missed_where_what_its_host_had_last_is_proven_to_be_here(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs.set_root(world.database, RUN, "its own")
        checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
        world.settle()
        assert len(world.lost()) == 1
        monkeypatch.setattr("armada.sync.checkpoints.proof.prove", lambda *_: Proof.PROVEN)
        assert world.lost() == []

    @pytest.mark.parametrize(("left", "said"), [(3, "but 3 other files may"), (None, "but other files of it may")])
    def test_what_did_not_come_home_lies_on_the_root_that_is_away(
        self, world: World, left: int | None, said: str
    ) -> None:
        runs.set_root(world.database, RUN, "its own")
        world.settle(left)
        (item,) = world.judge()
        assert item.lost
        assert said in item.what
        assert item.hint == "mount it, then run the command again; or --ignore-work"
        (item,) = world.judge(ignore_work=True)
        assert not item.lost

    def test_what_a_release_found_to_be_home_is_not_missed_on_a_root_that_is_away_later(self, world: World) -> None:
        runs.set_root(world.database, RUN, "r")
        world.settle(3)
        world.listed = [RUN]
        context = HostContext(world.database, world, world.paths)  # type: ignore[arg-type]  # all that is used of a session
        items, _ = judge_and_forget_secrets(context)
        assert losses(items) == []
        world.listed, world.root = [], "another"
        assert world.lost() == []

    def test_a_release_names_the_runs_that_it_judged_before_their_secrets_go(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.settle()
        world.listed = [RUN]
        asked: list[dict[str, Any]] = []
        said = world.said

        def note(method: str, params: dict[str, Any], /, **more: Any) -> Any:
            asked.extend([params] if method == "host.forget_secrets" else [])
            return said(method, params, **more)

        monkeypatch.setattr(world, "said", note)
        judge_and_forget_secrets(HostContext(world.database, world, world.paths))  # type: ignore[arg-type]  # all that is used of a session
        assert asked == [{"leaves": True, "runs": [RUN]}]

    @pytest.mark.parametrize("listed", [[RUN], []], ids=["it was there", "its root was away"])
    def test_what_a_person_gave_up_once_is_missed_again_on_a_root_that_is_away_later(
        self, world: World, listed: list[str]
    ) -> None:
        runs.set_root(world.database, RUN, "r" if listed else "its own")
        world.settle(5)
        world.listed = listed
        world.look = {"others": {"count": 5, "size_bytes": 3, "examples": ["work/x"]}}
        context = HostContext(world.database, world, world.paths)  # type: ignore[arg-type]  # all that is used of a session
        items, _ = judge_and_forget_secrets(context, ignore_work=True)
        assert losses(items) == []
        world.listed, world.root = [], "another"
        (said,) = world.lost()
        assert "but 5 other files may be there only" in said

    def test_an_end_that_is_only_guessed_settles_nothing(self, world: World) -> None:
        runs.set_root(world.database, RUN, "its own")
        world.settle()
        with world.database.transaction() as connection:
            connection.execute("UPDATE runs SET state = 'failed', reason = 'gone' WHERE run_id = ?", (RUN,))
        assert len(world.lost()) == 1


class TestRemovedBeforeItsJobEnded:
    """A run of a batch system whose folder was removed: with it went the number of its job."""

    @pytest.fixture(autouse=True)
    def put_there(self, world: World) -> None:
        world.insert(scheduler={"kind": "slurm"})
        world.listed = []
        runs.set_root(world.database, RUN, "r")

    def test_its_scheduler_may_have_its_job(self, world: World) -> None:
        runs.set_state(world.database, RUN, "queued")
        runs.set_state(world.database, RUN, "unknown", reason="not_on_host")
        (item,) = world.judge()
        assert item.lost
        assert "may still have its job" in item.what
        assert item.hint is not None
        assert item.hint == f"scancel --name armada.{RUN}.1  # on the host; then armada rm {RUN} --force"

    def test_an_end_that_is_only_guessed_proves_no_more(self, world: World) -> None:
        runs.set_state(world.database, RUN, "running")
        runs.set_state(world.database, RUN, "failed", reason="gone")
        world.remains = {"processes": 0}
        (item,) = world.judge()
        assert (item.lost, "may still have its job" in item.what) == (True, True)

    def test_of_what_was_seen_to_end_nothing_waits(self, world: World) -> None:
        runs.set_state(world.database, RUN, "running")
        runs.set_state(world.database, RUN, "failed", reason="exit_code")
        assert world.lost() == []

    def test_what_was_never_handed_over_waits_nowhere(self, world: World) -> None:
        runs.set_state(world.database, RUN, "unknown", reason="link_lost")
        world.remains = {"processes": 0}
        assert world.lost() == []
