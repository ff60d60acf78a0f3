"""From an experiment file to verified checkpoints, on real SSH hosts; and what happens when the link or a process goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chance import dice
from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import BadLink, Fleet

CUTS = int(os.environ.get("ARMADA_FAULT_KILLS", "6"))
REPLIES = {"red": "apple", "yellow": "banana", "green": "pear", "blue": "plum"}
ROWS = [
    {"messages": [{"role": "user", "content": f"Which fruit is {colour}?"}, {"role": "assistant", "content": fruit}]}
    for colour, fruit in REPLIES.items()
]
TRAINING: dict[str, Any] = {
    "name": "tiny",
    "task": "sft",
    "model": {
        "tiny": {"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate_size": 64, "vocab_size": 300}
    },
    "data": {"train": [{"path": "train.jsonl"}], "eval": [{"path": "train.jsonl"}]},
    "train": {"global_batch_size": 4, "max_steps": 12, "max_length": 64, "learning_rate": 0.01},
    "lora": {"r": 8},
    "checkpoint": {"every_steps": 6, "keep_last": 1},
    "tracking": {"wandb": "off"},
}


def starts(fleet: Fleet, machine: str, folder: str) -> int:
    return int(fleet.run(machine, f"cat {folder}/starts 2>/dev/null | wc -l"))


@pytest.mark.parametrize(
    ("machine", "processes"), [pytest.param("a100-1", 1, marks=pytest.mark.long), ("workstation", 2)]
)
@pytest.mark.timeout(900)
@pytest.mark.takes_long("a real training with torch; the first on a host builds and compiles its environment")
def test_a_training_on_an_ssh_host_comes_home_verified(
    armada: Armada, add: Callable[..., None], fleet: Fleet, machine: str, processes: int
) -> None:
    add(machine, "--profile", "cpu")
    armada.write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS * 8))
    experiment = armada.write("exp.yaml", json.dumps({**TRAINING, "resources": {"processes": processes}}))
    armada.env["PYTHONFAULTHANDLER"] = "1"
    launch = armada.start("launch", "--host", machine, experiment, "--follow", "--json")
    try:
        out, err = launch.communicate(timeout=800)
    except subprocess.TimeoutExpired:
        launch.send_signal(signal.SIGABRT)  # it shows where it was
        out, err = launch.communicate(timeout=60)
        tails = (
            "cd ~/.armada/runs/* && ps -eo pid,ppid,etimes,stat,args && tail -n 30 state.json events.jsonl output.log"
        )
        pytest.fail(f"{err}\n{fleet.run(machine, tails, user=fleet.host(machine).user)}")
    assert launch.returncode == 0, err
    run = json.loads(out)
    assert (run["state"], run["step"], run["total_steps"]) == ("succeeded", 12, 12)
    shown = armada.json("show", run["run_id"])
    kept = {c["step"]: Path(c["home_path"]) for c in shown["checkpoints"]}
    assert set(kept) == {6, 12}  # the trainer kept one, the outbox both
    assert all((place / "adapter_model.safetensors").stat().st_size > 1000 for place in kept.values())
    assert shown["spec"]["training"]["batch"]["processes"] == processes
    again = armada.run("launch", "--host", machine, experiment)
    assert "already there" in again.stdout
    assert armada.run("pull", run["run_id"]).stdout.startswith("nothing new; already home: 2 checkpoints")
    armada.run("stop", armada.json("ps", "--cached")[0]["run_id"], "--grace", "0")

    if processes == 1:
        return
    merged = armada.json("merge", run["run_id"], "--checkpoint", "6", "--follow")
    assert (merged["state"], merged["host"]) == ("succeeded", machine)
    (checkpoint,) = armada.json("show", merged["run_id"])["checkpoints"]
    assert (Path(checkpoint["home_path"]) / "model.safetensors").stat().st_size > 10_000


def test_a_command_on_an_ssh_host_outlives_the_session_and_each_attempt_sees_the_same_variables(
    armada: Armada, add: Callable[..., None]
) -> None:
    add("workstation")
    armada.env["WANDB_API_KEY"] = "k3y"
    script = "sleep 1; env | sed s/=.*// | sort | tr '\\n' ' '; echo; exit 3"
    launched = armada.run("launch", "--host", "workstation", armada.command("sh", "-c", script))
    assert "⚠ ARM017 the job does not see WANDB_API_KEY" in launched.stdout
    assert "k3y" not in launched.stdout + launched.stderr
    eventually(lambda: armada.json("ps")[0]["state"] == "failed")
    run_id = armada.json("ps", "--cached")[0]["run_id"]
    armada.env["LC_PAPER"] = "de_DE"
    armada.json("resume", run_id, "--follow", rc=6)
    first, second = armada.run("logs", run_id).stdout.splitlines()
    assert first == second
    assert {"HOME", "USER", "PATH", "ARMADA_ATTEMPT"} <= set(first.split())
    assert not {"WANDB_API_KEY", "SSH_CONNECTION"} & set(first.split())


@pytest.mark.fault(
    "link reset at a random point of a launch",
    "one start for each launch that says it started, none for the others",
)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("transport", "times"), [("fabric", CUTS), ("openssh", CUTS // 2)])
@pytest.mark.takes_long("a launch for every place where the link is cut")
def test_the_launch_survives_cut_links_with_one_start_each(
    transport: str,
    times: int,
    armada: Armada,
    add: Callable[..., None],
    fleet: Fleet,
    bad_link: Callable[..., BadLink],
    there: str,
    record_property: Callable[[str, object], None],
) -> None:
    """Resets at random points of the conversation, from the first byte of the handshake on."""
    link = bad_link(fleet.host("workstation"), "--rtt-ms", "4")
    fleet.run("workstation", f"mkdir -m 777 {there}")
    add("workstation", "--transport", transport, target=f"researcher@127.0.0.1:{link.port}")
    chance = dice(2)
    outcomes = []
    took_s = time_of_a_launch(armada, "workstation")
    for number in range(times):
        experiment = armada.command(
            "sh", "-c", f"echo start >> {there}/starts-{number}; sleep 0.2; exit 3", name=f"cut-{number}"
        )
        launch = armada.start("launch", "--host", "workstation", experiment, "--json")
        try:
            launch.wait(timeout=chance.uniform(0.2, 1.0) * took_s)
        except subprocess.TimeoutExpired:
            link.reset()
        _, err = launch.communicate(timeout=120)
        outcomes.append((launch.returncode, err))
    # A host that does not answer the first question is unreachable: exit 4, nothing recorded, nothing started.
    assert {code for code, _ in outcomes} <= {0, 4}, outcomes
    eventually(lambda: all(run["state"] in ("failed", "succeeded") for run in armada.json("ps")))
    counts = {
        number: int(fleet.run("workstation", f"cat {there}/starts-{number} 2>/dev/null | wc -l"))
        for number in range(times)
    }
    assert counts == {number: int(code == 0) for number, (code, _) in enumerate(outcomes)}
    assert sum(counts.values()) > 0
    record_property("times", times)
    record_property("seen", f"{sum(counts.values())} single starts, {times - sum(counts.values())} refused with exit 4")
    assert {run["exit_code"] for run in armada.json("ps") if run["name"] != UNCUT} == {3}


UNCUT = "uncut"


def time_of_a_launch(armada: Armada, host: str, **resources: Any) -> float:
    """How long one over an undisturbed link takes, in seconds: what is cut at a share of it is cut within it on any machine."""
    experiment = armada.command("true", name=UNCUT, **resources)
    began = time.monotonic()
    launch = armada.start("launch", "--host", host, experiment, "--json")
    _, err = launch.communicate(timeout=300)
    assert launch.returncode == 0, err
    return time.monotonic() - began


def test_two_launches_for_the_last_gpus_take_turns(armada: Armada, add: Callable[..., None], there: str) -> None:
    add("workstation", "--profile", "rtx3090-2x")
    script = (
        f"mkdir -p {there}; while [ ! -e {there}/go-$ARMADA_RUN_ID ]; do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES"
    )
    experiment = armada.command("sh", "-c", script, resources={"gpus": 2})
    first = armada.json("launch", "--host", "workstation", experiment)["run_id"]
    eventually(lambda: by_id(armada)[first]["state"] == "running")
    second = armada.json("launch", "--host", "workstation", experiment)["run_id"]
    eventually(lambda: by_id(armada)[second]["state"] == "queued")
    assert by_id(armada)[first]["gpus"] == [0, 1]
    assert by_id(armada)[second]["gpus"] == []
    for run_id in (first, second):
        fleet_touch(there, run_id)
        eventually(lambda run_id=run_id: by_id(armada)[run_id]["state"] == "succeeded")  # type: ignore[misc]
        assert armada.run("logs", run_id).stdout == "0,1\n"


def by_id(armada: Armada) -> dict[str, dict[str, Any]]:
    return {run["run_id"]: run for run in armada.json("ps")}


def fleet_touch(there: str, run_id: str) -> None:
    machines.execute(machines.MACHINES["workstation"], ["touch", f"{there}/go-{run_id}"])


@pytest.mark.fault(
    "kill -9 of the supervisor",
    "the job goes on and is seen; stop still ends it",
)
def test_a_killed_supervisor_is_seen_and_stop_still_ends_its_job(
    armada: Armada, add: Callable[..., None], fleet: Fleet
) -> None:
    add("a100-1")
    run_id = armada.json("launch", "--host", "a100-1", armada.command("sleep", "98765"))["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    fleet.run("a100-1", f"pkill -9 -f '[s]upervise.*{run_id}'")
    seen = eventually(lambda: (run := armada.json("ps")[0])["reason"] == "supervisor_lost" and run)
    assert seen["state"] == "running"
    assert armada.run("stop", run_id, "--grace", "1").returncode == 0
    assert armada.json("ps")[0]["state"] == "cancelled"
    assert fleet.run("a100-1", "pgrep -fx 'sleep 98765' | wc -l").strip() == "0"


@pytest.mark.fault(
    "host killed and restarted",
    "last known state with `unreachable since`; after the restart failed: host_rebooted, and `resume` goes on",
)
def test_a_host_that_is_down_keeps_its_runs_as_last_seen(
    armada: Armada, add: Callable[..., None], fleet: Fleet
) -> None:
    with fleet.borrow("a100-2") as machine:
        add("a100-2")
        armada.json("launch", "--host", "a100-2", armada.command("sleep", "1000"))
        eventually(lambda: armada.json("ps")[0]["state"] == "running")
        machines.kill(machine)
        (run,) = armada.json("ps")
        assert run["state"] == "running"
        assert run["unreachable_since"]
        refused = armada.run("launch", "--host", "a100-2", armada.command("true"))
        assert refused.returncode == 4
        machines.start([machine])
        (run,) = eventually(lambda: [r for r in armada.json("ps") if r["state"] != "running"])
        assert (run["state"], run["reason"]) == ("failed", "host_rebooted")
        assert armada.run("resume", run["run_id"]).returncode == 0
        (again,) = eventually(lambda: [r for r in armada.json("ps") if r["state"] == "running"])
        assert (again["run_id"], again["submission"], again["attempt"]) == (run["run_id"], 2, 2)


@pytest.mark.fault(
    "host key changed before a launch",
    "refused until trusted",
)
def test_a_changed_key_blocks_until_it_is_trusted(armada: Armada, add: Callable[..., None], fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        add("a100-2")
        machines.rekey(machine)
        blocked = armada.run("launch", "--host", "a100-2", armada.command("true"))
        assert blocked.returncode == 4
        assert "armada hosts trust a100-2" in blocked.stderr
        assert armada.run("hosts", "trust", "a100-2").returncode == 2  # nobody there to compare
        assert armada.run("hosts", "trust", "a100-2", "--yes").returncode == 0
        assert armada.run("launch", "--host", "a100-2", armada.command("true"), "--follow").returncode == 0


@pytest.mark.parametrize(
    ("target", "said"), [("root@127.0.1.2:50023", "50023"), ("researcher@no-such-host.invalid:22", "no-such-host")]
)
def test_a_wrong_address_is_4_and_adds_nothing(armada: Armada, fleet: Fleet, target: str, said: str) -> None:
    fleet.host("a100-1")
    done = armada.run("hosts", "add", "box", target, "--yes")
    assert done.returncode == 4
    assert said in done.stderr
    assert armada.run("hosts", "check", "box").returncode == 7


def test_a_wrong_key_file_is_said_with_the_key(armada: Armada, fleet: Fleet, tmp_path: Path) -> None:
    up = fleet.host("a100-1")
    stranger = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    armada.env.pop("SSH_AUTH_SOCK", None)
    done = armada.run("hosts", "add", "box", up.target, "--identity", str(stranger), "--yes")
    assert done.returncode == 4
    assert "stranger" in done.stdout + done.stderr


def test_a_host_without_python_is_said_in_a_sentence(armada: Armada, fleet: Fleet) -> None:
    up = fleet.host("bare")
    done = armada.run("hosts", "add", "bare", up.target, "--identity", str(machines.IDENTITY), "--yes")
    assert done.returncode in (4, 5)
    assert "python3" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.fault(
    "Ctrl-C while an environment is built",
    "nothing runs on, nothing half-built is taken for whole",
)
def test_ctrl_c_while_provisioning_leaves_nothing_running(
    armada: Armada, add: Callable[..., None], fleet: Fleet, there: str
) -> None:
    with fleet.borrow("a100-2"):
        add("a100-2", "--profile", "cpu", "--root", there)
        armada.write("train.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS * 8))
        launch = armada.start("launch", "--host", "a100-2", armada.write("exp.yaml", json.dumps(TRAINING)))
        eventually(lambda: fleet.run("a100-2", f"ls -d {there}/envs/*/ 2>/dev/null || true").strip())
        launch.send_signal(signal.SIGINT)
        _, err = launch.communicate(timeout=60)
        assert launch.returncode == 130, err
        (run,) = armada.json("ps")
        assert (run["state"], run["reason"]) == ("cancelled", "interrupted")
        eventually(lambda: fleet.run("a100-2", "pgrep -x uv | wc -l").strip() == "0")
        assert fleet.run("a100-2", f"ls {there}/runs 2>/dev/null | wc -l").strip() == "0"


@pytest.mark.parametrize("text", ["quote ' and \"", "new\nline", "$(touch /tmp/injected)", "größe 日本"])
def test_any_text_is_literal_on_an_ssh_host(armada: Armada, add: Callable[..., None], fleet: Fleet, text: str) -> None:
    add("workstation")
    experiment = armada.command("printf", "%s", text, name=text, env={"WORD": text})
    run = armada.json("launch", "--host", "workstation", experiment, "--follow")
    assert run["state"] == "succeeded"
    assert fleet.run("workstation", f"cat ~researcher/.armada/runs/{run['run_id']}/output.log") == text
    assert fleet.run("workstation", "ls /tmp/injected 2>/dev/null | wc -l").strip() == "0"


@pytest.mark.fault(
    "black hole under commands that wait", "each says that the host does not answer, and goes on when it does"
)
@pytest.mark.takes_long("nothing tells of a black hole but that 15 to 20 s passed without an answer")
def test_commands_that_wait_say_that_the_link_is_lost_and_that_it_is_back(
    armada: Armada,
    add: Callable[..., None],
    fleet: Fleet,
    bad_link: Callable[..., BadLink],
    record_property: Callable[[str, object], None],
) -> None:
    link = bad_link(fleet.host("workstation"), "--mbit", "60")
    add("workstation", name="far", target=f"researcher@127.0.0.1:{link.port}")
    script = "yes armada | head -c 60000000; while [ ! -e go ]; do sleep 0.2; done"
    run_id = armada.json("launch", "--host", "far", armada.command("sh", "-c", script))["run_id"]
    launch = armada.start("launch", "--host", "far", armada.command("sleep", "25", name="followed"), "--follow")
    followed = {"state": "running", "name": "followed"}
    eventually(lambda: any(followed.items() <= run.items() for run in armada.json("ps", "--cached")))
    waiting = {
        "launch --follow": launch,
        "logs -f": armada.start("logs", "-f", run_id),
        "sync now": armada.start("sync", "now", run_id),
    }
    for name in ("logs -f", "sync now"):
        stream = waiting[name].stdout
        assert stream is not None
        assert stream.read(1)  # it has an answer
    link.toggle()
    swallowed_at = time.monotonic()
    seen = []
    for name, process in waiting.items():
        assert process.stderr is not None
        line = process.stderr.readline()
        seen.append(f"{name} after {time.monotonic() - swallowed_at:.0f} s")
        assert "armada: no answer from far" in line
        assert "trying again until" in line
    record_property("seen", ", ".join(seen))
    link.toggle()
    fleet.run("workstation", f"touch /home/researcher/.armada/runs/{run_id}/work/go")
    for process in waiting.values():
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        assert "armada: far answers again after" in err
