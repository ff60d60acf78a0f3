"""Runs whose host is gone: it refuses connections, or was taken out of hosts.yaml."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from armada.home import own
from armada.paths import HomePaths
from armada.store import checkpoints, metrics, run_sync, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict
from tests.answers import outbox

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Armada

RUN = "tale-abc234"
DIGEST = "5" * 64
HOSTS = {"refuses connections": ("box", 4), "was removed": ("former", 7)}
"""The host of the run, and the exit code of what needs it; a port that nothing listens on answers at once."""


@pytest.fixture(params=HOSTS)
def dead(request: pytest.FixtureRequest, armada: Armada) -> tuple[str, int]:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    hosts = {"hosts": {"box": {"ssh": "nobody@127.0.0.1:1", "price_per_hour": 12.4}}}
    (config / "hosts.yaml").write_text(json.dumps(hosts))
    return HOSTS[request.param]


def place(
    armada: Armada, host: str, state: str = "succeeded", reason: str | None = None, *, log: str | None, synced: bool
) -> Path:
    """Put a run into the store as a launch, a look and a sync would have; gives its folder at home."""
    base = armada.folder / "home"
    home = HomePaths(base / "config", base / "state")
    home.make()
    own(home)
    now = time.time()
    with Database(home.store) as database:
        spec = {"run_id": RUN, "job": {"argv": ["true"]}}
        runs.insert(database, run_id=RUN, name="tale", host=host, task="command", experiment=None, spec=spec)
        runs.record(database, RUN, Verdict(state, reason, None, 1, 5, "it wrote so"), observed_at=now - 7200)
        entry = {"digest": DIGEST, "step": 40, "size_bytes": 1_200_000_000, "file_count": 3, "created_at": now - 9000}
        if not synced:
            checkpoints.record_outbox(database, RUN, outbox([entry]))
        run_sync.succeeded(
            database, RUN, began=now - 3600, next_due_at=None, final_of=1 if synced else None, left_there=0
        )
    outputs = home.run(RUN) / "outputs"
    outputs.mkdir(parents=True)
    if log is not None:
        (outputs / "output.log").write_text(log)
    return home.run(RUN)


def test_a_log_that_is_home_is_shown_from_there(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], log="one\n\x1b]52;c;Zm9v\x07two\nthree\n", synced=True)
    shown = armada.run("logs", RUN, "--tail", "2")
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "three")
    assert len(shown.stdout.splitlines()) == 2
    assert not set(shown.stdout) & {"\x1b", "\x07"}
    assert "showing the complete copy at home, synced 1 h 00 m ago" in shown.stderr
    assert armada.run("logs", RUN, "--from", "4").stdout.endswith("two\nthree\n")
    assert armada.run("logs", RUN, "--from", "4000").stdout == ""


def test_a_log_that_may_go_on_is_shown_as_far_as_it_came_and_said_to_be_a_part(
    armada: Armada, dead: tuple[str, int]
) -> None:
    place(armada, dead[0], "running", log="one\n", synced=False)
    shown = armada.run("logs", RUN)
    assert (shown.returncode, shown.stdout) == (dead[1], "one\n")
    assert f"the log of {RUN} may continue there" in shown.stderr


def test_of_a_log_whose_middle_did_not_come_home_both_parts_are_shown(armada: Armada, dead: tuple[str, int]) -> None:
    outputs = place(armada, dead[0], log="first\n", synced=True) / "outputs"
    (outputs / "output.log.end").write_text("later\nlast\n")
    shown = armada.run("logs", RUN, "--tail", "1")
    assert (shown.returncode, shown.stdout) == (0, "last\n")
    assert (
        "the copy at home has its beginning (6 B) and, in output.log.end, its end (11 B), synced 1 h 00 m ago"
        in shown.stderr
    )
    whole = armada.run("logs", RUN, "--from", "0")
    assert whole.stdout == "first\nlater\nlast\n"
    assert "the middle is not at home (sync.log_limit)" in whole.stderr
    log = "log        its first 6 B and its last 11 B are at home; the middle is only on box (sync.log_limit)"
    assert log.replace("box", dead[0]) in armada.run("show", RUN).stdout


def test_a_sync_lists_each_run_that_its_host_did_not_let_it_reach(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], log=None, synced=False)
    tried = armada.run("sync", "now", "--json")
    listed = json.loads(tried.stdout)
    jsonschema.validate(listed, schema_of(SHAPES["sync now"]))
    ((run_id, error),) = [(each["run_id"], each["error"]) for each in listed]
    assert (run_id, error["host"], error["exit_code"], tried.returncode) == (RUN, dead[0], dead[1], dead[1])
    assert error["message"] in tried.stderr


def test_where_no_log_came_home_that_is_said(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], log=None, synced=True)
    shown = armada.run("logs", RUN)
    assert shown.returncode == dead[1]
    assert f"no part of the log of {RUN} is at home" in shown.stderr


@pytest.mark.parametrize(("state", "reason", "code"), [("succeeded", None, 0), ("failed", "exit_3", 6)])
def test_a_followed_log_at_home_ends_with_the_verdict_of_its_run(
    armada: Armada, dead: tuple[str, int], state: str, reason: str | None, code: int
) -> None:
    place(armada, dead[0], state, reason, log="one\n", synced=True)
    shown = armada.run("logs", "-f", RUN)
    assert (shown.returncode, shown.stdout) == (code, "one\n")


def test_a_line_longer_than_what_is_shown_is_said_to_be_cut(armada: Armada) -> None:
    place(armada, "former", log="x" * 200_000 + "\n", synced=True)
    shown = armada.run("logs", RUN)
    assert len(shown.stdout) == 65_536
    assert "showing only their end; --from 0 shows everything" in shown.stderr
    whole = armada.run("logs", RUN, "--from", "0")
    assert (len(whole.stdout), "only their end" in whole.stderr) == (200_001, False)


def test_what_is_home_is_shown_and_pulled(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], log="one\n", synced=True)
    assert armada.json("show", RUN)["state"] == "succeeded"
    pulled = armada.run("pull", RUN)
    assert pulled.returncode == 0
    assert "what you asked for is at home" in pulled.stderr


def test_what_is_not_home_cannot_be_pulled(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], log="one\n", synced=False)
    for words in ([], ["--checkpoint", "40"]):
        assert armada.run("pull", RUN, *words).returncode in (dead[1], 7)


def test_forgetting_a_run_without_its_host_wants_force_and_names_what_is_given_up(
    armada: Armada, dead: tuple[str, int]
) -> None:
    folder = place(armada, dead[0], "running", log="one\n", synced=False)
    would = armada.run("rm", RUN, "--dry-run")
    refused = armada.run("rm", RUN)
    assert (would.returncode, refused.returncode) == (0, dead[1])
    assert f"armada rm {RUN} --without-host" in refused.stderr
    assert [run["run_id"] for run in armada.json("ps", "--cached")] == [RUN]
    done = armada.run("rm", RUN, "--force")
    assert done.returncode == 0, done.stderr
    for said in (would.stdout, refused.stderr, done.stdout):
        assert f"1 checkpoint (1.2 GB) only on {dead[0]}: step 40" in said
        assert "after its last sync, 1 h 00 m ago" in said
        assert "it was running when last seen, 2 h 00 m ago" in said
        assert ("and cost $12.40/h" in said) == (dead[0] == "box")
    assert armada.json("ps", "--all", "--cached") == []
    assert (folder / "outputs" / "output.log").exists()


def test_forgetting_a_run_that_is_home_gives_nothing_up(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], log="one\n", synced=True)
    refused = armada.run("rm", RUN)
    assert refused.returncode == dead[1]
    assert "nothing: everything that armada knows of it is at home" in refused.stderr
    done = armada.run("rm", RUN, "--force")
    assert (done.returncode, "given up" in done.stdout) == (0, False)


def test_a_run_is_forgotten_without_its_host_where_that_does_not_answer(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], "running", log="one\n", synced=False)
    done = armada.run("rm", RUN, "--without-host")
    assert done.returncode == 0, done.stderr
    assert f"given up   1 checkpoint (1.2 GB) only on {dead[0]}" in done.stdout
    assert armada.json("ps", "--cached", "--all") == []


def test_a_run_whose_host_answers_is_not_forgotten_without_it(armada: Armada) -> None:
    place(armada, "local", log="one\n", synced=False)
    refused = armada.run("rm", RUN, "--without-host", "--force")
    assert refused.returncode == 8
    assert f"local: it answers, so --without-host does not apply to {RUN}" in refused.stderr
    assert [run["run_id"] for run in armada.json("ps", "--cached", "--all")] == [RUN]


def test_what_is_given_up_is_named_to_programs_too(armada: Armada, dead: tuple[str, int]) -> None:
    place(armada, dead[0], "running", log="one\n", synced=False)
    refused = armada.json("rm", RUN, rc=dead[1])
    assert "1 checkpoint (1.2 GB)" in refused["error"]["message"]
    for words, forgotten in (("--dry-run", False), ("--force", True)):
        told = armada.json("rm", RUN, words)
        jsonschema.validate(told, schema_of(SHAPES["rm"]))
        assert told["forgotten"] is forgotten
        assert [each["step"] for each in told["given_up"]["checkpoints"]] == [40]
        assert told["given_up"]["sentences"][0] == f"1 checkpoint (1.2 GB) only on {dead[0]}: step 40"


def test_a_run_that_may_live_on_a_dead_host_keeps_it_in_hosts_yaml_until_it_is_forgotten(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text(json.dumps({"hosts": {"box": {"ssh": "nobody@127.0.0.1:1"}}}))
    place(armada, "box", "running", log="one\n", synced=False)
    refused = armada.run("hosts", "rm", "box")
    assert refused.returncode == 8
    assert f"armada rm {RUN} --without-host" in refused.stderr
    assert armada.run("rm", RUN, "--force").returncode == 0
    assert armada.run("hosts", "rm", "box").returncode == 0


def test_a_host_that_is_forgotten_says_what_it_leaves(armada: Armada) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    hosts = {name: {"ssh": "nobody@127.0.0.1:1"} for name in ("box", "other", "offline")}
    hosts["offline"]["environments_from"] = "box"
    (config / "hosts.yaml").write_text(json.dumps({"hosts": hosts}))
    place(armada, "box", log="one\n", synced=False)
    said = armada.run("hosts", "rm", "box")
    assert said.returncode == 0, said.stderr
    assert "1 checkpoint (1.2 GB) of these not home" in said.stdout
    assert "armada rm tale-abc234 --without-host forgets it" in said.stdout
    assert "offline gets its environments from it: change `environments_from` in " in said.stdout
    told = armada.json("hosts", "rm", "other")
    jsonschema.validate(told, schema_of(SHAPES["hosts rm"]))
    assert (told["runs"], told["only_there"], told["needed_by"]) == ([], 0, [])


def test_why_says_how_old_the_word_of_the_host_is_and_that_a_loss_is_no_number(
    armada: Armada, dead: tuple[str, int]
) -> None:
    place(armada, dead[0], "running", log=None, synced=False)
    base = armada.folder / "home"
    with Database(HomePaths(base / "config", base / "state").store) as database:
        runs.mark_unreachable(database, [RUN], "no route to host")
        lines = [{"kind": "train", "step": 3, "time": time.time(), "loss": float("nan")}]
        assert metrics.record_metrics(database, RUN, lines, offset=0, next_offset=9)
    shown = armada.run("why", RUN).stdout
    first, *rest = shown.splitlines()
    assert "seen unreachable" not in first
    assert ", unreachable since " in first
    assert any(line.startswith("  because    it wrote so; that was 2 h") for line in rest), shown
    assert "  loss       NaN: nothing that it learnt since is worth anything" in rest
