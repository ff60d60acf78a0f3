"""Tab in real shells: commands, options, run ids, hosts and profiles; and how little it needs for that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from tests.conftest import Armada
from tests.tui.terminal import Terminal

START = {
    "bash": "bash --norc --noprofile -i",
    "zsh": "zsh -f -i",
    "fish": "fish --no-config -i",
}
SOURCE = {
    "bash": "source ./completion.bash",
    "zsh": "mkdir f; mv completion.zsh f/_armada; fpath=($PWD/f $fpath); autoload -U compinit; compinit -u -D",
    "fish": "source ./completion.fish",
}


@pytest.fixture(params=list(START))
def shell(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(name) is None or shutil.which("tmux") is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} and tmux must be there in CI")
        pytest.skip(f"needs {name} and tmux")
    return name


@pytest.fixture
def home(armada: Armada) -> HomePaths:
    """A home with runs and hosts."""
    found = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    found.make()
    found.hosts_file.write_text(
        "# mine\nhosts:\n  # the one under the desk\n  desk: {ssh: desk}\n  far-1:\n    ssh: me@far\nbwlimit: 5M\n"
    )
    with Database(found.store) as database:
        for run_id, host, state in (
            ("qwen-aaaaaa", "desk", "succeeded"),
            ("qwen-bbbbbb", "far-1", "running"),
            ("llama-cccccc", "desk", "failed"),
        ):
            runs.insert(database, run_id=run_id, name="n", host=host, task="sft", experiment=None, spec={})
            runs.set_state(database, run_id, state)
    return found


@pytest.fixture
def terminal(armada: Armada, home: HomePaths, shell: str) -> Iterator[Terminal]:
    """The shell, its completion loaded as the documentation says, with armada in its PATH."""
    binaries = armada.folder / "bin"
    binaries.mkdir()
    program = binaries / "armada"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m armada "$@"\n')
    program.chmod(0o755)
    armada.env["PATH"] = f"{binaries}:{os.environ['PATH']}"
    armada.env["PS1"] = "ready> "
    script = armada.run("completion", shell)
    assert script.returncode == 0, script.stderr
    armada.write(f"completion.{shell}", script.stdout)
    found = Terminal(armada)
    found.open(width=150, program=START[shell])
    found.keys(f"cd {armada.folder}; {SOURCE[shell]}; echo loa''ded", "Enter")
    found.shows("loaded")
    yield found
    found.tmux("kill-server")


def typed(terminal: Terminal, text: str, *expected: str) -> str:
    """What stands on the screen after a line without its end was typed and Tab was pressed."""
    terminal.keys("C-u", "C-l")
    terminal.keys("-l", text)
    terminal.keys("Tab")
    return terminal.shows(*expected)


def test_the_rest_of_a_word_is_filled_in(terminal: Terminal) -> None:
    typed(terminal, "armada show lla", "armada show llama-cccccc")
    typed(terminal, "armada logs qwen-b", "armada logs qwen-bbbbbb")
    typed(terminal, "armada stop qw", "armada stop qwen-bbbbbb")  # the only one that can be stopped
    typed(terminal, "armada launch --host de", "armada launch --host desk")
    typed(terminal, "armada hosts check far", "armada hosts check far-1")
    typed(terminal, "armada hosts set far", "armada hosts set far-1")
    typed(terminal, "armada hosts provision local --from far", "armada hosts provision local --from far-1")
    typed(terminal, "armada launch --profile rtx3090-", "armada launch --profile rtx3090-2x")
    typed(terminal, "armada profiles show h100-", "armada profiles show h100-pcie")
    typed(terminal, "armada store ch", "armada store check")
    typed(terminal, "armada pull llama-cccccc qwen-a", "armada pull llama-cccccc qwen-aaaaaa")
    typed(terminal, "armada ps --host fa", "armada ps --host far-1")
    typed(terminal, "armada ps --state runn", "armada ps --state running")
    typed(terminal, "armada help exit", "armada help exit-codes")
    typed(terminal, "armada config schema exp", "armada config schema experiment")


def test_a_setting_is_filled_in_with_the_values_it_can_have(terminal: Terminal) -> None:
    typed(terminal, "armada launch --set train.learning_r", "armada launch --set train.learning_rate=")
    typed(terminal, "armada launch --set train.lr_scheduler=cos", "armada launch --set train.lr_scheduler=cosine")
    typed(terminal, "armada launch --set train.seed=7 --host de", "armada launch --set train.seed=7 --host desk")


def test_several_are_listed(terminal: Terminal) -> None:
    terminal.keys("C-l")
    terminal.keys("-l", "armada show qwen-")
    terminal.keys("Tab", "Tab")
    terminal.shows("qwen-aaaaaa", "qwen-bbbbbb")


def test_what_is_offered_comes_newest_first_and_says_what_it_is(armada: Armada, home: HomePaths) -> None:
    assert armada.run("__complete", "runs").stdout.splitlines() == [
        "llama-cccccc\tfailed on desk",
        "qwen-bbbbbb\trunning on far-1",
        "qwen-aaaaaa\tsucceeded on desk",
    ]
    assert armada.run("__complete", "active").stdout == "qwen-bbbbbb\trunning on far-1\n"
    hosts = [line.split("\t")[0] for line in armada.run("__complete", "hosts").stdout.splitlines()]
    assert hosts == ["local", "desk", "far-1"]
    home.hosts_file.write_text("hosts: {one: {ssh: a}, two: {ssh: b}}\n")
    (armada.folder / "armada.yaml").write_text("hosts:\n    'three': {ssh: c}\n")
    hosts = [line.split("\t")[0] for line in armada.run("__complete", "hosts").stdout.splitlines()]
    assert hosts == ["local", "one", "two", "three"]


def test_every_setting_and_what_it_can_have_is_offered(armada: Armada) -> None:
    keys = armada.run("__complete", "settings").stdout.split()
    assert {"name=", "train.learning_rate=", "model.tiny.layers=", "sync.keep_home.last=", "data.train="} <= set(keys)
    assert not {key for key in keys if key.startswith(("origin", "places"))}
    assert "train=" not in keys
    assert armada.run("__complete", "settings", "train.compile=").stdout.split() == [
        "train.compile=true",
        "train.compile=false",
    ]
    quantize = armada.run("__complete", "settings", "lora.quantize=n").stdout.split()
    assert quantize == ["lora.quantize=none", "lora.quantize=nf4", "lora.quantize=fp4"]
    for nothing in ("train.learning_rate=", "nope=", "$(touch x)=", "="):
        assert armada.run("__complete", "settings", nothing).stdout == ""


@pytest.mark.parametrize("trouble", ["none", "damaged", "newer", "locked", "unreadable hosts"])
def test_nothing_is_ever_complained_about(armada: Armada, home: HomePaths, trouble: str) -> None:
    with Database(home.store) as database:
        match trouble:
            case "none":
                shutil.rmtree(home.state)
            case "damaged":
                home.store.write_bytes(b"x" * 10_000)
            case "newer":
                database.connection.execute("PRAGMA user_version = 999")
            case "locked":
                database.connection.execute("BEGIN EXCLUSIVE")
            case _:
                home.hosts_file.write_bytes(b"hosts: {\xff")
        for kind in ("runs", "active", "hosts", "profiles", "no such kind", ""):
            said = armada.run("__complete", kind)
            assert (said.returncode, said.stderr) == (0, "")


def test_hostile_names_do_not_reach_the_shell(armada: Armada, home: HomePaths) -> None:
    with Database(home.store) as database:
        database.connection.execute("PRAGMA foreign_keys = OFF")
        database.connection.execute(
            "UPDATE runs SET host = ?, run_id = ? WHERE run_id = 'qwen-aaaaaa'", ("$(touch x)\n\x1b[2J", "$(touch y)")
        )
        database.connection.execute("UPDATE runs SET host = ? WHERE run_id = 'qwen-bbbbbb'", ("`touch z`\nevil-1",))
    assert armada.run("__complete", "runs").stdout.splitlines() == [
        "llama-cccccc\tfailed on desk",
        "qwen-bbbbbb\trunning on touchzevil-1",
    ]


def test_a_tab_loads_little(armada: Armada, home: HomePaths) -> None:
    for kind in ("runs", "hosts", "profiles"):
        code = (
            "import sys; from armada.__main__ import main; main(['__complete', sys.argv[1]]);"
            "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, kind],
            env=armada.env,
            cwd=Path("/"),
            capture_output=True,
            text=True,
            check=True,
        )
        for heavy in ("pydantic", "ruamel", "argparse", "paramiko", "textual", "subprocess"):
            assert f"'{heavy}'" not in done.stderr, heavy
