"""`armada recover` and `armada store check`: a store that is lost, damaged, or older than what lies at home."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.foundation import process_identity
from armada.paths import HomePaths
from armada.store import hosts, runs
from armada.store.database import Database
from tests import moments
from tests.chance import dice
from tests.commands.saved_run import save_and_end
from tests.conftest import Armada

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "its header is gone": lambda raw: b"\0" * 4096 + raw[4096:],
    "it is cut off": lambda raw: raw[: 3 * 4096],
    "it is text": lambda raw: b"not a store\n" * 1000,
    "every page but the first is noise": lambda raw: raw[:4096] + b"\xa5" * (len(raw) - 4096),
}
COMMANDS = [["ps"], ["ps", "--cached"], ["show", "x"], ["sync", "ls"], ["hosts", "ls"], ["daemon", "run", "--auto"]]


@pytest.fixture
def run_id(armada: Armada) -> str:
    return save_and_end(armada)


@pytest.fixture
def home(armada: Armada) -> HomePaths:
    return HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")


def lose(home: HomePaths) -> None:
    for file in home.state.glob("armada.db*"):
        file.unlink()


def damage(home: HomePaths, how: str) -> bytes:
    """Spoil the store, and give what it is now."""
    for suffix in ("-wal", "-shm"):
        home.store.with_name(f"armada.db{suffix}").unlink(missing_ok=True)
    spoilt = DAMAGES[how](home.store.read_bytes())
    home.store.write_bytes(spoilt)
    return spoilt


def spoil(home: HomePaths, run_id: str) -> Path:
    """Give one file of a checkpoint at home other bytes of the same number."""
    spoilt = home.checkpoints(run_id) / "checkpoint-20" / "model.bin"
    spoilt.chmod(0o600)
    spoilt.write_bytes(b"X" * spoilt.stat().st_size)
    return spoilt


def all_of(armada: Armada, run_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = armada.json("show", run_id)
    for changing in ("observed_at", "because", "experiment", "quota", "created_at"):
        shown.pop(changing)
    for checkpoint in shown["checkpoints"]:
        for changing in ("verified_at", "acknowledged_at", "on_host"):
            checkpoint.pop(changing)
    return shown


def test_a_lost_store_is_made_anew_with_everything_that_matters(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    before = all_of(armada, run_id)
    arrived = {path: path.stat().st_ino for path in home.checkpoints(run_id).rglob("*.bin")}
    lose(home)
    listed, shown = armada.run("ps"), armada.run("show", run_id)
    assert (listed.returncode, shown.returncode) == (0, 7)
    for said in (listed.stderr, shown.stderr):
        assert f"or {home.store} was deleted or replaced" in said
        assert "armada recover finds them again" in said
    lose(home)  # `ps` has made an empty one
    done = armada.json("recover")
    (local,) = done["hosts"]
    assert (done["store"], local["added"], local["error"]) == ("missing", [run_id], None)
    assert [Path(path).name for path in done["recognised"]] == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    assert all_of(armada, run_id) == before
    (outcome,) = armada.json("sync", "now")
    assert (outcome["published"], outcome["final"]) == ([], True)
    assert {path: path.stat().st_ino for path in home.checkpoints(run_id).rglob("*.bin")} == arrived
    states = [line.split()[2] for line in armada.run("show", run_id).stdout.splitlines() if line.startswith("  20")]
    assert states[0] == "preparing"
    assert states[-1] == "succeeded"


@pytest.mark.parametrize("is_polled", [False, True])
def test_a_host_costs_from_its_first_run_where_the_lost_store_knew_since_when(
    armada: Armada, home: HomePaths, run_id: str, is_polled: bool
) -> None:
    (before,) = [each for each in armada.json("hosts", "ls") if each["name"] == "local"]
    lose(home)
    if is_polled:  # the new, empty store knows the host since just now
        assert armada.run("hosts", "check", "local").returncode == 0
    assert armada.run("recover").returncode == 0
    with Database(home.store) as database:
        record, run = hosts.find(database, "local"), runs.find(database, run_id)
    assert record is not None
    assert run.started_at is not None
    assert before["first_seen_at"] <= run.started_at == record.first_seen_at


def test_where_no_sweep_is_known_a_run_of_none_is_not_named(armada: Armada, home: HomePaths) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sleep", "600"))["run_id"]
    lose(home)
    assert armada.json("recover")["sweeps"] == []
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_a_sweep_that_lost_its_rules_is_named(armada: Armada, home: HomePaths) -> None:
    experiment = armada.command("sleep", "600", sweep={"stop": {"hours": 1}})
    sweep = armada.json("sweep", experiment, "--host", "local", "--grid", "env.X=1")["sweep"]
    assert armada.json("recover")["sweeps"] == []
    lose(home)
    assert f"{sweep}: only the lost store had its `stop:` rules" in armada.run("recover").stdout
    assert armada.json("recover")["sweeps"] == [sweep]
    more = armada.run("sweep", "extend", sweep, "--grid", "env.X=2")
    assert more.returncode == 2
    assert f"only the lost store knew the experiment file of {sweep}" in more.stderr
    assert armada.run("sweep", "stop", sweep, "--grace", "0").returncode == 0
    assert armada.json("recover")["sweeps"] == []


def test_recovering_twice_changes_nothing(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    before = all_of(armada, run_id)
    for _ in range(2):
        done = armada.json("recover")
        assert (done["store"], done["hosts"][0]["added"], done["recognised"]) == ("sound", [], [])
        assert done["known_before"] == 3
    assert all_of(armada, run_id) == before
    assert list(home.state.glob("armada.db.*")) == list(home.state.glob(".recover-*")) == []
    lose(home)
    said = armada.run("recover").stdout
    assert "1 run and 3 checkpoints added" in said
    assert "checkpoint-10" not in said, "they are counted: hundreds of lines would hide the rest"


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_store_is_kept_and_replaced(armada: Armada, home: HomePaths, run_id: str, how: str) -> None:
    armada.json("sync", "now")
    before = all_of(armada, run_id)
    spoilt = damage(home, how)
    checked = armada.run("store", "check")
    assert (checked.returncode, "Traceback" in checked.stderr) == (2, False)
    assert "→ armada recover" in checked.stdout
    tried = armada.json("recover", "--dry-run")
    assert (tried["kept_as"], len(tried["recognised"])) == (None, 3)
    assert home.store.read_bytes() == spoilt
    done = armada.json("recover")
    assert Path(done["kept_as"]).read_bytes() == spoilt
    assert all_of(armada, run_id) == before
    assert armada.run("store", "check").returncode == 0


def test_what_only_home_knows_is_salvaged(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("pull", run_id, "--checkpoint", "20")
    with Database(home.store) as database:
        database.connection.execute(
            "UPDATE runs SET experiment = '/my/exp.yaml', \"group\" = 'mine', tags = '[\"arc\"]'"
        )
        database.connection.execute(
            "INSERT INTO notifications (key, kind, title, body, created_at) VALUES ('k', 'a', 'b', 'c', 1.0)"
        )
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = database.connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'series'").fetchone()
        (index,) = database.connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'runs_by_host'"
        ).fetchone()
    raw = bytearray(home.store.read_bytes())
    for spoilt in (page, index):
        raw[(spoilt - 1) * 4096 : spoilt * 4096] = b"\xa5" * 4096
    home.store.write_bytes(bytes(raw))
    done = armada.json("recover")
    assert (done["store"], done["salvaged"]["runs"], done["hosts"][0]["added"]) == ("damaged", 1, [])
    with Database(home.store) as database:
        assert database.connection.execute("SELECT experiment FROM runs").fetchone()[0] == "/my/exp.yaml"
        assert (runs.find(database, run_id).group, runs.find(database, run_id).tags) == ("mine", ("arc",))
        assert database.connection.execute("SELECT count(*) FROM notifications").fetchone()[0] == 1
        pinned = database.connection.execute(
            "SELECT step FROM checkpoints WHERE pinned AND home_path IS NOT NULL"
        ).fetchall()
        assert [row["step"] for row in pinned] == [20]
        assert database.connection.execute("SELECT count(*) FROM points").fetchone()[0] == 3  # read from the host again


def test_a_host_that_does_not_answer_is_named_and_asked_again_later(
    armada: Armada, home: HomePaths, run_id: str
) -> None:
    home.hosts_file.write_text("hosts: {away: {ssh: 'nobody@127.0.0.1:1'}}\n")
    lose(home)
    done = armada.run("recover")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "armada recover --host away" in done.stdout
    assert armada.json("ps", "--cached")[0]["run_id"] == run_id
    home.hosts_file.unlink()
    assert armada.run("recover").returncode == 0
    assert armada.run("recover", "--host", "nowhere").returncode == 7


def test_a_host_that_cannot_record_who_wants_a_run_is_named(armada: Armada, home: HomePaths, run_id: str) -> None:
    lose(home)
    homes = armada.local_runs / run_id / "homes"
    shutil.rmtree(homes)
    homes.write_text("in the way")
    recovered = armada.run("recover")
    words = f"local did not record that this home wants 1 run of it ({run_id}, for one)"
    assert words in " ".join(recovered.stdout.split()), recovered.stdout
    (told,) = armada.json("recover")["hosts"]
    assert (told["runs"], told["unenrolled"]) == (1, [run_id])


def test_a_run_whose_host_is_gone_is_known_by_what_came_home(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    before = all_of(armada, run_id)
    shutil.rmtree(home.local_root)
    lose(home)
    done = armada.json("recover")
    assert (done["runs_from_home"], len(done["recognised"])) == ([run_id], 3)
    after = all_of(armada, run_id)
    for of_the_host in ("checkpoints_host", "phase"):
        del before[of_the_host], after[of_the_host]
    assert after == before


def test_checkpoints_without_anything_else_are_still_recognised(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    kept = home.local_root.rename(home.state / "elsewhere")
    shutil.rmtree(home.run(run_id) / "outputs")
    lose(home)
    assert armada.json("recover")["runs_from_home"] == [run_id]
    (run,) = armada.json("ps", "--cached")
    assert (run["host"], run["state"], run["checkpoints_home"]) == ("?", "unknown", 3)
    shutil.rmtree(home.local_root)
    kept.rename(home.local_root)
    assert armada.json("recover")["hosts"][0]["added"] == [run_id]
    (run,) = armada.json("ps", "--cached")
    assert (run["host"], run["state"], run["checkpoints_home"]) == ("local", "succeeded", 3)


def test_a_checkpoint_that_is_not_what_it_says_is_put_aside_and_fetched_again(
    armada: Armada, home: HomePaths, run_id: str
) -> None:
    armada.json("sync", "now")
    spoilt = spoil(home, run_id)
    lose(home)
    assert [Path(path).name for path in armada.json("recover", "--sizes-only", "--dry-run")["recognised"]][
        1
    ] == "checkpoint-20"
    done = armada.json("recover", rc=7)
    ((wrong,), recognised) = (done["wrong"], [Path(path).name for path in done["recognised"]])
    assert recognised == ["checkpoint-10", "checkpoint-30"]
    assert "model.bin" in wrong["why"]
    assert (Path(wrong["path"]) / "model.bin").read_bytes().startswith(b"XXX")
    (outcome,) = armada.json("sync", "now", run_id)
    assert [Path(path).name for path in outcome["published"]] == ["checkpoint-20"]
    assert spoilt.read_bytes() == b"20" * 1000


def test_what_was_recognised_by_its_size_is_read_before_anything_relies_on_it(
    armada: Armada, home: HomePaths, run_id: str
) -> None:
    armada.json("sync", "now")
    spoilt = spoil(home, run_id)
    lose(home)
    assert len(armada.json("recover", "--sizes-only")["recognised"]) == 3
    assert [each["verified_at"] for each in armada.json("show", run_id)["checkpoints"]] == [None] * 3
    assert "3 not read" in armada.run("sync", "ls").stdout
    assert armada.run("show", run_id).stdout.count("home, not read") == 3
    armada.json("sync", "now", run_id)
    assert spoilt.read_bytes() == b"20" * 1000
    assert all(each["verified_at"] and each["trouble"] is None for each in armada.json("show", run_id)["checkpoints"])


def test_verify_reads_what_was_recognised_by_its_size(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    shutil.rmtree(armada.local_runs)  # its host is gone: only verify can read it
    lose(home)
    armada.json("recover", "--sizes-only")
    spoil(home, run_id)
    assert armada.run("sync", "verify", run_id, "--read-data").returncode == 7
    troubles = [each["trouble"] for each in armada.json("show", run_id)["checkpoints"]]
    assert [troubles[0], troubles[2]] == [None, None]
    assert troubles[1].startswith("damaged at home")


def test_a_dry_run_changes_nothing(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    lose(home)
    tried = armada.json("recover", "--dry-run")
    assert (tried["hosts"][0]["added"], len(tried["recognised"])) == ([run_id], 3)
    assert not home.store.exists()
    assert list(home.state.glob(".recover-*")) == []


def test_nothing_is_written_under_a_daemon(armada: Armada, home: HomePaths) -> None:
    home.daemon.mkdir(parents=True)
    with (home.daemon / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = armada.run("recover")
    assert (refused.returncode, "armada daemon stop" in refused.stderr) == (8, True)
    assert armada.run("recover").returncode == 0


def test_nothing_is_written_under_an_operation(armada: Armada, home: HomePaths) -> None:
    home.make()
    with Database(home.store) as database:
        database.connection.execute(
            "INSERT INTO operations (id, kind, argv, pid, start_time, boot_id, state, started_at, updated_at)"
            " VALUES ('x', 'launch', '[]', ?, ?, ?, 'running', 1.0, 1.0)",
            process_identity.current(),
        )
    for options in ([], ["--dry-run"]):
        refused = armada.run("recover", *options)
        assert (refused.returncode, "launch is running" in refused.stderr) == (8, True)


def test_a_damaged_store_that_somebody_has_open_is_left_in_place(armada: Armada, home: HomePaths) -> None:
    home.make()
    Database(home.store).close()
    with Database(home.store) as reader:
        assert reader.connection.execute("SELECT count(*) FROM runs").fetchone()[0] == 0
        # By another process: closing a descriptor here would drop the locks of this one, as POSIX has it.
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={home.store}", "bs=4096", "seek=1", "count=20", "conv=notrunc"], check=True
        )
        with contextlib.suppress(sqlite3.DatabaseError):
            reader.connection.execute("SELECT count(*) FROM runs").fetchone()
        held = armada.run("recover")
    assert armada.run("recover").returncode == 0
    assert (held.returncode, "another program has opened the store" in held.stderr) == (8, True), held.stderr


@pytest.mark.parametrize("how", DAMAGES)
def test_every_command_says_what_to_do_about_a_damaged_store(armada: Armada, home: HomePaths, how: str) -> None:
    home.make()
    with Database(home.store) as database:
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(home, how)
    for command in COMMANDS:
        said = armada.run(*command)
        assert said.returncode == 2, (command, said.stderr)
        assert "armada recover" in said.stderr, command
        assert "Traceback" not in said.stderr, command


def test_a_newer_store_is_refused_by_every_command_and_left_alone(armada: Armada, home: HomePaths) -> None:
    home.make()
    Database(home.store).close()
    with contextlib.closing(sqlite3.connect(home.store)) as raw, raw:
        raw.execute("PRAGMA user_version = 999")
    raw.close()
    before = home.store.read_bytes()
    for command in [*COMMANDS, ["recover"], ["store", "check"]]:
        said = armada.run(*command)
        assert said.returncode == 2, (command, said.stderr)
        assert "the store has version 999, but this armada knows versions up to" in said.stderr, command
        assert "Traceback" not in said.stderr, command
    assert home.store.read_bytes() == before


def test_check_finds_what_store_and_home_disagree_about(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    assert armada.json("store", "check")["findings"] == []
    folder = home.checkpoints(run_id)
    shutil.rmtree(folder / "checkpoint-10")
    (folder / "checkpoint-20" / "model.bin").unlink()
    with Database(home.store) as database:
        database.connection.execute("DELETE FROM checkpoints WHERE step = 30")
    (folder / ".staging" / ("a" * 64)).mkdir(parents=True)
    (home.state / ".recover-killed").mkdir()
    found = armada.json("store", "check", rc=7)["findings"]
    assert [(f["kind"], f["command"]) for f in found] == [
        ("missing", "armada recover"),  # retention let the host's copy go
        ("wrong", f"armada sync verify {run_id}"),
        ("unrecorded", "armada recover"),
        ("left_over", f"armada sync now {run_id}"),
        ("left_over", "armada recover"),
    ]
    for finding in found:
        armada.run(*str(finding["command"]).split()[1:])
    assert armada.json("store", "check")["findings"] == []
    text = armada.run("store", "check").stdout
    assert "sound (version" in text
    assert "2 checkpoints at home compared with it; problems: 0" in text


def test_an_older_store_is_migrated_by_the_next_command(armada: Armada, home: HomePaths) -> None:
    from armada.store.database import MIGRATIONS

    home.make()
    with contextlib.closing(sqlite3.connect(home.store)) as raw, raw:
        raw.executescript(MIGRATIONS[0])
        raw.execute("PRAGMA user_version = 1")
        raw.execute(
            "INSERT INTO runs (run_id, name, host, task, spec, state, created_at)"
            " VALUES ('old-aaaaaa', 'old', 'box', 'sft', '{}', 'succeeded', 1.0)"
        )
    raw.close()
    assert armada.json("store", "check")["condition"] == "old"
    assert [run["run_id"] for run in armada.json("ps", "--cached")] == ["old-aaaaaa"]
    checked = armada.json("store", "check")
    assert (checked["condition"], checked["version"]) == ("sound", len(MIGRATIONS))
    assert json.dumps(checked)


@pytest.mark.fault(
    "kill -9 of `armada recover` on a damaged store", "the same again ends it; the damaged store is kept, once"
)
def test_a_recovery_killed_at_any_instant_is_ended_by_the_next(
    armada: Armada, home: HomePaths, run_id: str, record_property: Callable[[str, object], None]
) -> None:
    armada.json("sync", "now")
    before = all_of(armada, run_id)
    chance = dice(5)
    times = moments.times(4)
    record_property("times", times)
    spoilt = damage(home, "every page but the first is noise")
    for turn in range(times):
        steps: list[moments.Moment] = [None, lambda: list(home.state.glob(".recover-*"))]
        recovery = armada.start("recover")
        moments.end_after(recovery, steps[turn % 2], recovery.kill, chance)
        recovery.communicate()
    assert armada.run("recover").returncode == 0
    assert all_of(armada, run_id) == before
    kept = [file for file in home.state.glob("armada.db.damaged-*") if file.read_bytes() == spoilt]
    assert len(kept) == 1
    assert armada.run("store", "check").returncode == 0
    assert list(home.state.glob(".recover-*")) == []


def test_what_hosts_and_folders_claim_is_not_believed(armada: Armada, home: HomePaths, run_id: str) -> None:
    armada.json("sync", "now")
    whole = json.loads((home.local_root / "runs" / run_id / "spec.json").read_text())
    claims: dict[str, object] = {
        "other-1": {**whole, "run_id": run_id},
        "list-1": [whole],
        "job-1": {**whole, "run_id": "job-1", "job": [1]},
        "sync-1": {**whole, "run_id": "sync-1", "sync": 7, "scheduler": "slurm"},
        "name-1": {**whole, "run_id": "name-1", "name": {"a": 1}},
        "deep-1": None,
        "screen-1": {
            **whole,
            "run_id": "screen-1",
            "name": "\x1b[2J\x1b]52;c;eA==\x07",
            "created_at": 1e300,
            "task": "x" * 5000,
        },
    }
    for name, claim in claims.items():
        folder = home.local_root / "runs" / name
        folder.mkdir()
        (folder / "spec.json").write_text(json.dumps(claim) if claim else "[" * 100_000)
        (folder / "state.json").write_text('{"state": "nonsense", "seq": "x", "gpus": {}}')
    outside = armada.folder / "outside"
    shutil.copytree(home.checkpoints(run_id) / "checkpoint-10", outside)
    (home.checkpoints(run_id) / "checkpoint-77").symlink_to(outside)
    escape = home.checkpoints(run_id) / "checkpoint-88"
    escape.mkdir()
    file = {"path": "../../../../outside/model.bin", "size": 2000, "sha256": "0" * 64}
    (escape / "MANIFEST.json").write_text(json.dumps({"format": 1, "step": 88, "files": [file]}))
    lose(home)
    said = armada.run("recover", "--json")
    done = json.loads(said.stdout)
    assert (said.returncode, "Traceback" in said.stderr) == (7, False)
    assert sorted(done["hosts"][0]["added"]) == sorted([run_id, "screen-1"])
    assert {entry["run_id"] for entry in done["hosts"][0]["damaged"]} == set(claims) - {"screen-1"}
    assert [Path(path).name for path in done["recognised"]] == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    ((wrong),) = done["wrong"]
    assert Path(wrong["path"]).name.startswith("wrong-checkpoint-88")
    assert outside.is_dir()
    for command in (
        ["ps", "--all"],
        ["show", "screen-1"],
        ["show", run_id],
        ["sync", "ls"],
        ["store", "check"],
        ["recover"],
    ):
        shown = armada.run(*command)
        assert "\x1b" not in shown.stdout + shown.stderr
        assert "Traceback" not in shown.stderr, command
