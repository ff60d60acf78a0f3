"""`armada ps` with filters: which runs are listed, which hosts are asked, and what is said of wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armada.cli.main import run
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database

RUNS = (
    ("qwen-lora-aaaaaa", "Qwen LoRA", "desk", "running"),
    ("qwen-full-bbbbbb", "qwen full", "far-1", "failed"),
    ("llama-cccccc", "llama [draft]", "desk", "failed"),
    ("strasse-dddddd", "STRASSE Ä", "gone", "succeeded"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomePaths:
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = HomePaths.from_environment()
    found.make()
    found.hosts_file.write_text("hosts:\n  desk: {ssh: me@127.0.0.1:1}\n  idle: {ssh: me@127.0.0.1:2}\n")
    with Database(found.store) as database:
        for place, (run_id, name, host, state) in enumerate(RUNS):
            runs.insert(database, run_id=run_id, name=name, host=host, task="sft", experiment=None, spec={})
            runs.set_state(database, run_id, state)
            database.connection.execute("UPDATE runs SET created_at = created_at + ? WHERE run_id = ?", (place, run_id))
    return found


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The first parts of the ids of the listed runs, oldest first; a list of them in the table is the same as in JSON."""
    assert run(["ps", "--cached", *words, "--json"]) == 0
    found = [each["run_id"] for each in json.loads(capsys.readouterr().out)]
    for more in ((), ("--why",), ("--all",)):
        assert run(["ps", "--cached", *words, *more]) == 0
        out = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in out[1 : len(found) + 1]] == found
    return [run_id.rpartition("-")[0] for run_id in reversed(found)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--host", "desk"], ["qwen-lora", "llama"]),
        (["--host", "desk", "--host", "gone"], ["qwen-lora", "llama", "strasse"]),
        (["--host", "idle"], []),
        (["--state", "failed"], ["qwen-full", "llama"]),
        (["--state", "failed", "--state", "running", "--host", "desk"], ["qwen-lora", "llama"]),
        (["--name", "LORA"], ["qwen-lora"]),
        (["--name", "qwen*"], ["qwen-lora", "qwen-full"]),
        (["--name", "full*"], []),
        (["--name", "*full"], ["qwen-full"]),
        (["--name", "qwen.full"], []),
        (["--name", "llama-c"], ["llama"]),
        (["--name", "[a"], []),
        (["--name", "ä"], ["strasse"]),
        (["--name", ""], ["qwen-lora", "qwen-full", "llama", "strasse"]),
        (["--limit", "1"], ["strasse"]),
        (["--limit", "1", "--state", "failed"], ["llama"]),
        (["--limit", "99"], ["qwen-lora", "qwen-full", "llama", "strasse"]),
    ],
)
def test_each_filter_lists_what_matches(
    home: HomePaths, capsys: pytest.CaptureFixture[str], words: list[str], found: list[str]
) -> None:
    assert listed(capsys, *words) == found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--host", "dsk"], 7, "no host is called 'dsk'\n  → did you mean desk? known: desk, far-1, gone, idle, local"),
        (["--host", "desk", "--host", "zzz"], 7, "no host is called 'zzz'\n  → known: desk, far-1, gone, idle, local"),
        (["--state", "Runing"], 2, "no state is called 'Runing'\n  → did you mean running? known: preparing, "),
        (["--limit", "0"], 2, "argument --limit: '0' is not a number of runs, such as 20"),
        (["--limit", "many"], 2, "argument --limit: 'many' is not a number of runs, such as 20"),
        (["--limit", "-3"], 2, "argument --limit: "),
    ],
)
def test_a_wrong_word_is_said_with_the_known_ones(
    home: HomePaths, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert run(["ps", "--cached", *words]) == code
    assert capsys.readouterr().err.startswith(f"armada: {said}")


def test_the_footer_counts_what_the_limit_and_the_day_leave_out(
    home: HomePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database(home.store) as database:
        database.connection.execute("UPDATE runs SET created_at = 1 WHERE run_id LIKE 'qwen-full%'")
    assert run(["ps", "--cached", "--limit", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "(2 more: --limit 1 hides them; 1 older: armada ps --all)"
    assert run(["ps", "--cached", "--limit", "3", "--all"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "(1 more: --limit 3 hides it)"
    assert run(["ps", "--cached", "--host", "far-1"]) == 0
    assert capsys.readouterr().out == "No such runs in the last day; 1 older: armada ps --all\n"
    assert run(["ps", "--cached", "--name", "nothing"]) == 0
    assert capsys.readouterr().out == "No such runs.\n"


def test_only_named_hosts_are_asked(home: HomePaths, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(home.store) as database:
        runs.set_state(database, "qwen-full-bbbbbb", "running")
    assert run(["ps", "--host", "far-1"]) == 0
    assert capsys.readouterr().err == "armada: far-1: no longer in hosts.yaml\n"
    assert run(["ps", "--name", "lora"]) == 0
    assert [line.split(":")[1] for line in capsys.readouterr().err.splitlines()] == [" desk"]
    assert run(["ps", "--host", "gone"]) == 0
    assert capsys.readouterr().err == ""
