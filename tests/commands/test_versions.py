"""Homes and hosts of different versions: a run goes on under the armada it was started with, and who is behind is said."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.cli.main import run as armada
from armada.rpc import agent_archive
from tests.conftest import eventually

Speaks = Callable[..., None]
OLDER = {"__init__.py": [('__version__ = "0.1.0"', '__version__ = "0.0.1"')]}
NEWER = {
    "__init__.py": [('__version__ = "0.1.0"', '__version__ = "9.0"'), ("\nPROTOCOL = 1", "\nPROTOCOL = 4")],
    # A state, an event and fields that nobody knows yet.
    "supervisor/supervise.py": [('update(state="running", ', 'update(state="simmering", heat=[1, {"a": None}], ')],
    "records/journal.py": [
        ('self.record("state", **shown)', 'self.record("state", **shown); self.record("novel", x={"y": [1]})')
    ],
}


@pytest.fixture
def speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Speaks:
    """A function that gives home another version's agent; without changes its own."""
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ARMADA_NO_DAEMON", "1")
    monkeypatch.chdir(tmp_path)
    own = agent_archive.build()

    def choose(changes: dict[str, list[tuple[str, str]]] | None = None) -> None:
        archive = own if changes is None else changed(own[0], changes)
        monkeypatch.setattr(agent_archive, "build", lambda: archive)

    return choose


def changed(archive: bytes, changes: dict[str, list[tuple[str, str]]]) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as before, zipfile.ZipFile(buffer, "w") as after:
        for name in before.namelist():
            if name.endswith(".pyc"):
                continue  # of what is changed here
            text = before.read(name).decode()
            for old, new in changes.get(name.removeprefix("armada_agent/"), ()):
                assert text.count(old) == 1, (name, old)
                text = text.replace(old, new)
            after.writestr(name, text)
    return buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()


@pytest.fixture
def launched(speaks: Speaks, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A function that launches a job by the agent of another version: it says `ready` and ends with 5 once told to `go`."""

    def launch(changes: dict[str, list[tuple[str, str]]]) -> str:
        speaks(changes)
        script = "echo ready; while [ ! -e go ]; do sleep 0.05; done; exit 5"
        experiment = {"name": "job", "task": "command", "command": ["sh", "-c", script]}
        (tmp_path / "exp.yaml").write_text(json.dumps(experiment))
        assert armada(["launch", "--host", "local", "exp.yaml", "--json"]) == 0, capsys.readouterr().err
        speaks()  # the own version again
        run_id: str = json.loads(capsys.readouterr().out)["run_id"]
        return run_id

    return launch


@pytest.fixture
def seen(capsys: pytest.CaptureFixture[str]) -> Callable[[], dict[str, Any]]:
    def look() -> dict[str, Any]:
        assert armada(["ps", "--json"]) == 0
        (run,) = json.loads(capsys.readouterr().out)
        return dict(run)

    return look


def folder(tmp_path: Path, run_id: str) -> Path:
    return tmp_path / "home" / "state" / "local" / "runs" / run_id


@pytest.mark.fault("home updated while a run of its former version is on", "seen, and ended, as before")
def test_a_newer_home_sees_and_stops_a_run_that_an_older_agent_supervises(
    launched: Callable[..., str], seen: Callable[[], dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = launched(OLDER)
    eventually(lambda: seen()["state"] == "running")
    agents = {path.name for path in (tmp_path / "home" / "state" / "local" / "agent").glob("*.pyz")}
    supervisor = json.loads((folder(tmp_path, run_id) / "attempts/1/run.json").read_text())["supervisor"]["pid"]
    used = Path(f"/proc/{supervisor}/cmdline").read_bytes().decode()
    assert len(agents) == 2  # each version has its own, and looking does not touch the other's
    assert agent_archive.build()[1] not in used
    assert armada(["logs", run_id]) == 0
    assert capsys.readouterr().out == "ready\n"
    assert armada(["stop", run_id, "--grace", "1"]) == 0
    capsys.readouterr()
    assert (seen()["state"], seen()["reason"]) == ("cancelled", "killed_by_user")


@pytest.mark.fault(
    "a run of a newer armada seen by an older one",
    "an unknown state is called unknown, with what to update; its end is believed",
)
def test_an_older_home_says_that_it_is_behind_and_believes_the_end(
    launched: Callable[..., str], seen: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    run_id = launched(NEWER)
    eventually(lambda: seen()["reason"] == "newer_armada")
    run = seen()
    assert run["state"] == "unknown"
    assert "“simmering”" in run["message"]
    assert "update armada here" in run["message"]
    (folder(tmp_path, run_id) / "work" / "go").touch()
    eventually(lambda: seen()["state"] not in ("unknown", "queued", "submitted"))
    run = seen()
    assert (run["state"], run["exit_code"]) == ("failed", 5)


@pytest.mark.fault("a run's folder with a spec of a newer format", "seen, read and removed like any other")
def test_a_run_whose_spec_has_a_newer_format_is_seen_and_removed(
    launched: Callable[..., str], seen: Callable[[], dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = launched(OLDER)
    (folder(tmp_path, run_id) / "work" / "go").touch()
    eventually(lambda: seen()["state"] == "failed")
    spec = folder(tmp_path, run_id) / "spec.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "format": 2, "job": "of another shape"}))
    assert seen()["state"] == "failed"
    assert armada(["logs", run_id]) == 0
    assert armada(["rm", run_id, "--force"]) == 0  # nothing of it is home
    capsys.readouterr()


@pytest.mark.fault("an agent that this home is too old for", "exit 5, and which side to update")
def test_an_agent_that_speaks_no_protocol_of_ours_is_refused_with_what_to_update(
    speaks: Speaks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speaks({"__init__.py": [("\nPROTOCOL = 1", "\nPROTOCOL = 4"), ("OLDEST_PROTOCOL = 1", "OLDEST_PROTOCOL = 3")]})
    (tmp_path / "exp.yaml").write_text(json.dumps({"name": "job", "task": "command", "command": ["true"]}))
    assert armada(["launch", "--host", "local", "exp.yaml"]) == 5
    said = capsys.readouterr().err
    assert "speaks protocol 3 to 4, this armada (0.1.0) 1" in said
    assert "update armada here" in said
    assert not (tmp_path / "home" / "state" / "local" / "runs").exists()
