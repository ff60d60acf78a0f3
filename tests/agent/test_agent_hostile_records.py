"""Whatever lies in the place of one run's records on a host: its agent answers, of the other runs as ever, and touches nothing else."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import engine as engines
from armada_agent.engines import job_activity
from armada_agent.foundation import files
from armada_agent.foundation.session import Session
from armada_agent.host import detached, processes
from armada_agent.outbox import checkpoint_watch, listing
from armada_agent.outbox.finishing import Outbox
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal
from armada_agent.rpc import serve
from armada_agent.runs import leftover_processes, submissions

from armada.monitor.observe import record_contained
from armada.rpc.connection import LINE_LIMIT_BYTES
from armada.store import runs
from armada.store.database import Database
from tests import hostile
from tests.agent.conversation import spec_of
from tests.answers import look
from tests.chance import dice

HOME = {"id": "a" * 32, "label": "laptop", "path": "/home/me/armada"}
OTHER_HOME = "b" * 32
DIGESTS = ("1" * 64, "2" * 64)
ENGINES = ("direct", "slurm", "htcondor")
HANGS_AFTER_S = 60.0
ASKED = ("a-1", "innocent")
JOB_LOG = (
    "000 (003.000.000) 2026-01-01 00:00:00 Job submitted from host: <127.0.0.1>\n...\n"
    "001 (003.000.000) 2026-01-01 00:00:01 Job executing on host: <127.0.0.1>\n...\n"
)


class HostUnderTest:
    """Two runs on one host, of which one is hostile, and its agent in this process."""

    def __init__(self, place: Path) -> None:
        self.outside = place / "outside"
        self.root = place / "root"
        self.pattern = place / "pattern"
        self.hostile = self.root / "runs" / "a-1"
        self.innocent = self.root / "runs" / "innocent"
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "folder" / "1").mkdir()
        for name in ("file", "folder/.announce.json", "folder/MANIFEST.json", "folder/job.json", "folder/home.json"):
            (self.outside / name).write_text('{"step": 5, "kind": "periodic"}\n{"half": ')
        self.agent_path = place / "agent.pyz"
        self.agent_path.write_bytes(b"")
        self.sent: list[bytes] = []
        self.session = _Session(self)

    def begin(self, engine: str) -> None:
        """Make both runs as they should be."""
        for folder, run_id in ((self.pattern, "a-1"), (self.innocent, "innocent")):
            shutil.rmtree(folder, ignore_errors=True)
            write_run(folder, run_id, engine)
        self.again()

    def again(self) -> None:
        """Make the hostile run as it was before anybody was hostile."""
        shutil.rmtree(self.hostile, ignore_errors=True)
        shutil.copytree(self.pattern, self.hostile, copy_function=os.link)  # nothing is written in place
        shutil.rmtree(self.root / "schedulers", ignore_errors=True)
        listing._known.clear()  # noqa: SLF001  # every conversation is a process of its own
        job_activity._asked_at.clear()  # noqa: SLF001

    def write_on(self) -> None:
        """Let HTCondor write the innocent job's log: it is doubted after three minutes without, and the test may take longer."""
        os.utime(self.innocent / "submissions" / "1" / "job.log")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One request, as a line; the answer is the line that crosses, read as strictly as any JSON reader does."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.sent.clear()
        signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER_S)
        try:
            answer = serve._answer(self.session, json.dumps(request).encode())  # noqa: SLF001
            if answer is not None:
                self.session.send(answer)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        line = b"".join(self.sent)
        assert len(line) < LINE_LIMIT_BYTES, f"{method} answers with {len(line)} bytes, and home hangs up"
        told: dict[str, Any] = json.loads(line.decode("ascii"), parse_constant=refuse)
        if "error" in told:
            assert told["error"]["data"]["kind"] != "internal", f"{method}: {told['error']['message']}"
        return told

    def others(self) -> dict[str, Any]:
        """All that no question about the hostile run may change."""
        found: dict[str, Any] = {}
        for top in (self.outside, self.innocent):
            for parent, folders, names in os.walk(top):
                for name in folders + names:
                    path = Path(parent, name)
                    status = path.lstat()
                    own = "homes" in path.parts or path.name in ("watch.json", "liveness.json", "given-up.json")
                    if not (own and path.is_relative_to(self.innocent)):
                        is_file = path.is_file()
                        found[str(path)] = (
                            status.st_mode,
                            status.st_mtime_ns if is_file else 0,
                            is_file and path.read_bytes(),
                        )
        return found


class _Session(Session):
    """A conversation whose lines are kept."""

    def __init__(self, host: HostUnderTest) -> None:
        super().__init__(str(host.root), str(host.agent_path), -1, None, 0o022)  # type: ignore[arg-type]  # nothing is read
        self._host = host

    def write(self, content: bytes) -> None:
        self._host.sent.append(content)


def refuse(word: str) -> None:
    raise AssertionError(f"the answer holds {word}, which is no JSON")


def write_run(folder: Path, run_id: str, engine: str) -> None:
    """Write a run with one of every record that the agent reads."""
    job_id = {"slurm": "11", "htcondor": "3.0"}.get(engine)
    spec = spec_of(run_id, "true", job={"secrets": ["TOKEN"]}, watch={"checkpoints": {"pattern": "*", "quiet_s": 1.0}})
    if job_id:
        spec["scheduler"] = {"kind": engine, "poll_s": 1.0}
    process = {"hostname": "h", "boot_id": "b", "pid_namespace": "1", "init_start": "1", "pid": 7, "start_time": "7"}
    job = {"submission": 1, "scheduler": engine, "time": 1.0, "supervisor": process, "job_id": job_id}
    manifest = {
        "format": 1,
        "run_id": run_id,
        "step": 3,
        "kind": "periodic",
        "created_at": 2.0,
        "metrics": {"eval_loss": 1.0},
    }
    listed = [{"path": "weights", "size": 2, "sha256": "0" * 64}]
    watch = {"word": "missing", "since": 1.0, "looks": 2, "answer": 1.0, "sign": "s", "still": 1.0, "changed": None}
    said = {
        "state": "ended",
        "seen_at": 1.0,
        "detail": "FAILED",
        "reason": "ended_silently",
        "message": None,
        "node": "n",
    }
    reader = {"boot": "one", "watch": watch, "second": {"row": None, "at": 1.0}, "end": {"sign": "s", "said": said}}
    state = {"state": "running", "attempt": 1, "submission": 1, "seq": 4, "started_at": 5.0, "gpus": [0]}
    beat = {"phase": "training", "step": 5, "total_steps": 9, "time": 6.0, "rank": 0, "attempt": 1}
    taken = {
        "path": "c-1",
        "signature": "s",
        "step": 1,
        "folder": ".new-1-1",
        "digest": None,
        "is_file": True,
        "inventory": {"c": [1, 2, 3]},
    }
    records: dict[str, Any] = {
        "spec.json": spec,
        "state.json": state,
        "given-up.json": {"folders": [".new-9"]},
        "harvest.json": {"count": 1, "copies": False, "taken": [taken], "left": {}, "came": {}},
        "heartbeat-0.json": beat,
        "heartbeat-1.json": {**beat, "time": 7.0},
        "secrets.env": {"TOKEN": "t"},
        "submissions/1/job.json": job,
        "submissions/1/claim.json": {"time": 1.0, "by": "me"},
        "submissions/1/watch.json": {"offset": 0, "seen": {}},
        "submissions/1/liveness.json": {"format": 1, "readers": [reader]},
        "submissions/1/successor.json": {"supervisor": process},
        "submissions/1/asked.json": {"time": 1.0},
        "submissions/1/quota.json": {"command": ["true"], "before": {"text": "5 h"}, "after": None},
        "attempts/1/run.json": {"attempt": 1, "submission": 1, "process": process, "gpus": [0]},
        f"homes/{HOME['id']}/home.json": {**HOME, "time": 1.0},
        f"homes/{OTHER_HOME}/home.json": {"id": OTHER_HOME, "label": "desktop", "path": "/b", "time": 1.0},
        f"homes/{OTHER_HOME}/settled.json": {"time": 1.0, "submission": 1, "digests": [DIGESTS[0]]},
        f"outbox/{DIGESTS[0]}/MANIFEST.json": {**manifest, "files": listed},
        f"outbox/{DIGESTS[1]}/MANIFEST.json": {**manifest, "step": 6, "files": listed},
        f"outbox/{DIGESTS[0]}.ack": {"time": 1.0},
        "outbox/.new-9/.announce.json": {"step": 9, "kind": "periodic", "time": 3.0, "metrics": {}},
    }
    texts = {
        "events.jsonl": '{"seq": 1, "time": 1.0, "attempt": 1, "kind": "state"}\n',
        "metrics.jsonl": '{"kind": "train", "step": 1, "time": 1.0, "loss": 1.5}\n',
        "telemetry.jsonl": "{}\n",
        "output.log": "hello\n",
        "supervisor.log": "taken up\n",
        "scheduler.log": "python3: not found\n",
        "submissions/1/job.log": JOB_LOG,
        "work/out/result.txt": "42\n",
        "work/c-1/c": "weights",
        "wandb/log": "w\n",
        "merged/model": "m\n",
        "launch/job.sub": "queue\n",
        ".supervisor.lock": "",
        ".submit.lock": "",
        ".outbox.lock": "",
    }
    for name, text in {**texts, **{name: json.dumps(record) for name, record in records.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


MISSING = (
    "stop.json",
    "attempts/1/exit.json",
    "attempts/1/status.json",
    "submissions/1/taken.json",
    f"homes/{OTHER_HOME}/forgotten.json",
    "left",
)
"""Records that a run under way has not, yet a hostile one may."""


def replaceable(run: Path) -> list[str]:
    found = [str(path.relative_to(run)) for path in sorted(run.rglob("*"))]
    return [*found, *MISSING]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostUnderTest]:
    def run_tool(argv: list[str], *_: Any, **__: Any) -> tuple[str, str]:
        rows = [f"{10 + i}|RUNNING|None|n1|armada.{run_id}.1\n" for i, run_id in enumerate(ASKED)]
        return "".join(rows) if argv[0] == "squeue" else "11\n" if argv[0] == "sbatch" else "", ""

    def start(command: str, _agent: str, paths: RunPaths, number: int) -> None:
        """Processes of their own are not under test here."""

    monkeypatch.setattr(engines, "run_tool_aloud", run_tool)
    monkeypatch.setattr(engines, "run_tool", lambda *args, **kwargs: run_tool(*args, **kwargs)[0])
    monkeypatch.setattr(detached, "start", start)
    monkeypatch.setattr(leftover_processes, "start_ending", lambda *_: None)
    monkeypatch.setattr(processes, "scan", list)
    monkeypatch.setattr(submissions, "_await_job", lambda _paths, number: {"submission": number})
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # no power is cut here

    def hang(*_: object) -> None:
        raise AssertionError("the agent waits for something that never comes")

    before = signal.signal(signal.SIGALRM, hang)
    yield HostUnderTest(tmp_path)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "state" / "armada.db") as opened:
        for run_id in ASKED:
            runs.insert(
                opened, run_id=run_id, name=run_id, host="box", task="command", experiment=None, spec={"experiment": {}}
            )
        yield opened


def about_many(host: HostUnderTest) -> dict[str, dict[str, Any]]:
    """What each question about both runs answers of each run."""
    observed = host.ask("run.observe", runs=[{"run_id": run_id} for run_id in ASKED])["result"]["runs"]
    looked = host.ask("sync.look", runs=[{"run_id": run_id, "outputs": ["out/*"]} for run_id in ASKED], home=HOME)
    listed = host.ask("run.list")["result"]["runs"]
    specs = host.ask("run.specs", run_ids=list(ASKED))["result"]["specs"]
    enrolled = host.ask("homes.enroll", run_ids=list(ASKED), home=HOME)["result"]["runs"]
    answers: dict[str, dict[str, Any]] = {}
    for run_id in ASKED:
        answers[run_id] = {
            "observe": of(run_id, observed),
            "look": of(run_id, looked["result"]["runs"]),
            "list": of(run_id, listed),
            "spec": of(run_id, specs),
            "enrolled": run_id in enrolled,
        }
    return answers


def of(run_id: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    found = [entry for entry in entries if entry["run_id"] == run_id]
    assert len(found) == 1, f"{run_id} is answered {len(found)} times"
    return found[0]


def steady(value: Any) -> Any:
    """An answer without what every look changes."""
    if isinstance(value, dict):
        return {
            key: steady(item)
            for key, item in value.items()
            if key not in ("seen_at", "quiet_s", "untouched_s", "mtime")
        }
    return [steady(item) for item in value] if isinstance(value, list) else value


def about_one(host: HostUnderTest, chance: random.Random) -> None:
    """Questions and orders about the hostile run alone: each is done, or refused with a sentence."""
    orders: list[tuple[str, dict[str, Any]]] = [
        ("outbox.manifest", {"digest": chance.choice(DIGESTS)}),
        ("outbox.ack", {"digest": DIGESTS[0], "home": HOME}),
        ("outbox.ack", {"digest": DIGESTS[1], "home": HOME, "wanted": False}),
        ("outbox.prune", {"digests": list(DIGESTS), "home": HOME}),
        ("homes.settle", {"digests": list(DIGESTS), "home": HOME}),
        ("run.log", {"offset": 0}),
        ("run.log", {"tail_lines": 5}),
        ("run.quota", {}),
        ("run.explain", {}),
        ("sync.hash", {"files": [["output.log", 3], ["work/out/result.txt", 3], ["wandb/log", 1]]}),
        ("run.submit", {"submission": 1}),
        ("run.submit", {"submission": 2, "secrets": {}, "keep_secrets": True}),
        ("run.stop", {"grace_s": 1.0}),
    ]
    for method, params in chance.sample(orders, 5):
        host.ask(method, run_id="a-1", **params)
    host.ask("run.remove", run_id="a-1", home=HOME, despite_homes=chance.random() < 0.5)


def harm(host: HostUnderTest, chance: random.Random) -> list[str]:
    """Replace one to three records of the hostile run; says which, and by what."""
    elsewhere = [host.outside / "file", host.outside / "folder", host.outside / "new", host.innocent, Path("/dev/zero")]
    done = []
    for name in chance.sample(replaceable(host.pattern), chance.choice([1, 1, 2, 3])):
        path = host.hostile / name
        if path.parent.is_dir() and path.parent.resolve().is_relative_to(host.hostile):
            done.append(f"{name}: {hostile.replace(chance, path, [*elsewhere, host.innocent / name])}")
    print("\n".join(["", *done]))  # pytest shows it where the test fails
    return done


@pytest.mark.parametrize("engine", ENGINES)
def test_one_runs_records_on_a_host_never_touch_anothers(
    host: HostUnderTest, database: Database, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    chance = dice(47)
    host.begin(engine)
    about_many(host)  # what a first look leaves behind
    right = about_many(host)["innocent"]
    assert right["observe"]["findings"] == []
    record_contained(database, runs.find(database, "innocent"), look(right["observe"]))
    state = runs.find(database, "innocent").state
    thrown = 0
    while thrown < hostile.CASES:
        host.again()
        host.write_on()
        before = host.others()
        done = harm(host, chance)
        thrown += len(done)
        answers = about_many(host)
        assert steady(answers["innocent"]) == steady(right), done
        with database.transaction():  # one wait for the disk
            for run_id in ASKED:
                record_contained(database, runs.find(database, run_id), look(answers[run_id]["observe"]))
        assert runs.find(database, "innocent").state == state, done
        about_one(host, chance)
        assert host.others() == before, done
    assert not caplog.records, "home took each answer as it came; nothing had to be caught as a whole"


@pytest.mark.parametrize("name", [".supervisor.lock", ".outbox.lock", ".submit.lock", "submissions/1/job.log"])
def test_a_pipe_in_the_place_of_a_record_keeps_nobody_waiting(host: HostUnderTest, name: str) -> None:
    host.begin("htcondor" if name.endswith(".log") else "direct")
    (host.hostile / name).unlink()
    os.mkfifo(host.hostile / name)
    assert about_many(host)["innocent"]["observe"]["findings"] == []
    host.ask("run.stop", run_id="a-1", grace_s=1.0)
    host.ask("run.remove", run_id="a-1")


@pytest.mark.parametrize(
    "content",
    [
        b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"seq": NaN, "state": "running"}',
        b'{"started_at": 1e999, "state": "running"}',
        b'{"started_at": 1' + b"0" * 400 + b', "state": "running"}',
        b'{"message": "' + "é".encode() * 200_000 + b'"}',
    ],
    ids=["deep", "nan", "infinite", "long number", "large"],
)
def test_a_record_that_fits_into_no_answer_is_said_to_be_unreadable(host: HostUnderTest, content: bytes) -> None:
    host.begin("direct")
    right = steady(about_many(host)["innocent"])
    (host.hostile / "state.json").unlink()
    (host.hostile / "state.json").write_bytes(content)
    answers = about_many(host)
    assert answers["a-1"]["observe"]["evidence"]["state"] is None
    assert answers["a-1"]["observe"]["findings"][0].startswith("state.json ")
    assert steady(answers["innocent"]) == right


@pytest.mark.parametrize("name", ["outbox", f"outbox/{DIGESTS[0]}"])
def test_what_is_said_of_a_linked_checkpoint_is_not_noted_for_another_run(host: HostUnderTest, name: str) -> None:
    """An acknowledgement lets the host delete the checkpoint."""
    host.begin("direct")
    (host.innocent / "outbox" / f"{DIGESTS[0]}.ack").unlink()
    (host.hostile / "outbox" / f"{DIGESTS[0]}.ack").unlink()
    shutil.rmtree(host.hostile / name)
    (host.hostile / name).symlink_to(host.innocent / name)
    before = host.others()
    for method in ("outbox.ack", "outbox.manifest"):
        answer = host.ask(method, run_id="a-1", digest=DIGESTS[0], **({"home": HOME} if method == "outbox.ack" else {}))
        assert "link" in answer["error"]["message"]
    host.ask("outbox.prune", run_id="a-1", digests=[DIGESTS[0]], home=HOME)
    assert host.others() == before


def test_a_home_is_registered_for_the_runs_beside_a_damaged_one(host: HostUnderTest) -> None:
    host.begin("direct")
    shutil.rmtree(host.hostile / "homes")
    (host.hostile / "homes").symlink_to("homes")
    enrolled = host.ask("homes.enroll", run_ids=list(ASKED), home=HOME)["result"]["runs"]
    assert enrolled == ["innocent"]


def test_large_records_of_many_runs_fit_into_one_line_to_home(host: HostUnderTest) -> None:
    host.begin("direct")
    for number in range(20):
        shutil.copytree(host.pattern, host.root / "runs" / f"b-{number}")
        for name in ("metrics.jsonl", "events.jsonl"):
            (host.root / "runs" / f"b-{number}" / name).write_bytes((b"\0" * 1000 + b"\n") * 60)
    asked = [*(f"b-{number}" for number in range(20)), "innocent"]
    answered = host.ask("run.observe", runs=[{"run_id": run_id} for run_id in asked])["result"]["runs"]
    assert [each["run_id"] for each in answered] == asked


def test_a_plan_too_large_for_an_answer_keeps_no_other_plan_back(host: HostUnderTest) -> None:
    host.begin("direct")
    (host.hostile / "spec.json").unlink()
    (host.hostile / "spec.json").write_text(json.dumps({"x": "\N{COLLISION SYMBOL}" * 900_000}, ensure_ascii=False))
    specs = host.ask("run.specs", run_ids=list(ASKED))["result"]["specs"]
    assert specs[0]["spec"] is None
    assert "too large" in specs[0]["problem"]
    assert specs[1]["spec"]["run_id"] == "innocent"


def test_a_checkpoint_is_described_by_its_own_runs_manifest(host: HostUnderTest) -> None:
    host.begin("direct")
    path = host.hostile / "outbox" / DIGESTS[0] / "MANIFEST.json"
    manifest = json.loads(path.read_bytes())
    path.unlink()
    path.write_text(json.dumps({**manifest, "step": 777}))
    answers = about_many(host)
    assert {entry["step"] for entry in answers["a-1"]["observe"]["outbox"]} == {777, 6}
    assert {entry["step"] for entry in answers["innocent"]["observe"]["outbox"]} == {3, 6}


def test_what_a_checkpoint_watch_record_names_outside_of_its_run_is_not_deleted(host: HostUnderTest) -> None:
    host.begin("direct")
    paths = RunPaths(str(host.root), "a-1")
    record = json.loads((host.hostile / "harvest.json").read_bytes())
    inode = (host.hostile / "work/c-1/c").stat().st_ino
    record["taken"][0].update(folder=str(host.innocent), inventory={"c": [inode, 1, 1]})
    files.write_json(paths.checkpoint_watch, record)
    before = host.others()
    checkpoint_watch.CheckpointWatch(paths, {"pattern": "c-*", "quiet_s": 1000.0}, Journal(paths, 1)).look()
    assert host.others() == before


@pytest.mark.parametrize("manifest", [b"not JSON", b'{"files": 5}', b'{"step": 1, "created_at": 1.0, "files": [{}]}'])
def test_a_manifest_that_a_job_wrote_wrongly_is_given_up_and_the_next_is_finished(
    host: HostUnderTest, manifest: bytes
) -> None:
    host.begin("direct")
    bad = host.hostile / "outbox" / ".new-1"
    bad.mkdir()
    (bad / "MANIFEST.json").write_bytes(manifest)
    paths = RunPaths(str(host.root), "a-1")
    outbox = Outbox(paths, {}, Journal(paths, 1))
    for _ in range(3):
        outbox.look()
    assert outbox.given_up() == [str(bad)]
    assert not (host.hostile / "outbox" / ".new-9").exists()
