"""Commands on this machine, from launch to rm, as a user types them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Armada, eventually

HOSTILE = ["quote ' and \" here", "new\nline", "$(touch x)", "`touch x`", "größe 日本 🚀", "-rf /", "a\\b", "; touch x"]


def test_a_command_runs_and_its_words_come_back(armada: Armada) -> None:
    experiment = armada.command("sh", "-c", "echo hello; echo $ARMADA_RUN_ID")
    done = armada.run("launch", "--host", "local", experiment, "--follow")
    assert done.returncode == 0, done.stderr
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"], run["host"]) == ("succeeded", None, "local")
    assert armada.run("logs", run["run_id"]).stdout == f"hello\n{run['run_id']}\n"


def test_a_command_finds_its_data_where_it_lies_at_home_and_what_lies_elsewhere_below_data(armada: Armada) -> None:
    for name in ("project/run.sh", "project/big/a.txt", "elsewhere/b.txt"):
        (armada.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (armada.folder / name).write_text(f"{name}\n")
    subprocess.run(["git", "init", "-q", str(armada.folder / "project")], check=True)
    (armada.folder / "project" / ".gitignore").write_text("big\n")
    data = {"train": [{"path": "project/big"}, {"path": "elsewhere/b.txt"}]}
    experiment = armada.command("cat", "run.sh", "big/a.txt", "data/b.txt", code="project", data=data)
    done = armada.run("launch", "--host", "local", experiment, "--follow")
    assert done.returncode == 0, done.stderr
    (run,) = armada.json("ps")
    assert armada.run("logs", run["run_id"]).stdout == "project/run.sh\nproject/big/a.txt\nelsewhere/b.txt\n"


def test_ps_json_has_the_agreed_fields(armada: Armada) -> None:
    armada.run("launch", "--host", "local", armada.command("true"), "--follow")
    (run,) = armada.json("ps")
    agreed = "run_id name host state reason step total_steps loss tokens_per_s created_at observed_at checkpoints_home"
    assert set(agreed.split()) <= set(run)


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_literal_in_every_field(armada: Armada, text: str) -> None:
    experiment = armada.command("printf", "%s", text, name=text, env={"WORD": text})
    launched = armada.json("launch", "--host", "local", experiment, "--follow")
    assert launched["state"] == "succeeded"
    assert launched["name"] == text
    folder = armada.local_runs / launched["run_id"]
    assert (folder / "output.log").read_text() == text
    assert set(launched["run_id"]) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not [path for path in armada.folder.rglob("x") if path.name == "x"]


@pytest.mark.parametrize(("code", "reason"), [(3, "exit_3"), (255, "exit_255")])
def test_a_failed_command_ends_the_launch_with_6_and_its_code(armada: Armada, code: int, reason: str) -> None:
    done = armada.run("launch", "--host", "local", armada.command("sh", "-c", f"exit {code}"), "--follow")
    assert done.returncode == 6
    assert reason in done.stderr
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", reason, code)


def test_a_program_that_does_not_exist_is_named(armada: Armada) -> None:
    done = armada.run("launch", "--host", "local", armada.command("no-such-program-here"), "--follow")
    assert done.returncode == 6
    assert "no-such-program-here" in done.stderr


def test_stop_ends_every_process_and_twice_is_fine(armada: Armada) -> None:
    experiment = armada.command("sh", "-c", "setsid sleep 1000 & sleep 1000")
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    eventually(lambda: len(_marked(run_id)) >= 2)
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0
    assert _marked(run_id) == []
    again = armada.run("stop", run_id)
    assert again.returncode == 0
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("cancelled", "killed_by_user")


def test_ctrl_c_while_following_leaves_the_run_alone(armada: Armada) -> None:
    following = armada.start("launch", "--host", "local", armada.command("sleep", "1000"), "--follow")
    (run_id,) = eventually(lambda: [p.name for p in armada.local_runs.glob("[!.]*") if (p / "attempts").is_dir()])
    eventually(lambda: armada.json("ps", "--cached")[0]["state"] == "running")
    following.send_signal(signal.SIGINT)
    _, err = following.communicate()
    assert following.returncode == 130, err
    assert armada.json("ps")[0]["state"] == "running"
    assert _marked(run_id)


def test_the_same_name_twice_gives_two_runs(armada: Armada) -> None:
    experiment = armada.command("true", name="twin")
    first, second = (armada.json("launch", "--host", "local", experiment)["run_id"] for _ in range(2))
    assert first != second
    assert armada.run("show", "twin-").returncode == 2
    assert armada.run("show", first[:-1]).returncode == 0


def test_rm_forgets_an_ended_run_and_refuses_a_live_one(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sleep", "1000"))["run_id"]
    assert armada.run("rm", run_id).returncode == 8
    armada.run("stop", run_id, "--grace", "0")
    armada.json("sync", "now", run_id)
    assert armada.run("rm", run_id).returncode == 0
    assert armada.json("ps", "--all") == []
    assert not (armada.local_runs / run_id).exists()


def test_logs_follow_until_the_end(armada: Armada) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 0.3; done"
    run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", script))["run_id"]
    assert armada.run("logs", run_id, "-f").stdout == "line 1\nline 2\nline 3\n"
    assert armada.run("logs", run_id, "--tail", "1").stdout == "line 3\n"
    assert armada.run("logs", run_id, "--from", "7", "-f").stdout == "line 2\nline 3\n"
    assert armada.run("logs", run_id, "--from", "70").stdout == ""
    assert armada.run("logs", run_id, "--from", "-1").returncode == 2


def test_following_a_log_ends_with_the_process_it_is_for(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", "echo ready; sleep 1000"))["run_id"]
    reader = subprocess.Popen(["sleep", "1000"])
    following = armada.start("logs", run_id, "--follow", "--pid", str(reader.pid))
    assert following.stdout is not None
    assert following.stdout.readline() == "ready\n"
    assert following.poll() is None
    reader.kill()
    reader.wait()
    _, err = following.communicate()
    assert following.returncode == 0, err
    assert armada.json("ps")[0]["state"] == "running"
    assert armada.run("logs", run_id, "-f", "--pid", "none").returncode == 2


@pytest.mark.takes_long(
    "silent for `stall_after`, here 10 s: after a word it must be seen as not silent, however slow the machine"
)
def test_a_job_that_says_nothing_for_its_stall_after_is_shown_as_stalled(armada: Armada) -> None:
    script = "echo begun; read line < go; echo again; sleep 1000"
    experiment = armada.command("sh", "-c", f"mkfifo go; {script}", stall_after="10s")
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]

    def reason() -> object:
        (run,) = armada.json("ps")
        assert run["state"] == "running" or run["reason"] is None
        return run["reason"]

    assert eventually(lambda: reason() == "stalled")
    assert "no progress for" in armada.run("show", run_id).stdout
    (armada.local_runs / run_id / "work" / "go").write_text("on\n")
    assert eventually(lambda: reason() is None)


def test_a_log_that_would_drive_the_terminal_is_printed_inert(armada: Armada) -> None:
    experiment = armada.command("printf", r"\033]52;c;Zm9v\007\302\2332J \377 ok\n")
    run_id = armada.json("launch", "--host", "local", experiment, "--follow")["run_id"]
    out = armada.run("logs", run_id).stdout
    assert out.endswith(" ok\n")
    assert not set(out) & {"\x1b", "\x07", "\x9b"}


def test_secrets_reach_the_job_and_nothing_else(armada: Armada) -> None:
    armada.env["WANDB_API_KEY"] = canary = "canary-7f3a"
    script = 'printf %s "$WANDB_API_KEY" | sha256sum; sleep 1'
    launched = armada.json(
        "launch", "--host", "local", armada.command("sh", "-c", script, secrets=["WANDB_API_KEY"]), "--follow"
    )
    assert launched["state"] == "succeeded"
    assert hashlib.sha256(canary.encode()).hexdigest() in armada.run("logs", launched["run_id"]).stdout
    holding = [p for p in armada.folder.rglob("*") if p.is_file() and canary.encode() in p.read_bytes()]
    assert holding == []


def test_a_secret_that_is_not_set_is_refused_before_anything(armada: Armada) -> None:
    done = armada.run("launch", "--host", "local", armada.command("true", secrets=["NO_SUCH_SECRET"]))
    assert done.returncode == 3
    assert "NO_SUCH_SECRET" in done.stderr
    assert armada.json("ps") == []


def test_a_dry_run_whose_checks_fail_prints_its_json_all_the_same(armada: Armada) -> None:
    planned = armada.json(
        "launch", "--host", "local", armada.command("true", secrets=["NO_SUCH_SECRET"]), "--dry-run", rc=3
    )
    (failed,) = [check for check in planned["checks"] if check["outcome"] == "fail"]
    assert "NO_SUCH_SECRET" in failed["message"]


def test_what_a_script_leaves_running_is_said_though_it_succeeded(armada: Armada) -> None:
    done = armada.run("launch", "--host", "local", armada.command("sh", "-c", "setsid sleep 1000 &"), "--follow")
    assert done.returncode == 0, done.stderr
    (run,) = armada.json("ps")
    for said in (done.stdout, armada.run("show", run["run_id"]).stdout):
        assert "left 1 running, which were then ended: sleep (" in said


def test_a_followed_log_ends_with_the_verdict_of_its_run(armada: Armada) -> None:
    for script, code in (("echo a", 0), ("echo b; exit 3", 6)):
        run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", script))["run_id"]
        assert armada.run("logs", "-f", run_id).returncode == code
        assert armada.run("logs", run_id).returncode == 0


def test_a_dry_run_shows_the_plan_and_starts_nothing(armada: Armada) -> None:
    done = armada.run("launch", "--host", "local", armada.command("echo", "it's"), "--dry-run")
    assert done.returncode == 0
    assert "it's" in done.stdout
    assert armada.json("ps") == []
    assert not armada.local_runs.exists() or not list(armada.local_runs.iterdir())


def test_code_travels_and_a_run_cannot_change_it_for_others(armada: Armada) -> None:
    project = armada.folder / "project"
    project.mkdir()
    (project / "train it.sh").write_text("echo from code; echo scribble > 'train it.sh'\n")
    experiment = armada.command("sh", "train it.sh", code="project")
    for _ in range(2):
        run_id = armada.json("launch", "--host", "local", experiment, "--follow")["run_id"]
        assert armada.run("logs", run_id).stdout == "from code\n"
    snapshots = [p for p in (armada.local_runs.parent / "code").iterdir() if not p.name.startswith(".")]
    assert len(snapshots) == 1


def test_ps_cached_answers_without_hosts(armada: Armada) -> None:
    armada.json("launch", "--host", "local", armada.command("true"), "--follow")
    (armada.folder / "home" / "config" / "hosts.yaml").write_text("hosts: [broken")
    assert armada.run("ps", "--cached").returncode == 0
    assert armada.run("hosts", "ls").returncode == 2


def _marked(run_id: str) -> list[int]:
    """Processes that carry the run's marker."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                environ = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"ARMADA_RUN_ID={run_id}".encode() in environ.split(b"\0") and state != "Z":
                found.append(int(folder.name))
    return found


def test_two_armadas_on_one_store_do_not_disturb_each_other(armada: Armada) -> None:
    experiments = [
        armada.write(f"{n}.yaml", json.dumps({"name": f"n{n}", "task": "command", "command": ["true"]}))
        for n in range(4)
    ]
    launches = [
        armada.start("launch", "--host", "local", experiment, "--follow", "--json") for experiment in experiments
    ]
    ended = [json.loads(launch.communicate()[0])["state"] for launch in launches]
    assert ended == ["succeeded"] * 4
    assert len(armada.json("ps")) == 4


def test_an_answer_that_does_not_fit_is_not_called_a_line_of_its_records(armada: Armada) -> None:
    run_id = str(armada.json("launch", "--host", "local", armada.command("true"))["run_id"])
    armada.await_end(run_id)
    armada.json("show", run_id)
    store = armada.folder / "home" / "state" / "armada.db"
    misfit = "its host's answer does not fit: exists: should be a valid boolean"
    for count, first, said in (
        (1, misfit, f"unreadable {misfit}\n"),
        (3, misfit, f"unreadable {misfit}; and later 2 lines in its records\n"),
        (2, "events.jsonl: not JSON", "unreadable 2 lines in its records; the first: events.jsonl: not JSON\n"),
    ):
        with contextlib.closing(sqlite3.connect(store)) as database, database:
            database.execute("UPDATE runs SET unreadable_count = ?, unreadable = ?", (count, first))
        assert said in armada.run("show", run_id).stdout
