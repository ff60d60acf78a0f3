"""`armada hosts provision` and a host's `provision:` tasks, over a real sshd, on a box without python3."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ssh_server
from tests.commands.task_box import FABFILE, configure, provision
from tests.conftest import Armada, eventually
from tests.ssh_server import SshServer
from tests.supervisors import kill_all


def prompted(armada: Armada, answer: str, *words: str) -> tuple[int, str, str]:
    """Type an answer once a command asks for it without an echo, which drops what was typed before."""
    master, slave = pty.openpty()
    try:
        command = [sys.executable, "-m", "armada", *words]
        with subprocess.Popen(
            command,
            cwd=armada.folder,
            env=armada.env,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # away from the terminal of whoever runs the tests
        ) as process:
            assert process.stderr is not None
            asked = b""
            while not asked.endswith(b"sudo password on box: ") and (more := os.read(process.stderr.fileno(), 4096)):
                asked += more
            os.write(master, f"{answer}\n".encode())
            out, err = process.communicate(timeout=100)
        return process.returncode, out.decode(), (asked + err).decode()
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_task_runs_once_over_the_pinned_connection_and_its_output_is_shown(
    box: Armada, server: SshServer, transport: str
) -> None:
    configure(box, server, transport=transport)
    try:
        done = box.run("hosts", "provision", "box", "fabfile.py:drivers=550")
        assert done.returncode == 0, done.stderr
        assert "driver 550 A100\n" in done.stdout
        assert f" {server.home}\n" in done.stdout
        assert "fabfile.py:drivers 550: done in" in done.stdout
        again = box.run("hosts", "provision", "box", "fabfile.py:drivers=550")
        assert "fabfile.py:drivers 550: ran there already" in again.stdout
        assert (server.home / "ran").read_text() == "again\n"
        assert provision(box, "--again", "fabfile.py:drivers=550") == [("fabfile.py:drivers 550", "ran")]
        assert provision(box, "fabfile.py:send") == [("fabfile.py:send", "ran")]
        assert (server.home / "sent.py").read_text() == "CARD = 'A100'\n"
        assert not (box.folder / "__pycache__").exists()
    finally:
        box.run("hosts", "disconnect", "box")


def test_a_task_goes_through_a_jump_host_under_the_key_of_each(
    armada: Armada, server: SshServer, tmp_path: Path
) -> None:
    user, _, _ = server.target.partition("@")
    with ssh_server.ssh_server(tmp_path / "far") as far:
        config = f"Host far gate\n  HostName 127.0.0.1\n  User {user}\nHost far\n  Port {far.port}\n  ProxyJump gate\n"
        config += f"  IdentityFile {far.identity}\nHost gate\n  Port {server.port}\n  IdentityFile {server.identity}\n"
        armada.env["ARMADA_SSH_CONFIG"] = str(armada.folder / armada.write("ssh_config", config))
        file = armada.folder / "home" / "config" / "hosts.yaml"
        file.parent.mkdir(parents=True)
        file.write_text("hosts: {box: {ssh: far}}\n")
        armada.write("fabfile.py", FABFILE)
        armada.write("names.py", "CARD = 'A100'\n")
        refused = armada.run("hosts", "provision", "box", "fabfile.py:drivers")
        assert refused.returncode == 4
        assert armada.run("hosts", "trust", "box", "--yes").returncode == 0
        assert provision(armada, "fabfile.py:drivers") == [("fabfile.py:drivers", "ran")]
        assert (far.home / "ran").exists()
        assert not (server.home / "ran").exists()
        pinned = armada.folder / "home" / "state" / "ssh" / "known_hosts"
        hops = [line for line in pinned.read_text().splitlines() if line.startswith("armada-box+hop1 ")]
        assert len(hops) == 1
        pinned.write_text(pinned.read_text().replace(f"{hops[0]}\n", ""))
        assert armada.run("hosts", "provision", "box", "fabfile.py:drivers", "--again").returncode == 4


def test_a_new_host_without_python3_is_told_which_task_gets_one(armada: Armada, server: SshServer) -> None:
    added = armada.run("hosts", "add", "box", server.target, "--identity", str(server.identity), "--yes")
    assert added.returncode == 5
    assert "no python3 on this host" in added.stdout + added.stderr
    assert "armada hosts provision box python" in added.stdout + added.stderr
    found = armada.run("doctor", "box")
    assert "armada hosts provision box python" in found.stdout + found.stderr


def test_what_is_new_runs_and_nothing_else(box: Armada, server: SshServer) -> None:
    tasks = ["--dry-run", "fabfile.py:drivers", "fabfile.py:mount_nas"]
    due = [("fabfile.py:drivers", "due"), ("fabfile.py:mount_nas", "due")]
    assert provision(box, *tasks) == due
    assert not list(server.home.iterdir()), "a dry run leaves nothing there"
    assert provision(box, *tasks[1:]) == [("fabfile.py:drivers", "ran"), ("fabfile.py:mount_nas", "ran")]
    assert provision(box, *tasks) == [("fabfile.py:drivers", "there"), ("fabfile.py:mount_nas", "there")]
    assert provision(box, "fabfile.py:drivers=9", "--dry-run") == [("fabfile.py:drivers 9", "due")], "other arguments"
    box.write("names.py", "CARD = 'H100'\n")
    assert provision(box, *tasks) == due, "a module that the file imports is new"
    box.write("names.py", "CARD = 'A100'\n")
    box.write("fabfile.py", FABFILE + "# new\n")
    assert provision(box, *tasks) == due, "the file is new"
    box.write("fabfile.py", FABFILE)
    for record in (server.home / ".armada" / "tools" / "tasks").iterdir():
        record.write_text("1234567890 1\n")
    assert provision(box, *tasks) == due, "the disk is of another installation"


def test_a_task_that_is_named_twice_runs_once(box: Armada, server: SshServer) -> None:
    twice = ["fabfile.py:drivers=550", "fabfile.py:drivers=535", "fabfile.py:drivers=550"]
    ran = [("fabfile.py:drivers 550", "ran"), ("fabfile.py:drivers 535", "ran")]
    assert provision(box, "--again", *twice) == ran
    assert (server.home / "ran").read_text() == "again\nagain\n"
    drivers = f"{box.folder}/fabfile.py:drivers"
    configure(box, server, provision=[drivers, {drivers: [1]}, {drivers: [True]}, drivers])
    assert len(provision(box, "--dry-run")) == 3


def test_root_needs_no_sudo_and_another_user_is_told_how_to_allow_it(box: Armada, server: SshServer) -> None:
    if os.geteuid() == 0:
        assert provision(box, "fabfile.py:mount_nas") == [("fabfile.py:mount_nas", "ran")]
        assert (server.home / "mounted").exists()
    server.program(
        "sudo", f'printf "%s\\n" "$*" >> {server.folder}/sudo; echo "sudo: a password is required" >&2; exit 1'
    )
    done = box.run("hosts", "provision", "box", "fabfile.py:asks")
    assert (done.returncode, "the task fabfile.py:asks failed: sudo needs a password there" in done.stderr) == (5, True)
    assert "armada hosts provision box --ask-sudo-password" in done.stderr
    assert "NOPASSWD" in done.stderr
    assert (server.folder / "sudo").read_text() == "-n -H -u nobody true\n", "it is never left waiting"
    asked = box.run("hosts", "provision", "box", "--ask-sudo-password", "fabfile.py:asks")
    assert (asked.returncode, "there is none" in asked.stderr) == (2, True)


def test_sudo_that_may_do_everything_runs_as_fabric_s(box: Armada, server: SshServer) -> None:
    server.program("sudo", 'while [ "$1" != nobody ]; do shift; done; shift; exec "$@"')
    done = box.run("hosts", "provision", "box", "fabfile.py:tries")
    assert (done.returncode, "exit 1 later\n" in done.stdout) == (0, True), done.stderr


def test_the_password_for_sudo_reaches_sudo_and_nothing_else(box: Armada, server: SshServer) -> None:
    server.program(
        "sudo",
        f"""printf '%s\\n' "$*" >> {server.folder}/sudo; printf '%s' "$3" >&2; read -r given
if [ "$given" = open-sesame ]; then echo let in; else echo "Sorry, try again." >&2; exit 1; fi""",
    )
    words = ("hosts", "provision", "box", "--ask-sudo-password", "fabfile.py:asks")
    code, out, err = prompted(box, "open-sesame", *words)
    assert (code, "let in\n" in out) == (0, True), err
    assert "open-sesame" not in out + (server.folder / "sudo").read_text()
    assert not any(b"open-sesame" in file.read_bytes() for file in (box.folder / "home").rglob("*") if file.is_file())
    code, _, err = prompted(box, "wrong", *words, "--again")
    assert (code, "sudo did not take the password" in err) == (5, True)
    code, _, err = prompted(box, "\x04", *words, "--again")
    assert (code, "armada: no password was given\n" in err, "Traceback" in err) == (2, True, False)


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_command_that_reads_gets_the_end_of_its_input_after_the_password(
    box: Armada, server: SshServer, transport: str
) -> None:
    configure(box, server, transport=transport)
    server.program(
        "sudo",
        """printf '%s' "$3" >&2; read -r given; [ "$given" = open-sesame ] || exit 1
while [ "$1" != nobody ]; do shift; done; shift; exec "$@\"""",
    )
    try:
        words = ("hosts", "provision", "box", "--ask-sudo-password", "fabfile.py:asks_and_reads")
        code, out, err = prompted(box, "open-sesame", *words)
        assert (code, "read ''\n" in out) == (0, True), err
    finally:
        box.run("hosts", "disconnect", "box")


@pytest.mark.parametrize("transport", ["fabric", "openssh"])
def test_a_command_that_reads_gets_the_end_of_its_input_where_sudo_asks_for_no_password(
    box: Armada, server: SshServer, transport: str
) -> None:
    configure(box, server, transport=transport)
    server.program(
        "sudo",
        f"""printf '%s\n' "$*" >> {server.folder}/sudo; while [ "$1" != nobody ]; do shift; done; shift; exec "$@\"""",
    )
    try:
        words = ("hosts", "provision", "box", "--ask-sudo-password", "fabfile.py:asks_and_reads", "fabfile.py:asks")
        code, out, err = prompted(box, "open-sesame", *words)
        assert (code, "read ''\n" in out) == (0, True), err
        asked = (server.folder / "sudo").read_text().splitlines()
        assert asked == ["-k -n -u nobody true", "-n -H -u nobody cat", "-n -H -u nobody true"]
    finally:
        box.run("hosts", "disconnect", "box")


def test_a_file_that_is_spelled_in_two_ways_is_one(box: Armada, server: SshServer) -> None:
    (box.folder / "same.py").symlink_to("fabfile.py")
    (box.folder / "deep").mkdir()
    spelled = ("fabfile.py:once", "./fabfile.py:once", "deep/../fabfile.py:once", "same.py:once")
    (server.home / "go").touch()
    assert provision(box, *spelled) == [("fabfile.py:once", "ran")]
    assert (server.home / "ran").read_text() == "once\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nosuch",), "nosuch"),
        (("box", "pyhton"), "armada brings no task called 'pyhton'"),
        (("box", "--profile", "nosuch"), "nosuch"),
    ],
)
def test_wrong_words_are_said_before_a_password_is_asked_for(box: Armada, words: tuple[str, ...], said: str) -> None:
    code, _, err = prompted(box, "open-sesame", "hosts", "provision", *words, "--ask-sudo-password")
    assert (code != 0, said in err, "sudo password" in err) == (True, True, False), err


def test_a_command_that_reads_gets_the_end_of_its_input(box: Armada) -> None:
    done = box.run("hosts", "provision", "box", "fabfile.py:reads")
    assert "read ''" in done.stdout, done.stderr


def test_a_task_that_fails_is_named_with_its_last_lines_and_runs_next_time(box: Armada, server: SshServer) -> None:
    done = box.run("hosts", "provision", "box", "fabfile.py:fails", "fabfile.py:drivers")
    assert done.returncode == 5
    assert "box: the task fabfile.py:fails failed: `echo 'E:" in done.stderr
    assert "ended with exit code 1. Its last lines:" in done.stderr
    assert "    40\n" in done.stderr
    assert "no such package" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr
    assert f"{box.folder}/fabfile.py:" in done.stderr, "the line that failed"
    assert not (server.home / "after").exists()
    assert not (server.home / "ran").exists(), "those after it are not started"
    assert provision(box, "--dry-run", "fabfile.py:fails") == [("fabfile.py:fails", "due")]


def test_whatever_a_task_does_to_its_process_armada_says_so(box: Armada) -> None:
    raised = box.run("hosts", "provision", "box", "fabfile.py:raises")
    assert (raised.returncode, "failed: ValueError: no such card" in raised.stderr) == (5, True)
    left = box.run("hosts", "provision", "box", "fabfile.py:leaves")
    assert (left.returncode, "its process ended with exit code 7" in left.stderr) == (5, True)
    assert "    leaving\n" in left.stderr
    forked = box.run("hosts", "provision", "box", "fabfile.py:forks")
    assert (forked.returncode, "its process ended with exit code 7" in forked.stderr) == (5, True)
    assert "    forking\n" in forked.stderr
    flood = box.run("hosts", "provision", "box", "fabfile.py:floods")
    assert flood.returncode == 0
    assert "            1000\n" in flood.stdout
    assert "            1001\n" not in flood.stdout
    assert "… 4,000 more lines, the last: 5000" in flood.stdout


@pytest.mark.parametrize(
    ("word", "text", "said"),
    [
        ("fabfile.py:drivres", FABFILE, "it has no task called 'drivres'\n  → did you mean drivers?"),
        ("fabfile.py:not_a_task", FABFILE, "not_a_task is not a task\n  → from fabric import task"),
        ("fabfile.py:x", "x = (\n", "fabfile.py:1: this is not valid Python"),
        ("fabfile.py:x", "\nraise KeyError('x')\n", "fabfile.py:2: importing it failed: KeyError: 'x'"),
        ("fabfile.py:x", "import sys\nsys.exit(3)\n", "fabfile.py:2: importing it failed: SystemExit: 3"),
        ("fabfile.py:x", "import nosuch\n", "-m pip install nosuch"),
        ("fabfile.py:x", "", "from fabric import task, then @task"),
        ("other.py:x", "", "other.py: there is no such file of tasks"),
        ("fabfile:x", "", "must name a Python file and a task of it"),
        ("fabfile.py", "", "armada brings no task called 'fabfile.py'\n  → name a task of it: fabfile.py:TASK"),
        ("~nobodyx/x.py:a", "", "'~nobodyx/x.py:a': this user does not exist"),
        ("pyhton", "", "armada brings no task called 'pyhton'\n  → did you mean python?"),
        ("system-packages", "", "system-packages needs the names of packages"),
        ("system-packages=-o", "", "'-o' cannot be the name of a package"),
    ],
)
def test_what_is_no_task_is_said_before_the_host_is_asked(
    armada: Armada, server: SshServer, word: str, text: str, said: str
) -> None:
    configure(armada, server)  # its key is not pinned: it could not be asked
    armada.write("fabfile.py", text.replace("import names\n", "").replace("names.CARD", "1"))
    done = armada.run("hosts", "provision", "box", word)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_list_takes_no_task(armada: Armada) -> None:
    done = armada.run("hosts", "provision", "local", "uv", "--list")
    assert (done.returncode, "--list takes no TASK" in done.stderr) == (2, True)


def test_a_key_that_is_not_pinned_stops_a_task(armada: Armada, server: SshServer) -> None:
    configure(armada, server)
    armada.write("fabfile.py", "from fabric import task\n@task\ndef x(c):\n    c.run('cd; touch x')\n")
    done = armada.run("hosts", "provision", "box", "fabfile.py:x")
    assert done.returncode == 4
    assert "armada hosts trust box" in done.stderr
    assert not (server.home / "x").exists()


@pytest.mark.fault("Ctrl-C while a task runs on a host", "exit 130; it counts as not run, and runs again")
def test_ctrl_c_ends_a_task_which_then_runs_again(box: Armada, server: SshServer) -> None:
    with box.start("hosts", "provision", "box", "fabfile.py:wait") as started:
        eventually((server.home / "waiting").exists, "the task's command")
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=60)
    assert started.returncode == 130
    assert provision(box, "--dry-run", "fabfile.py:wait") == [("fabfile.py:wait", "due")]
    _end(server)


@pytest.mark.fault("armada is killed while a task runs on a host", "the task's process at home ends with it")
def test_an_armada_that_is_killed_takes_its_task_with_it(box: Armada, server: SshServer) -> None:
    with box.start("hosts", "provision", "box", "fabfile.py:wait") as started:
        eventually((server.home / "waiting").exists, "the task's command")
        (task_process,) = children(started.pid)
        started.kill()
        started.communicate(timeout=60)
    eventually(lambda: not Path(f"/proc/{task_process}").exists(), "the end of the task's process")
    _end(server)


def test_two_at_once_run_a_task_once(box: Armada, server: SshServer) -> None:
    words = ("hosts", "provision", "box", "fabfile.py:once")
    with box.start(*words) as first:
        eventually((server.home / "waiting").exists, "the task's command")
        with box.start(*words) as second:
            assert second.stdout is not None
            assert f"waiting    for process {first.pid} to finish (tasks of box" in second.stdout.readline()
            (server.home / "go").touch()
            out, err = second.communicate(timeout=60)
        assert first.wait(60) == 0
        first.communicate()
    assert (second.returncode, "fabfile.py:once: ran there already" in out) == (0, True), err
    assert (server.home / "ran").read_text() == "once\n"


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.fault("the connection is lost while a task runs", "said; it may have ended there, and runs again")
def test_a_lost_connection_says_that_the_task_may_have_ended(box: Armada, server: SshServer) -> None:
    with box.start("hosts", "provision", "box", "fabfile.py:wait") as started:
        eventually((server.home / "waiting").exists, "the task's command")
        server.cut()
        _, err = started.communicate(timeout=60)
    assert started.returncode == 4
    assert "the connection was lost during the task fabfile.py:wait; it may or may not have ended there" in err
    assert provision(box, "--dry-run", "fabfile.py:wait") == [("fabfile.py:wait", "due")]
    _end(server)


def _end(server: SshServer) -> None:
    """End what a task left there."""
    pid = int((server.home / "waiting").read_text())
    kill_all([pid])
