"""A secret as a canary: it may be in the job's own environment and in one 0600 file while the run lives, and nowhere else."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Armada, eventually

CRASH = """
import os, time
value = os.environ["CANARY"]
open("seen", "w").write(str(len(value)))
while not os.path.exists("go"):
    time.sleep(0.05)
raise RuntimeError("a crash with the secret found")
"""


@pytest.fixture
def canary(armada: Armada) -> str:
    armada.env["CANARY"] = f"canary-{uuid.uuid4().hex}"
    return armada.env["CANARY"]


def processes() -> Iterator[tuple[int, bytes, bytes]]:
    """(pid, arguments, environment) of every process that can be seen."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue  # it ended while we looked


def holders(folder: Path, canary: str) -> list[Path]:
    """The files that hold the secret."""
    return [path for path in folder.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]


@pytest.mark.fault(
    "a secret as a canary, in a run that crashes",
    "only in its own processes and one 0600 file, which goes with the run; in no argv, log, store, spec or report",
)
def test_a_secret_is_seen_by_its_own_run_alone(armada: Armada, canary: str) -> None:
    armada.write("crash.py", CRASH)
    experiment = armada.command("python3", str(armada.folder / "crash.py"), secrets=["CANARY"])
    launch = armada.start("launch", "--host", "local", experiment, "--follow")
    (folder,) = eventually(lambda: list(armada.local_runs.glob("test-*")))
    eventually((folder / "work" / "seen").exists)
    eventually(lambda: (folder / "work" / "seen").read_text() == str(len(canary)))
    kept = holders(armada.folder, canary)
    assert kept == [folder / "secrets.env"]
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    marker = f"ARMADA_RUN_ID={folder.name}".encode()
    # On `local` the agent is a child of the command that a person typed with the secret in the environment.
    home_itself = {launch.pid, *map(int, Path(f"/proc/{launch.pid}/task/{launch.pid}/children").read_text().split())}
    for pid, arguments, environment in processes():
        assert canary.encode() not in arguments, pid
        if canary.encode() in environment and pid not in home_itself:
            assert marker in environment, arguments
    looked = [armada.run(*words) for words in (["ps"], ["ps", "--json"], ["show", folder.name, "--json"])]
    (folder / "work" / "go").touch()
    out, err = launch.communicate()
    assert launch.returncode == 6, err
    assert holders(armada.folder, canary) == []
    looked += [armada.run(*words) for words in (["show", folder.name], ["logs", folder.name], ["why", folder.name])]
    assert not [done.args for done in looked if canary in done.stdout + done.stderr]
    assert canary not in out + err


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="being another user needs root, and setpriv"
)
def test_another_user_of_the_machine_finds_no_secret(armada: Armada, canary: str) -> None:
    script = "touch seen; sleep 1000"
    run = armada.json("launch", "--host", "local", armada.command("sh", "-c", script, secrets=["CANARY"]))
    folder = armada.local_runs / run["run_id"]
    eventually((folder / "work" / "seen").exists)
    look = (
        f"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ {folder}/secrets.env {folder}/spec.json 2>/dev/null; ps axeww"
    )
    stranger = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", look]
    plain = {"PATH": os.environ["PATH"]}
    seen = subprocess.run(stranger, capture_output=True, check=False, env=plain, cwd="/").stdout
    assert b"sleep\x001000" in seen  # it does see processes
    assert canary.encode() not in seen


@pytest.mark.fault("armada's agent crashes with a secret in its hands", "its report says where, without the secret")
def test_the_report_of_a_crash_holds_no_secret(
    armada: Armada, canary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from armada.cli.main import run
    from armada.rpc import agent_archive
    from tests.commands.test_versions import changed

    broken = {"runs/folders.py": [("def _fill(", "def _fill(*given):\n    raise KeyError('spec')\n\n\ndef _unused(")]}
    archive = changed(agent_archive.build()[0], broken)
    monkeypatch.setattr(agent_archive, "build", lambda: archive)
    for name in ("ARMADA_HOME", "ARMADA_NO_DAEMON", "CANARY"):
        monkeypatch.setenv(name, armada.env[name])
    monkeypatch.chdir(tmp_path)
    assert run(["launch", "--host", "local", armada.command("true", secrets=["CANARY"])]) == 1
    said = "".join(capfd.readouterr())
    assert "KeyError" in said
    assert canary not in said
    assert holders(tmp_path, canary) == []
