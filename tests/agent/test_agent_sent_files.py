"""What a run wrote is told from what armada sent it, whatever the times of files say; and what cannot be looked into is named."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from armada_agent.outbox import finishing
from armada_agent.outbox.inventory import Survey
from armada_agent.paths import RunPaths
from armada_agent.provision import content, integrity
from armada_agent.runs import outputs, readable_files
from armada_agent.runs.orphaned_checkpoints import Unfinished

LONG_AGO = (1.0, 1.0)


def later(folder: Path) -> None:
    """Let the clock of the file system go on: it is coarse."""
    probe = folder / "clock"
    probe.write_text("")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.write_text("")
    probe.unlink()


class Run:
    """A run on a host of this process, with the code that armada sent."""

    def __init__(self, root: Path, code: dict[str, str] | None) -> None:
        self.root = root
        self.paths = RunPaths(str(root), "r-1")
        self.work = Path(self.paths.work)
        self.job: dict[str, Any] = {"argv": ["true"]}
        if code is None:
            self.work.mkdir(parents=True)
        else:
            manifest = [
                (name, len(text), hashlib.sha256(text.encode()).hexdigest(), 0o644) for name, text in code.items()
            ]
            sent = root / "code" / integrity.digest(manifest)
            for folder in (sent, self.work):
                for name, text in code.items():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text(text)
                    os.utime(folder / name, LONG_AGO)
            integrity.note(content.record_path(str(sent)), str(sent), manifest)
            self.job["code"] = str(sent)
        self.write_spec()

    def write_spec(self) -> None:
        later(self.root)
        Path(self.paths.spec).write_text(json.dumps({"run_id": "r-1", "job": self.job}))
        later(self.root)

    def put(self, name: str, text: str, times: tuple[float, float] | None = None) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if times is not None:
            os.utime(path, times)
        return path

    def look(self, *patterns: str) -> dict[str, Any]:
        answer: dict[str, Any] = outputs._empty(self.paths)  # noqa: SLF001
        outputs._look_at(  # noqa: SLF001
            None,  # type: ignore[arg-type]  # only supervisors of others need it
            self.paths,
            [outputs.matcher(pattern) for pattern in patterns],
            answer,
        )
        return answer

    @property
    def others(self) -> set[str]:
        return set(self.look()["others"]["examples"])


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    monkeypatch.setattr("armada_agent.runs.orphaned_checkpoints.attend", lambda *_: Unfinished(0, 0, 0))
    return lambda code=None: Run(tmp_path / "root", code)


CODE = {"train.py": "print()", "lib/data.csv": "1,2"}


def test_a_file_with_the_times_of_long_ago_is_the_runs_own(make: Callable[..., Run]) -> None:
    run = make()
    run.put("res/x", "precious", LONG_AGO)
    assert run.others == {"work/res/x"}
    run.write_spec()  # somebody touched it, or a restored folder has the times of now
    assert run.others == {"work/res/x"}


def test_of_a_run_with_code_everything_else_is_its_own(make: Callable[..., Run]) -> None:
    run = make(CODE)
    assert run.others == set()
    run.put("res/x", "precious", LONG_AGO)
    run.put("train.py", "print(1)")
    assert run.others == {"work/res/x", "work/train.py"}
    run.write_spec()
    assert run.others == {"work/res/x", "work/train.py"}, "one is not in the code, the other has another size"


def test_a_file_of_the_code_that_was_changed_and_given_its_old_time_is_the_runs_own(make: Callable[..., Run]) -> None:
    run = make(CODE)
    run.put("lib/data.csv", "3,4", LONG_AGO)
    assert run.others == {"work/lib/data.csv"}


def test_where_the_code_is_gone_the_times_tell(make: Callable[..., Run]) -> None:
    run = make(CODE)
    Path(content.record_path(run.job["code"])).unlink()
    assert run.others == set()
    run.put("res/x", "precious", LONG_AGO)
    assert run.others == {"work/res/x"}, "no clock sets the time of the last change of a file's record"


@pytest.mark.parametrize("spec", ["{", "[]", "null", '{"job": 7}', '{"job": {"code": 7, "data": "x"}}', None])
def test_without_a_plan_everything_is_the_runs_own(make: Callable[..., Run], spec: str | None) -> None:
    run = make(CODE)
    if spec is None:
        Path(run.paths.spec).unlink()
    else:
        Path(run.paths.spec).write_text(spec)
    assert run.others == {"work/train.py", "work/lib/data.csv"}


def test_links_to_what_the_run_wrote_elsewhere_are_named(make: Callable[..., Run], tmp_path: Path) -> None:
    scratch, old = tmp_path / "scratch", tmp_path / "old"
    for folder in (scratch, old):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "r.txt").write_text("p")
    given, read = tmp_path / "given", tmp_path / "read"
    given.mkdir()
    read.mkdir()
    (read / "old.txt").write_text("the user's")
    run = make()
    run.job["data"] = [{"name": each.name, "content": str(each), "outside": True} for each in (given, read)]
    run.write_spec()
    (scratch / "deep" / "new.txt").write_text("precious")
    (given / "new.txt").write_text("the run may have written it")
    stored = run.root / "data" / ("a" * 64)
    stored.mkdir(parents=True)
    (stored / "x").write_text("x")
    for name, target in {
        "out": scratch,
        "old": old,
        "given": given,
        "read": read,
        "mine": run.work / "res",
        "stored": stored / "x",
        "nowhere": tmp_path / "nowhere",
    }.items():
        (run.work / name).symlink_to(target)
    run.put("res/x", "1")
    assert run.others == {"work/out", "work/res/x", "work/given", "work/nowhere"}


def test_a_link_to_more_than_can_be_looked_at_is_named(make: Callable[..., Run], tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(1200):
        (many / str(number)).write_text("")
    run = make()
    (run.work / "many").symlink_to(many)
    assert run.others == {"work/many"}


def test_a_work_folder_that_was_moved_away_and_linked_is_named(make: Callable[..., Run], tmp_path: Path) -> None:
    run = make()
    run.put("result.bin", "precious")
    run.work.rename(tmp_path / "big")
    run.work.symlink_to(tmp_path / "big")
    assert run.others == {"work"}


def test_what_a_resume_kept_is_named_and_can_be_compared(make: Callable[..., Run]) -> None:
    run = make()
    kept = Path(run.paths.left) / "before-attempt-2" / "out" / "checkpoint-7" / "model.bin"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"half")
    found = run.look("**")
    assert found["others"]["examples"] == ["left/before-attempt-2/out/checkpoint-7/model.bin"]
    assert [each["path"] for each in found["outputs"]] == ["spec.json"]
    asked = {"run_id": "r-1", "files": [[found["others"]["examples"][0], 4]]}
    told = outputs.hash_files(SimpleNamespace(root=str(run.root)), asked)  # type: ignore[arg-type]  # all that is used of a call
    assert told["sha256"] == [hashlib.sha256(b"half").hexdigest()]


def test_more_files_than_are_looked_at_are_said(make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_MOST_LOOKED_AT", 20)
    run = make()
    for number in range(15):
        run.put(f"data/{number}", "")
    run.put("out/r.txt", "precious")
    assert not run.look("out/**")["truncated"]
    for number in range(15, 30):
        run.put(f"data/{number}", "")
    assert run.look("out/**")["truncated"]


class Closed:
    """Stands for folders that cannot be read: root, as which tests may run, reads all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.scan = os.scandir
        self.names = names
        monkeypatch.setattr(os, "scandir", self)

    def __call__(self, path: Any = ".") -> Any:
        if Path(path).name in self.names:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return self.scan(path)


def test_a_folder_that_cannot_be_read_is_no_empty_one(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make()
    run.put("locked/r", "precious")
    run.put("out/l/r", "precious")
    Closed(monkeypatch, "locked", "l")
    assert run.others == {"work/locked", "work/out/l"}
    assert not run.look()["truncated"], "nothing of it was asked for"
    assert run.look("out/**")["truncated"], "it may hold what was asked for"


def test_a_checkpoint_with_a_folder_that_cannot_be_read_is_not_whole(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make()
    run.put("out/checkpoint-2/model.bin", "m")
    run.put("out/checkpoint-2/optim/o.bin", "o")
    place = str(run.work / "out" / "checkpoint-2")
    assert set(Survey(place, str(run.work)).inventory) == {"model.bin", "optim/o.bin"}
    Closed(monkeypatch, "optim")
    survey = Survey(place, str(run.work))
    assert set(survey.inventory) == {"model.bin", "optim"}, "what is no file cannot be taken, and that is said"
    assert survey.last_own_change() > 0
    with pytest.raises(PermissionError):
        finishing._hash_all(place)  # noqa: SLF001


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_file_that_cannot_be_read_holds_up_no_other(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = make()
    run.put("a", "1")
    run.put("b", "2")
    read = readable_files.open_file

    def open_file(paths: RunPaths, path: object) -> int:
        if path == "work/a":
            raise OSError(number, os.strerror(number), path)
        return int(read(paths, path))

    monkeypatch.setattr(readable_files, "open_file", open_file)
    call = SimpleNamespace(root=str(run.root))
    asked = {"run_id": "r-1", "files": [["work/a", 1], ["work/b", 1], ["work/c", 1]]}
    (first, second, third) = outputs.hash_files(call, asked)["sha256"]  # type: ignore[arg-type]  # all that is used of a call
    assert (first, third) == (None, None)
    assert second is not None


def test_code_of_which_the_times_alone_changed_was_sent_and_code_of_the_same_size_that_differs_was_not(
    make: Callable[..., Run],
) -> None:
    run = make({"train.py": "run()", "lib/data.py": "data"})
    for name in ("train.py", "lib/data.py"):
        (run.work / name).touch()  # as in a copy of the root, whose files are all newer than the run
    assert run.others == set()
    run.put("train.py", "ran()", LONG_AGO)
    assert run.others == {"work/train.py"}


def test_a_folder_that_lets_nobody_in_is_named_and_may_hold_what_is_wanted(
    make: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make({"train.py": "x"})
    run.put("results/a.txt", "precious")
    real = os.lstat

    def closed(path: Any, **more: Any) -> os.stat_result:  # root may enter any folder
        if os.fsdecode(path).endswith("results/a.txt"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, **more)

    monkeypatch.setattr(os, "lstat", closed)
    answer = run.look("results/**")
    assert answer["others"]["examples"] == ["work/results/a.txt"]
    assert answer["truncated"]


def test_a_work_folder_that_is_a_link_to_a_disk_that_is_away_is_named(make: Callable[..., Run], tmp_path: Path) -> None:
    run = make()
    run.put("result.bin", "precious")
    run.work.rename(tmp_path / "big")
    run.work.symlink_to(tmp_path / "big")
    (tmp_path / "big").rename(tmp_path / "away")
    assert run.others == {"work"}


def test_a_plan_that_was_touched_makes_nothing_older_than_its_run(make: Callable[..., Run], tmp_path: Path) -> None:
    run = make({"train.py": "run()"})
    born = Path(run.paths.spec).stat().st_mtime
    job = Path(run.paths.submission(1, "job.json"))
    job.parent.mkdir(parents=True)
    job.write_text(json.dumps({"time": born}))
    later(run.root)
    run.put("train.py", "ran()")
    os.utime(run.paths.spec, (born + 1000, born + 1000))
    assert run.others == {"work/train.py"}
    shutil.rmtree(run.root / "code")
    assert run.others == {"work/train.py"}
