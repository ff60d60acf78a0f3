"""`sync`, `pull --checkpoint/--to` and `hosts release`, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.commands.saved_run import SAVE, save_and_end
from tests.conftest import Armada, eventually


@pytest.fixture
def run_id(armada: Armada) -> str:
    """A run that saved three checkpoints and ended; nothing of it is home."""
    return save_and_end(armada)


def published(armada: Armada, run_id: str) -> list[str]:
    folder = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints"
    return sorted(p.name for p in folder.glob("checkpoint-*"))


def test_sync_now_brings_checkpoints_and_outputs_and_twice_is_nothing(armada: Armada, run_id: str) -> None:
    (outcome,) = armada.json("sync", "now")
    assert [Path(p).name for p in outcome["published"]] == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    assert outcome["final"]
    outputs = armada.folder / "home" / "state" / "runs" / run_id / "outputs"
    assert (outputs / "output.log").read_text() == "saved\n"
    assert (outputs / "work/results/table.csv").read_text() == "a,b\n"
    assert armada.json("sync", "now") == []
    (again,) = armada.json("sync", "now", run_id)
    assert again["published"] == again["outputs"] == []
    (listed,) = armada.json("sync", "ls")
    assert (listed["home"], listed["waiting"], listed["final_done"]) == (3, [], True)
    assert run_id in armada.run("sync", "ls").stdout


@pytest.mark.parametrize(
    ("word", "name"), [("20", "checkpoint-20"), ("best", "checkpoint-20"), ("last", "checkpoint-30")]
)
def test_one_checkpoint_can_be_pulled_by_name(armada: Armada, run_id: str, word: str, name: str) -> None:
    done = armada.json("pull", run_id, "--checkpoint", word)
    assert [Path(p).name for p in done["published"]] == [name]
    assert published(armada, run_id) == [name]
    assert armada.run("pull", run_id, "--checkpoint", "17").returncode == 7
    assert armada.run("pull", run_id, "--checkpoint", "worst").returncode == 2


def test_a_checkpoint_can_be_copied_to_work_with(armada: Armada, run_id: str) -> None:
    target = armada.folder / "work with this"
    assert armada.run("pull", run_id, "--checkpoint", "best", "--to", str(target)).returncode == 0
    assert (target / "model.bin").read_bytes() == b"20" * 1000
    (target / "model.bin").write_bytes(b"mine now")
    assert armada.run("sync", "verify", "--read-data").returncode == 0
    assert armada.run("pull", run_id, "--to", str(target)).returncode == 8


def test_a_copy_of_a_damaged_checkpoint_leaves_nothing_and_the_damage_is_recorded(armada: Armada, run_id: str) -> None:
    armada.run("sync", "now")
    model = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints" / "checkpoint-30" / "model.bin"
    model.chmod(0o644)
    good = model.read_bytes()
    model.write_bytes(good[:-1] + b"?")
    there = armada.folder / "home" / "state" / "local" / "runs" / run_id / "outbox"
    there.rename(there.with_name("elsewhere"))
    done = armada.run("pull", run_id, "--checkpoint", "30", "--to", str(armada.folder / "new" / "copy"))
    assert done.returncode == 1
    assert "checkpoint-30" in done.stderr
    assert "is damaged, and could not be repaired: local no longer has model.bin of checkpoint-30" in done.stderr
    assert not (armada.folder / "new").exists()
    assert "damaged at home" in armada.run("show", run_id).stdout
    there.with_name("elsewhere").rename(there)
    assert armada.run("pull", run_id, "--checkpoint", "30", "--to", str(armada.folder / "new")).returncode == 0
    assert model.read_bytes() == (armada.folder / "new" / "model.bin").read_bytes() == good


@pytest.mark.fault(
    "bit flip in a published checkpoint, `sync verify --read-data`",
    "found; the file is fetched again and takes the place of the bad one",
)
def test_a_bit_that_flips_at_home_is_found_and_mended_while_the_host_has_it(armada: Armada, run_id: str) -> None:
    armada.run("sync", "now")
    folder = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints" / "checkpoint-30"
    model = folder / "model.bin"
    good = model.read_bytes()
    model.chmod(0o644)
    model.write_bytes(good[:-1] + b"?")
    assert armada.run("sync", "verify").returncode == 0  # names and sizes are right
    seen = armada.run("sync", "verify", "--read-data", "--no-repair")
    assert seen.returncode == 7
    assert "model.bin" in seen.stdout
    mended = armada.run("sync", "verify", "--read-data")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert model.read_bytes() == good
    assert "1 damaged, 1 repaired" in mended.stdout


@pytest.mark.fault(
    "published checkpoint damaged, no host has it any more",
    "said, exit 7",
)
def test_what_no_host_has_any_more_is_said_to_be_lost(armada: Armada, run_id: str) -> None:
    armada.run("sync", "now")
    checkpoint = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints" / "checkpoint-30"
    (checkpoint / "model.bin").unlink()
    (armada.local_runs / run_id).rename(armada.folder / "gone")
    lost = armada.run("sync", "verify")
    assert lost.returncode == 7
    assert "no longer has it" in lost.stdout


def test_a_dry_run_says_what_would_come_and_go_and_touches_nothing(armada: Armada) -> None:
    armada.write("save.py", SAVE)
    settings = {"keep_home": {"last": 1, "best": 1}, "keep_remote": 1}
    experiment = armada.command("python3", str(armada.folder / "save.py"), sync=settings)
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "succeeded")
    (armada.local_runs / run_id / "secrets.env").write_text('{"KEY": "value"}')

    def everything() -> set[str]:
        inside = armada.folder / "home" / "state"
        return {str(p) for place in ("local/runs", "runs") for p in (inside / place).rglob("*") if p.name != ".lock"}

    before = everything()
    (shown,) = armada.json("sync", "now", "--dry-run")
    assert [c["step"] for c in shown["checkpoints"]] == [20, 30]
    assert "output.log" in shown["outputs"]
    assert (shown["deleted_home"], shown["deleted_host"]) == ([], [])
    said = armada.run("sync", "now", run_id, "--dry-run").stdout
    assert f"{run_id}: 2 checkpoints, 7 other files" in said
    assert "checkpoint-30" in armada.run("hosts", "release", "local", "--drain", "--wipe", "--dry-run").stdout
    assert "1 checkpoint " not in armada.run("rm", run_id, "--force", "--dry-run").stdout
    assert everything() - before <= {
        str(armada.folder / "home/state/runs" / run_id / "checkpoints"),
        str(armada.folder / "home/state/runs" / run_id),
    }
    assert before <= everything()
    armada.run("sync", "now", run_id)
    (shown,) = armada.json("sync", "now", run_id, "--dry-run")
    assert (shown["checkpoints"], shown["outputs"]) == ([], [])


def test_a_run_is_forgotten_once_what_its_settings_want_is_home(armada: Armada) -> None:
    armada.write("save.py", SAVE)
    keep = {"keep_home": {"last": 1, "best": 1}, "outputs": ["results/**", "scratch.tmp"]}
    experiment = armada.command("python3", str(armada.folder / "save.py"), sync=keep)
    run_id = armada.json("launch", "--host", "local", experiment, "--follow")["run_id"]
    (armada.folder / "home" / "state" / "runs" / run_id / "checkpoints").rename(armada.folder / "away")
    refused = armada.run("rm", run_id)
    assert refused.returncode == 8
    # The best and the newest; and the third, which nobody wants beside these: home has neither.
    said = "; ".join(f"checkpoint-{step} (22.0 kB) is only there" for step in (10, 20, 30))
    assert f"only on local: {run_id}: {said}" in refused.stderr
    armada.run("sync", "now", run_id)
    assert published(armada, run_id) == ["checkpoint-20", "checkpoint-30"]
    assert armada.run("rm", run_id).returncode == 0
    (kept,) = armada.json("store", "check")["findings"]  # what a person forgot is not amiss
    assert kept["kind"] == "kept"
    assert "was removed (armada rm); its checkpoints stay at home" in kept["message"]


def test_a_sync_says_what_it_did_in_words(armada: Armada, run_id: str) -> None:
    done = armada.run("sync", "now", run_id).stdout
    assert f"{run_id}: 3 checkpoints, 8 other files" in done
    with (armada.local_runs / run_id / "output.log").open("a") as log:
        log.write("more\n")
    assert f"{run_id}: 1 other file\n" in armada.run("sync", "now", run_id).stdout
    assert f"{run_id}: nothing new\n" in armada.run("sync", "now", run_id).stdout
    assert "next in" not in armada.run("sync", "ls").stdout
    (listed,) = armada.json("sync", "ls")
    assert listed["next_due_at"] is None  # it has ended and all is home


def test_what_was_lost_on_the_host_before_it_came_home_is_said(armada: Armada, run_id: str) -> None:
    armada.run("ps")
    shutil.rmtree(armada.local_runs / run_id)
    lost = "3 checkpoints lost before reaching home"
    assert f"{run_id}: nothing new; {lost}\n" in armada.run("sync", "now", run_id).stdout
    (told,) = armada.json("sync", "now", run_id)
    assert (told["final"], len(told["lost"])) == (True, 3)
    assert lost in armada.run("sync", "ls").stdout
    pulled = armada.run("pull", run_id)
    assert pulled.returncode == 7
    assert f"{run_id} has no checkpoints any more: {lost}" in pulled.stderr
    assert f"armada show {run_id}" in pulled.stderr


def test_a_pull_of_what_is_left_says_what_was_lost(armada: Armada, run_id: str) -> None:
    assert armada.run("pull", run_id, "--checkpoint", "last").returncode == 0
    shutil.rmtree(armada.local_runs / run_id)
    pulled = armada.run("pull", run_id)
    assert pulled.returncode == 0, pulled.stderr
    assert "2 checkpoints lost before reaching home" in pulled.stdout
    several = armada.run("pull", "--where", f"id:{run_id}")
    assert "1 at home, 2 checkpoints lost before reaching home" in several.stdout


def test_retention_shows_the_table_first(armada: Armada, run_id: str) -> None:
    armada.run("sync", "now")
    rows = armada.json("sync", "retention", "--dry-run")
    assert {row["step"]: row["keep"] for row in rows if row["where"] == "home"} == {10: True, 20: True, 30: True}
    assert all(row["reason"] for row in rows)


def test_a_host_is_released_once_nothing_would_be_lost(armada: Armada, run_id: str) -> None:
    before = armada.run("hosts", "release", "local")
    assert before.returncode == 8
    assert "checkpoint-30" in before.stdout
    assert "scratch.tmp" in before.stdout
    assert (
        "local is this machine, where home is; not everything is at home: a wipe would lose everything marked ✗; "
        "armada hosts release local --drain" in before.stdout
    )
    drained = armada.json("hosts", "release", "local", "--drain", rc=8)
    assert [item["what"] for item in drained["items"] if item["lost"]] == [
        "1 file it wrote (20 B), that no sync.outputs names: work/scratch.tmp"
    ]
    assert armada.run("hosts", "release", "local", "--wipe").returncode == 2  # nobody there to be asked
    done = armada.json("hosts", "release", "local", "--ignore-work", "--wipe", "--yes")
    assert (done["safe"], done["local"]) == (True, True)
    assert "runs" in done["wiped"]
    assert not armada.local_runs.exists()
    assert len(published(armada, run_id)) == 3
    assert armada.run("sync", "verify", "--read-data").returncode == 0
    root = armada.local_runs.parent
    assert not root.exists()
    stopped = armada.run("stop", run_id)
    assert (stopped.returncode, "it had already ended" in stopped.stdout) == (0, True), stopped.stderr
    assert not root.exists()
    removed = armada.run("rm", run_id)
    assert f"{run_id} forgotten (the host had no files of it); 3 checkpoints kept in " in removed.stdout, removed.stderr
    assert not root.exists()


def test_a_checkpoint_that_leads_out_of_its_run_keeps_run_and_host(armada: Armada) -> None:
    scratch = armada.folder / "scratch"
    scratch.mkdir()
    script = f"mkdir -p {scratch}/step-1; echo w > {scratch}/step-1/w; ln -s {scratch} out"
    experiment = armada.command("sh", "-c", script, checkpoint={"pattern": "out/step-*", "quiet_s": 0})
    run_id = str(armada.json("launch", "--host", "local", experiment)["run_id"])
    armada.await_end(run_id)
    armada.json("sync", "now", run_id)
    said = "of its checkpoints, 1 link leads out of its work folder, and so did not come home: out/step-1"
    released = armada.run("hosts", "release", "local")
    assert (released.returncode, said in released.stdout) == (8, True), released.stdout
    refused = armada.run("rm", run_id)
    assert (refused.returncode, f"only on local: {run_id}: {said}" in refused.stderr) == (8, True), refused.stderr
    assert f"armada rm {run_id} --force" in refused.stderr
    assert armada.run("rm", run_id, "--force").returncode == 0
    assert (scratch / "step-1" / "w").read_text() == "w\n"


def test_a_host_with_a_running_job_is_not_released_and_not_wiped(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sleep", "1000"))["run_id"]
    answer = armada.run("hosts", "release", "local", "--drain", "--wipe", "--yes", "--ignore-work")
    assert answer.returncode == 8
    assert "running" in answer.stdout
    assert (armada.local_runs / run_id).exists()
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_secrets_of_runs_that_are_not_alive_go_when_a_host_is_released(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("true"), "--follow")["run_id"]
    secrets = armada.local_runs / run_id / "secrets.env"
    secrets.write_text('{"KEY": "value"}')
    released = armada.run("hosts", "release", "local", "--drain")
    assert released.returncode == 0
    assert not secrets.exists()
    assert "local is this machine, where home is: nothing waits there to come home" in released.stdout
    assert "destroy" not in released.stdout


@pytest.mark.parametrize(
    "sync",
    [
        {"every": "soon"},
        {"every": "1s"},
        {"bwlimit": "fast"},
        {"window": "25:00-07:00"},
        {"outputs": ["../x"]},
        {"keep_home": {"lats": 3}},
        {"streams": 99},
    ],
)
def test_wrong_sync_settings_are_said_with_their_line(armada: Armada, sync: dict[str, object]) -> None:
    done = armada.run("launch", "--host", "local", armada.command("true", sync=sync), "--dry-run")
    assert done.returncode == 2
    assert "exp.yaml:1" in done.stderr
    assert next(iter(sync)) in done.stderr or "last" in done.stderr


def test_sync_settings_reach_the_plan(armada: Armada) -> None:
    experiment = armada.command("true", sync={"every": "1h", "bwlimit": "20M"})
    shown = armada.run("launch", "--host", "local", experiment, "--dry-run", "--json")
    plan = json.loads(shown.stdout)["spec"]["sync"]
    assert (plan["every"], plan["bwlimit"], plan["keep_home"]["last"], plan["keep_remote"]) == ("1h", "20M", None, 2)


@pytest.mark.parametrize("words", [["sync", "verify"], ["sync", "now"]])
def test_a_checkpoint_folder_that_was_deleted_here_is_said_to_be_and_comes_again(
    armada: Armada, run_id: str, words: list[str]
) -> None:
    armada.json("sync", "now")
    folder = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints"
    shutil.rmtree(folder / "checkpoint-30")
    (listed,) = armada.json("sync", "ls")
    assert (listed["home"], [each["step"] for each in listed["waiting"]]) == (2, [30])
    assert "1 deleted here: armada sync now fetches again" in armada.run("sync", "ls").stdout
    assert armada.run(*words).returncode == 0
    assert published(armada, run_id) == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    assert armada.run("sync", "verify", "--read-data").returncode == 0
    assert "all home" in armada.run("sync", "ls").stdout


def test_a_checkpoint_folder_that_was_deleted_here_and_is_nowhere_else_is_lost(armada: Armada, run_id: str) -> None:
    armada.json("sync", "now")
    folder = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints"
    shutil.rmtree(armada.local_runs / run_id / "outbox")
    shutil.rmtree(folder / "checkpoint-30")
    assert armada.run("sync", "verify").returncode == 7
    assert not (folder / "checkpoint-30").exists()
    (listed,) = armada.json("sync", "ls")
    assert listed["home"] == 2


def test_checkpoints_on_a_disk_that_is_not_mounted_are_said_to_be_and_given_up_by_a_person_alone(
    armada: Armada, run_id: str
) -> None:
    armada.json("sync", "now")
    folder = armada.folder / "home" / "state" / "runs" / run_id / "checkpoints"
    away = folder.rename(armada.folder / "another-disk")
    folder.mkdir()
    assert "3 checkpoints not seen here: a disk may not be mounted" in armada.run("sync", "ls").stdout
    for words in (["sync", "now"], ["sync", "now", run_id], ["sync", "verify"], ["rm", run_id, "--yes"]):
        refused = armada.run(*words)
        assert refused.returncode != 0, words
        assert f"{folder} is not the folder that armada put its checkpoints into" in refused.stderr, words
    assert not list(folder.iterdir())
    folder.rmdir()
    away.rename(folder)
    assert armada.run("sync", "now", run_id).returncode == 0
    assert "all home" in armada.run("sync", "ls").stdout
    folder.rename(away)
    folder.mkdir()
    assert armada.run("rm", run_id, "--force", "--yes").returncode == 0
    assert sorted(path.name for path in away.glob("checkpoint-*")) == [
        "checkpoint-10",
        "checkpoint-20",
        "checkpoint-30",
    ]


def test_a_log_that_was_begun_anew_on_its_host_is_kept_at_home_and_said(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("echo", "first"), "--follow")["run_id"]
    armada.json("sync", "now", run_id)
    (armada.local_runs / run_id / "output.log").write_text("another\n")
    kept = armada.folder / "home" / "state" / "runs" / run_id / "replaced"
    said = armada.run("sync", "now", run_id)
    assert f"1 file of which the host has no later version moved to {kept}" in said.stdout
    (log,) = kept.glob("*/output.log")
    assert "first" in log.read_text()
    (armada.local_runs / run_id / "output.log").write_text("a third\n")
    (synced,) = armada.json("sync", "now", run_id)
    assert synced["outputs_kept"] == ["output.log"]
