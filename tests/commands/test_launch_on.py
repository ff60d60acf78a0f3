"""`launch --on`: from a provider's line to a run. What happens before somebody may log in, with a real SSH server that lets nobody in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from armada.config.hosts import load_hosts
from armada.paths import HomePaths
from tests.commands.typed import typed
from tests.conftest import Armada
from tests.key_server import KeyServer, key_servers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with key_servers("a") as (found,):
        yield found


def line(server: KeyServer) -> str:
    return f"$ ssh -p {server.port} me@127.0.0.1 -L 8080:localhost:8080"


def paths(armada: Armada) -> HomePaths:
    home = armada.folder / "home"
    return HomePaths(home / "config", home / "state")


def hosts(armada: Armada) -> dict[str, str | None]:
    return {name: host.ssh for name, host in load_hosts(paths(armada)).items() if host.ssh}


def test_a_new_host_is_added_after_one_question_and_stays_when_the_launch_fails(
    armada: Armada, server: KeyServer
) -> None:
    experiment = armada.command("true")
    name = f"127.0.0.1-{server.port}"
    code, out, err = typed(armada, "y", "launch", "--on", line(server), experiment)
    assert code == 4, "the server lets nobody in"
    assert f"{name} (me@127.0.0.1:{server.port}), new; --name-of-host NAME gives another name" in out
    assert out.count("Is this the right key? Pin it?") == 1
    assert server.fingerprint in out
    assert f"{name} stays in hosts.yaml; armada hosts rm {name} removes it" in err
    assert hosts(armada) == {name: server.target}
    again = armada.run("launch", "--on", f"ssh://me@127.0.0.1:{server.port}", experiment)
    assert again.returncode == 4
    assert f"{name} ({server.target}), which is known" in again.stdout
    assert "Is this the right key?" not in again.stdout + again.stderr
    assert "stays in hosts.yaml" not in again.stderr
    (armada.folder / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (armada.folder / "id").chmod(0o600)
    other_key = armada.run("launch", "--on", f"ssh -p {server.port} -i id me@127.0.0.1", experiment)
    assert (
        f"its own key file is used, not {armada.folder / 'id'}: armada hosts set {name} --identity" in other_key.stdout
    )
    assert hosts(armada) == {name: server.target}


@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        ("missing.yaml", []),
        ("name: x\ntask: command\ncomand: [x]\n", []),
        ("name: x\ntask: command\ncommand: [x]\ncode: nowhere\n", []),
        ("name: x\ntask: command\ncommand: [x]\n", ["--set", "resources.gpuz=1"]),
        ("name: x\ntask: command\ncommand: [x]\n", ["--profile", "no-such"]),
        (
            "{name: x, task: sft, model: {id: x}, data: {train: [{path: none.jsonl}]}, train: {max_steps: 1, learning_rate: 1.0}}",
            [],
        ),
    ],
)
def test_a_wrong_experiment_is_said_before_anything_is_asked(
    armada: Armada, server: KeyServer, experiment: str, words: list[str]
) -> None:
    file = armada.write("exp.yaml", experiment) if ":" in experiment else experiment
    done = armada.run("launch", "--on", server.target, file, "--yes", *words)
    assert done.returncode in (2, 5, 7), done.stderr
    assert "Traceback" not in done.stderr
    assert server.asked == 0
    assert hosts(armada) == {}


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_without_a_yes_nothing_is_added(armada: Armada, server: KeyServer, dry: list[str]) -> None:
    experiment = armada.command("true")
    nobody = armada.run("launch", "--on", server.target, experiment, *dry)
    assert (nobody.returncode, "comparing the key needs a terminal" in nobody.stderr) == (2, True)
    code, out, err = typed(armada, "no", "launch", "--on", server.target, experiment, *dry)
    assert (code, "not pinned, nothing changed" in err) == (2, True)
    assert ("Use it for this dry run?" if dry else "Pin it?") in out
    wrong = armada.run("launch", "--on", server.target, experiment, "--expect", "SHA256:other", *dry)
    assert (wrong.returncode, "not the expected key" in wrong.stderr) == (4, True)
    assert hosts(armada) == {}
    assert not paths(armada).known_hosts.exists()


def test_a_dry_run_leaves_nothing_behind(armada: Armada, server: KeyServer) -> None:
    (armada.folder / "tmp").mkdir()
    armada.env["TMPDIR"] = str(armada.folder / "tmp")
    experiment = armada.command("true")
    done = armada.run(
        "launch", "--on", server.target, experiment, "--dry-run", "--expect", server.fingerprint, process=True
    )
    assert done.returncode == 4
    assert "refused the login" in done.stderr
    assert "stays in hosts.yaml" not in done.stderr
    assert hosts(armada) == {}
    assert not paths(armada).known_hosts.exists()
    assert list((armada.folder / "tmp").glob("armada-*")) == []
    assert list(paths(armada).ssh.glob("*")) == []


def test_names_of_hosts_are_kept_apart(armada: Armada, server: KeyServer) -> None:
    experiment = armada.command("true")
    paths(armada).config.mkdir(parents=True)
    paths(armada).hosts_file.write_text("hosts: {taken: {ssh: me@127.0.0.1:1}}\n")
    refused = armada.run("launch", "--on", server.target, experiment, "--yes", "--name-of-host", "taken")
    assert refused.returncode == 8
    assert "another host is called taken, at me@127.0.0.1:1" in refused.stderr
    assert f"armada hosts set taken --address {server.target}" in refused.stderr
    invalid = armada.run("launch", "--on", server.target, experiment, "--yes", "--name-of-host", "no good")
    assert (invalid.returncode, "letters, digits" in invalid.stderr) == (2, True)
    named = armada.run("launch", "--on", "taken", experiment, "--yes")
    assert (named.returncode, "--host taken" in named.stderr) == (2, True)
    assert server.asked == 0
    assert armada.run("launch", "--on", server.target, experiment, "--yes", "--name-of-host", "box").returncode == 4
    assert hosts(armada) == {"taken": "me@127.0.0.1:1", "box": server.target}
    other = armada.run("launch", "--on", server.target, experiment, "--yes", "--name-of-host", "other")
    assert (other.returncode, "known already, as box" in other.stderr) == (8, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one of the arguments --host --on is required"),
        (["--host", "local", "--on", "me@127.0.0.1:1"], "not allowed with argument"),
        (["--host", "local", "--yes"], "--yes is for a new host"),
        (["--host", "local", "--expect", "SHA256:x"], "--expect is for a new host"),
        (["--host", "local", "--name-of-host", "x"], "--name-of-host is for a new host"),
        (["--on", "scp -P 7 x me@box:"], "neither an address nor a line that begins with ssh"),
        (["--on", "ssh -J gate me@box"], "a jump host cannot be set in hosts.yaml"),
        (["--on=-oProxyCommand=x"], "must be an alias or user@address:port"),
        (["--on", "ssh -i none.pem me@box"], "none.pem is no file"),
        (["--on", ""], "must not be empty"),
    ],
)
def test_wrong_usage_is_2_in_a_sentence(armada: Armada, words: list[str], said: str) -> None:
    done = armada.run("launch", armada.command("true"), *words, "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)["error"]
    assert said in told["message"] + (told["hint"] or "")
    assert hosts(armada) == {}
