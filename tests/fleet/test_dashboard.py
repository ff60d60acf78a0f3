"""The dashboard on real SSH hosts: what its keys do is done there, by commands of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.paths import HomePaths
from armada.store import checkpoints, operations, runs
from armada.store.database import Database
from armada.store.runs import Run
from armada.tui.app import Dashboard
from armada.tui.screens.launch import LaunchScreen
from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.tui.conftest import drive, lacks, screen, shows, until

pytestmark = pytest.mark.timeout(600)
LONG_S = 120.0
"""For a command that logs in somewhere, on a machine that has other things to do."""

Add = Callable[..., None]


class Recorded(Dashboard):
    """Keeps what it told: a message goes from the screen after seconds, and on a busy machine that is soon."""

    def __init__(self, home: HomePaths, **options: Any) -> None:
        super().__init__(home, **options)
        self.told: list[str] = []

    def notify(self, message: str, **options: Any) -> None:
        self.told.append(message)
        super().notify(message, **options)


class There:
    """A home, the command line and a dashboard on it."""

    def __init__(self, armada: Armada, database: Database, home: HomePaths) -> None:
        self.armada = armada
        self.database = database
        self.home = home

    def board(self, *, watch: bool = True) -> Dashboard:
        return Recorded(self.home, watch=watch)

    def saver(self) -> str:
        """An experiment that leaves a checkpoint and ends."""
        project = self.armada.folder / "project"
        project.mkdir()
        (project / "saver.py").write_text(SAVER)
        return self.armada.command("python3", "saver.py", name="saver", code="project")

    @property
    def runs(self) -> list[Run]:
        return runs.every(self.database)


@pytest.fixture
def there_is(armada: Armada, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    """The dashboard runs in this process, its commands inherit our environment."""
    for name in ("ARMADA_HOME", "ARMADA_NO_DAEMON"):
        monkeypatch.setenv(name, armada.env[name])
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.chdir(armada.folder)
    home = HomePaths.from_environment()
    home.make()
    with Database(home.store) as database:
        yield There(armada, database, home)


@pytest.fixture
def add(armada: Armada, fleet: Fleet) -> Add:
    """A function that adds a host of the fleet the way a user would."""

    def add_host(machine: str, *more: str) -> None:
        up = fleet.host(machine)
        done = armada.run("hosts", "add", machine, up.target, "--identity", str(machines.IDENTITY), "--yes", *more)
        assert done.returncode == 0, done.stdout + done.stderr

    return add_host


def said(pilot: Pilot[None]) -> str:
    """What it has told a person so far."""
    board = pilot.app
    assert isinstance(board, Recorded)
    return "\n".join(board.told)


async def hears(pilot: Pilot[None], *words: str) -> None:
    await until(pilot, lambda: all(word in said(pilot) for word in words), within_s=LONG_S)


async def sees(pilot: Pilot[None], *words: str) -> str:
    await until(pilot, lambda: all(word in screen(pilot) for word in words), within_s=LONG_S)
    return screen(pilot)


async def on_host(pilot: Pilot[None], name: str) -> None:
    """Put the cursor of the Hosts screen on a host."""
    await pilot.press("3")
    await shows(pilot, "LAST SEEN", name)
    await until(pilot, lambda: any(name in line for line in screen(pilot).splitlines()[2:]))
    await pilot.press("home")
    await until(pilot, lambda: any(line.startswith("│▸") and name in line for line in screen(pilot).splitlines()))


SCRIPT = "n=0; while true; do n=$((n+1)); echo word $n; sleep 0.2; done"


def test_an_experiment_is_launched_followed_and_stopped_from_the_screen(
    there_is: There, add: Add, fleet: Fleet
) -> None:
    add("workstation")
    there_is.armada.command("sh", "-c", SCRIPT, name="talker")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("n")
        await shows(pilot, "Type an experiment and a host")
        await pilot.press("ctrl+o")
        await shows(pilot, "Which experiment?", "exp.yaml")
        await pilot.press(*"exp", "enter")
        await lacks(pilot, "Which experiment?")
        launch = pilot.app.screen
        assert isinstance(launch, LaunchScreen)
        await until(pilot, lambda: launch.fields["host"].has_focus)
        await pilot.press("ctrl+o")
        await shows(pilot, "On which host?", "2×GeForce RTX 3090 · idle")
        await pilot.press(*"work", "enter")
        await sees(pilot, "one command on workstation", "^l launches this plan")
        await pilot.press("ctrl+l")
        await hears(pilot, "launch exp.yaml on workstation done: talker-")
        await sees(pilot, "talker", "● ", "1 running")
        await pilot.press("l")
        await sees(pilot, "word 1", "word 9", "following")
        await pilot.press("x")
        await shows(pilot, "Stop 1 run?", f"{there_is.runs[0].run_id} on workstation")
        await pilot.press("escape")
        assert not operations.of_run(there_is.database, there_is.runs[0].run_id, kind="stop"), "escape is no"
        await pilot.press("x", "y")
        await until(pilot, lambda: there_is.runs[0].state == "cancelled", within_s=LONG_S)

    drive(there_is.board(), use)
    run_id = there_is.runs[0].run_id
    eventually(lambda: fleet.run("workstation", f"pgrep -f '[{run_id[0]}]{run_id[1:]}' | wc -l").strip() == "0")


def test_a_host_is_checked_and_its_facts_come_to_the_screen(there_is: There, add: Add) -> None:
    add("a100-1", "--price", "12.5")
    there_is.database.connection.execute("UPDATE hosts SET facts = NULL")

    async def use(pilot: Pilot[None]) -> None:
        await on_host(pilot, "a100-1")
        await shows(pilot, "not checked")
        await pilot.press("c")
        await hears(pilot, "check a100-1 done")
        await sees(pilot, "8×A100-SXM4-80GB", "$12.50/h")

    drive(there_is.board(watch=False), use)


def test_a_host_is_added_by_pasting_the_line_of_its_provider(there_is: There, fleet: Fleet) -> None:
    user, _, address = fleet.host("a100-1").target.rpartition("@")
    host, _, port = address.rpartition(":")
    line = f"ssh -p {port} {user}@{host} -i {machines.IDENTITY} -L 8080:localhost:8080"

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "1 of 5")
        await pilot.press("escape")
        await lacks(pilot, "1 of 5")
        await pilot.press("3")
        await shows(pilot, "press a to add a GPU box")
        await pilot.press("a")
        await shows(pilot, "Add a host")
        for name, value in (("name", "rented"), ("ssh", line), ("price", "12.5")):
            pilot.app.screen.query_one(f"#{name}", Input).value = value
        await pilot.press("enter")
        await sees(pilot, "Pin this key and add rented?", "SHA256:")
        assert not there_is.home.hosts_file.exists(), "nothing is written before a yes"
        await pilot.press("y")
        await sees(pilot, "rented added to", "8 × ", "enter closes this")
        await pilot.press("enter")
        await sees(pilot, "8×A100-SXM4-80GB", "$12.50/h")

    drive(there_is.board(watch=False), use)


def test_an_environment_is_built_from_the_screen(there_is: There, add: Add) -> None:
    add("a100-1", "--profile", "cpu")

    async def use(pilot: Pilot[None]) -> None:
        await on_host(pilot, "a100-1")
        await pilot.press("p")
        await sees(pilot, "Build the environment on a100-1?")
        await pilot.press("y")
        await until(pilot, lambda: "provision a100-1 done" in said(pilot), within_s=500)
        await shows(pilot, "ready cpu-")

    drive(there_is.board(watch=False), use, (160, 48))


def test_an_environment_that_cannot_be_built_is_said_on_the_screen(there_is: There, add: Add) -> None:
    folder = there_is.home.profiles
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("extends: cpu\nenvironment: {packages: [no-such-package-of-armada==1.0]}\n")
    add("a100-1", "--profile", "broken")

    async def use(pilot: Pilot[None]) -> None:
        await on_host(pilot, "a100-1")
        await pilot.press("p")
        await sees(pilot, "Build the environment on a100-1?")
        await pilot.press("y")
        await sees(pilot, "provision a100-1:", "building")
        await hears(pilot, "provision a100-1 ended with 5")

    drive(there_is.board(watch=False), use, (160, 48))


def test_a_changed_key_is_shown_beside_the_pinned_one_and_pinned_after_a_yes(
    there_is: There, add: Add, fleet: Fleet
) -> None:
    with fleet.borrow("a100-2") as machine:
        add("a100-2")
        (before,) = there_is.armada.json("hosts", "trust", "a100-2", "--dry-run")["offered"]
        machines.rekey(machine)
        (after,) = there_is.armada.json("hosts", "trust", "a100-2", "--dry-run")["offered"]

        async def use(pilot: Pilot[None]) -> None:
            await on_host(pilot, "a100-2")
            await pilot.press("c")
            await hears(pilot, "check a100-2 ended with 4")
            await sees(pilot, "unreachable since", "key")
            await pilot.press("t")
            await sees(pilot, "Pin another key for a100-2?", before["fingerprint"], after["fingerprint"])
            await pilot.press("n")
            await lacks(pilot, "Pin another key")
            assert there_is.armada.run("hosts", "check", "a100-2").returncode == 4, "no is no"
            await pilot.press("t")
            await sees(pilot, "Pin another key for a100-2?")
            await pilot.press("y")
            await hears(pilot, "trust a100-2 done", "check a100-2 done")
            await until(pilot, lambda: "unreachable" not in screen(pilot), within_s=LONG_S)

        drive(there_is.board(watch=False), use)


def test_a_key_that_changes_while_a_person_compares_is_not_pinned(there_is: There, add: Add, fleet: Fleet) -> None:
    with fleet.borrow("a100-2") as machine:
        add("a100-2")
        machines.rekey(machine)

        async def use(pilot: Pilot[None]) -> None:
            await on_host(pilot, "a100-2")
            await pilot.press("t")
            await sees(pilot, "Pin another key for a100-2?")
            machines.rekey(machine)
            await pilot.press("y")
            await hears(pilot, "trust a100-2 ended with 4", "not the expected key")

        drive(there_is.board(watch=False), use)
        assert there_is.armada.run("hosts", "check", "a100-2").returncode == 4


@pytest.mark.takes_long("a release in three steps, each a process of its own that the screen follows")
def test_release_says_what_would_be_lost_then_drains_then_lets_go(
    there_is: There, add: Add, fleet: Fleet, there: str
) -> None:
    fleet.run("a100-1", f"mkdir -m 700 {there}")
    add("a100-1", "--root", there)
    experiment = there_is.saver()
    run_id = there_is.armada.json("launch", "--host", "a100-1", experiment, "--follow", rc=None)["run_id"]
    fleet.run("a100-1", f"echo WORD=x > {there}/runs/{run_id}/secrets.env")  # as a killed supervisor leaves it

    async def use(pilot: Pilot[None]) -> None:
        await on_host(pilot, "a100-1")
        await pilot.press("r")
        await sees(pilot, "a100-1 must not be destroyed yet", "d drain it now")
        await pilot.press("y")  # there is nothing to say yes to
        await pilot.press("d")
        await hears(pilot, "drain a100-1 done: a100-1 can be destroyed: nothing would be lost")
        await pilot.press("r")
        await sees(pilot, "a100-1 can be destroyed: nothing would be lost", "y release it")
        await pilot.press("y")
        await hears(pilot, "release a100-1 done")

    # Something that is only there: what --follow brought home is forgotten again.
    for known in checkpoints.of_run(there_is.database, run_id):
        checkpoints.mark_not_home(there_is.database, run_id, known.digest, None)
    drive(there_is.board(watch=False), use)
    assert fleet.run("a100-1", f"ls {there}/runs/{run_id}/secrets.env 2>/dev/null | wc -l").strip() == "0"
    assert [each.kind for each in operations.recent(there_is.database)][:2] == ["release", "release"]


SAVER = """
import hashlib, json, os
run = os.environ["ARMADA_RUN_DIR"]
part = os.path.join(run, "outbox", ".part-7")
os.makedirs(part)
data = os.urandom(5000)
with open(os.path.join(part, "weights.bin"), "wb") as file:
    file.write(data)
files = [{"path": "weights.bin", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}]
manifest = {"format": 1, "run_id": os.environ["ARMADA_RUN_ID"], "attempt": 1, "step": 7, "created_at": 1.0, "files": files}
text = json.dumps(manifest)
with open(os.path.join(part, "MANIFEST.json"), "w") as file:
    file.write(text)
os.rename(part, os.path.join(run, "outbox", hashlib.sha256(text.encode()).hexdigest()))
"""


@pytest.mark.takes_long("two runs, one of which waits for the other's GPUs, seen through the daemon")
def test_what_waits_for_gpus_and_who_holds_them_is_on_the_screen(there_is: There, add: Add, fleet: Fleet) -> None:
    with fleet.borrow("a100-2"):
        add("a100-2")
        holder = there_is.armada.command("sleep", "1000", name="holder", resources={"gpus": 8})
        first = there_is.armada.json("launch", "--host", "a100-2", holder)["run_id"]
        second = there_is.armada.json("launch", "--host", "a100-2", holder, "--name", "waiter")["run_id"]

        async def use(pilot: Pilot[None]) -> None:
            await until(pilot, lambda: next(run for run in there_is.runs if run.run_id == first).gpus, within_s=LONG_S)
            await on_host(pilot, "a100-2")
            await pilot.press("c")
            await hears(pilot, "check a100-2 done")
            await sees(pilot, "97%", "2 runs, 1 waits")
            await pilot.press("enter")
            await sees(pilot, f"1 waits for GPUs: {second}", "97%   18/80 GiB", first)
            await pilot.press("l")
            await shows(pilot, "/ host:a100-2", "holder", "waiter")

        drive(there_is.board(), use)
        for run_id in (second, first):
            there_is.armada.run("stop", run_id, "--grace", "0")


def test_marked_runs_are_synced_and_their_checkpoints_are_home(there_is: There, add: Add) -> None:
    add("workstation")
    experiment = there_is.saver()
    ids = [there_is.armada.json("launch", "--host", "workstation", experiment)["run_id"] for _ in range(2)]

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: all(run.state == "succeeded" for run in there_is.runs), within_s=LONG_S)
        await pilot.press("a", "y")
        await hears(pilot, "sync 2 runs done")
        await sees(pilot, "all 1 home")

    drive(there_is.board(), use, (160, 40))
    kept = [each for run_id in ids for each in checkpoints.of_run(there_is.database, run_id)]
    assert [each.home_path is not None for each in kept] == [True, True]


def test_read_only_changes_nothing_whatever_is_pressed(there_is: There, add: Add) -> None:
    add("workstation")
    board = Recorded(there_is.home, read_only=True)

    async def use(pilot: Pilot[None]) -> None:
        await on_host(pilot, "workstation")
        for key in ("c", "p", "t", "r"):
            await pilot.press(key)
        await until(pilot, lambda: said(pilot).count("--read-only") == 4)
        assert len(board.screen_stack) == 2

    drive(board, use)
    assert not operations.recent(there_is.database)
    assert not Path(there_is.home.state / "dashboard").exists()
