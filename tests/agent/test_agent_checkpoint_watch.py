"""Jobs that know nothing of armada: their checkpoints are found, their log is their heartbeat, they are told where to go on."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_agent import paths
from armada_agent.outbox import checkpoint_watch
from armada_agent.records.journal import Journal

from tests.agent.conversation import Host, Refused, check
from tests.supervisors import kill_both
from tests.waiting import eventually

QUIET_S = 0.4


def watch(pattern: str = "out/step-*", *resume: str, quiet_s: float = QUIET_S) -> dict[str, Any]:
    return {"checkpoints": {"pattern": pattern, "quiet_s": quiet_s}, "resume": list(resume)}


def manifest_of(host: Host, run_id: str, entry: dict[str, Any]) -> dict[str, Any]:
    text = host.call("outbox.manifest", run_id=run_id, digest=entry["digest"])["text"]
    manifest: dict[str, Any] = json.loads(text)
    check(manifest, "files", "outbox/<digest>/MANIFEST.json")
    return manifest


def content(host: Host, run_id: str, entry: dict[str, Any]) -> dict[str, bytes]:
    """What the outbox holds of a checkpoint, held against its manifest."""
    folder = host.folder(run_id) / "outbox" / entry["digest"]
    listed = {item["path"]: item["sha256"] for item in manifest_of(host, run_id, entry)["files"]}
    found = {name: (folder / name).read_bytes() for name in listed}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in found.items()} == listed
    return found


def findings(host: Host, run_id: str) -> list[str]:
    return [event["message"] for event in host.events(run_id) if event["kind"] == "finding"]


def test_what_a_checkpoint_leaves_out_is_named(this_host: Host) -> None:
    script = (
        "mkdir -p tmp; cd tmp; ln -s /etc/passwd model.safetensors; mkfifo pipe;"
        "echo mine > MANIFEST.json; echo {} > config.json; cd ..; mkdir out; mv tmp out/step-1"
    )
    this_host.launch("script-left", "sh", "-c", script, watch=watch(quiet_s=0.0))
    this_host.await_end("script-left")
    (entry,) = this_host.look("script-left")["outbox"]
    assert content(this_host, "script-left", entry) == {"config.json": b"{}\n"}
    said = findings(this_host, "script-left")
    outside = "that lead out of the run's work folder are not taken: out/step-1/model.safetensors"
    words = "out/step-1 comes home without MANIFEST.json, model.safetensors, pipe: armada takes regular files"
    assert [outside in said[0], said[1].startswith(words)] == [True, True], said


def test_checkpoints_are_taken_when_quiet_and_survive_the_jobs_own_clearing_up(some_host: Host) -> None:
    script = (
        "mkdir -p out/step-10/deep; echo a > out/step-10/weights; echo b > out/step-10/deep/more; ln -s step-10 out/step-99;"
        'until [ -n "$(ls ../outbox)" ]; do sleep 0.05; done; rm -r out/step-10; echo done'
    )
    some_host.launch("script-1", "sh", "-c", script, watch=watch())
    assert some_host.await_end("script-1")["state"] == "succeeded"
    (entry,) = some_host.look("script-1")["outbox"]
    assert entry["step"] == 10
    assert content(some_host, "script-1", entry) == {"weights": b"a\n", "deep/more": b"b\n"}
    record = json.loads((some_host.folder("script-1") / "harvest.json").read_text())
    check(record, "files", "harvest.json")


def test_one_that_goes_on_growing_is_not_taken_before_it_rests(this_host: Host) -> None:
    script = (
        "mkdir -p out/step-1 out/step-2; echo whole > out/step-1/w;"
        "for i in $(seq 20); do echo $i >> out/step-2/w; sleep 0.2; done; echo end >> out/step-2/w;"
        "until [ $(ls ../outbox/*/MANIFEST.json 2>/dev/null | wc -l) = 2 ]; do sleep 0.1; done"
    )
    this_host.launch("script-2", "sh", "-c", script, watch=watch(quiet_s=3))
    assert this_host.await_end("script-2")["state"] == "succeeded"
    first, second = this_host.look("script-2")["outbox"]
    assert (first["step"], second["step"]) == (1, 2)
    assert content(this_host, "script-2", second)["w"].endswith(b"20\nend\n")
    assert findings(this_host, "script-2") == []


@pytest.mark.parametrize(("end", "taken"), [("exit 0", [5]), ("exit 85", [5]), ("exit 1", []), ("kill -9 $$", [])])
def test_what_was_written_last_counts_only_if_the_job_ended_well(this_host: Host, end: str, taken: list[int]) -> None:
    script = f"mkdir -p out/step-5; echo maybe half > out/step-5/w; {end}"
    this_host.launch("script-3", "sh", "-c", script, watch=watch(quiet_s=60))
    this_host.await_end("script-3")
    assert [entry["step"] for entry in this_host.look("script-3")["outbox"]] == taken
    said = findings(this_host, "script-3")
    assert bool(said) is (not taken)
    assert all("out/step-5 was still being written to" in sentence for sentence in said)


def test_a_file_that_is_written_over_in_place_is_withdrawn_and_then_copied(this_host: Host) -> None:
    script = (
        "echo one > last.pt; until [ -e go ]; do sleep 0.05; done; echo two > last.pt;"
        "until [ -e on ]; do sleep 0.05; done; echo three > last.pt"
    )
    this_host.launch("script-4", "sh", "-c", script, watch=watch("*.pt"))
    folder = this_host.folder("script-4")
    (first,) = eventually(lambda: this_host.look("script-4")["outbox"])
    (folder / "work/go").touch()
    (second,) = eventually(lambda: [e for e in this_host.look("script-4")["outbox"] if e["digest"] != first["digest"]])
    assert [e["digest"] for e in this_host.look("script-4")["outbox"]] == [second["digest"]]
    assert "overwrote last.pt in place" in findings(this_host, "script-4")[0]
    (folder / "work/on").touch()
    this_host.await_end("script-4")
    kept = this_host.look("script-4")["outbox"]
    assert [(e["step"], content(this_host, "script-4", e)["last.pt"]) for e in kept] == [(2, b"two\n"), (3, b"three\n")]


def test_the_next_attempt_is_told_the_last_whole_checkpoint_and_half_ones_stay_out(some_host: Host) -> None:
    job = (
        "import os, pathlib, sys, time\n"
        "print(sys.argv[1:], flush=True)\n"
        "if len(sys.argv) > 1: sys.exit()\n"
        "for n in (1, 2):\n"
        "    folder = pathlib.Path(f'out/step-{n}'); folder.mkdir(parents=True); (folder / 'w').write_text(str(n))\n"
        "while len(list(pathlib.Path('../outbox').glob('*/MANIFEST.json'))) < 2: time.sleep(0.05)\n"
        "half = pathlib.Path('out/step-3'); half.mkdir(); (half / 'w').write_text('ha')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    template = ("--resume", "{checkpoint}", "--from={step}")
    some_host.launch("script-5", sys.executable, "-c", job, watch=watch("out/step-*", *template, quiet_s=0.8))
    some_host.await_end("script-5")
    some_host.call("run.submit", run_id="script-5", submission=2)
    assert some_host.await_state("script-5", "succeeded", submission=2)["attempt"] == 2
    place = some_host.folder("script-5") / "work/out/step-2"
    assert some_host.output("script-5").splitlines() == ["[]", f"['--resume', '{place}', '--from=2']"]
    assert [entry["step"] for entry in some_host.look("script-5")["outbox"]] == [1, 2]


def test_a_checkpoint_the_job_cleared_away_is_resumed_from_the_outbox(this_host: Host) -> None:
    script = (
        'echo "$@"; test $# -gt 1 && exec cat "$2"; echo x > c7.pt;'
        "until ls ../outbox/*/MANIFEST.json; do sleep 0.05; done >/dev/null 2>&1; rm c7.pt; exit 1"
    )
    this_host.launch("script-6", "sh", "-c", script, "job", watch=watch("c*.pt", "--resume", "{checkpoint}"))
    this_host.await_end("script-6")
    (entry,) = this_host.look("script-6")["outbox"]
    this_host.call("run.submit", run_id="script-6", submission=2)
    this_host.await_state("script-6", "succeeded", submission=2)
    place = this_host.folder("script-6") / "outbox" / entry["digest"] / "c7.pt"
    assert this_host.output("script-6").splitlines()[-2:] == [f"--resume {place}", "x"]


def test_what_came_with_the_code_is_no_checkpoint(this_host: Host, tmp_path: Path) -> None:
    (tmp_path / "code/out/step-0").mkdir(parents=True)
    (tmp_path / "code/out/step-0/w").write_text("old")
    os.utime(tmp_path / "code/out/step-0/w", (1, 1))
    script = "mkdir out/step-1; echo new > out/step-1/w"
    this_host.launch("script-7", "sh", "-c", script, job={"code": str(tmp_path / "code")}, watch=watch(quiet_s=0))
    this_host.await_end("script-7")
    assert [entry["step"] for entry in this_host.look("script-7")["outbox"]] == [1]


def test_the_heartbeat_is_when_the_log_last_grew(this_host: Host) -> None:
    script = "echo hello; until [ -e go ]; do sleep 0.05; done; echo again; until [ -e on ]; do sleep 0.05; done"
    this_host.launch("script-8", "sh", "-c", script, watch={"checkpoints": None, "resume": []})

    def beat() -> Any:
        return (this_host.look("script-8")["evidence"] or {}).get("heartbeat")

    first = eventually(beat)
    assert (first["phase"], first["step"], first["rank"]) == ("running", None, 0)
    (this_host.folder("script-8") / "work/go").touch()
    second = eventually(lambda: now if (now := beat())["time"] > first["time"] else None)
    assert second is not None
    (this_host.folder("script-8") / "work/on").touch()
    this_host.await_end("script-8")


def test_a_run_cleared_after_its_supervisor_was_killed_keeps_what_was_quiet(this_host: Host) -> None:
    script = (
        "mkdir -p out/step-4; echo w > out/step-4/w; touch -d '1 hour ago' out/step-4/w; ln out/step-4/w w;"
        " echo ready; exec sleep 1000"
    )
    this_host.launch("script-9", "sh", "-c", script, watch=watch(quiet_s=600))
    eventually(lambda: "ready" in this_host.output("script-9"))
    kill_both(this_host.look("script-9")["evidence"]["submission"]["job"])
    eventually(lambda: this_host.look("script-9")["evidence"]["supervisor"] == "dead")
    this_host.call("run.stop", run_id="script-9", grace_s=0)
    this_host.await_end("script-9")
    assert [entry["step"] for entry in this_host.look("script-9")["outbox"]] == [4]


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "out/../../x", ""])
def test_a_pattern_that_leads_out_of_the_run_is_refused(this_host: Host, pattern: str) -> None:
    with pytest.raises(Refused) as refused:
        this_host.create("script-10", "true", watch=watch(pattern))
    assert refused.value.kind == "bad_request"


def test_a_link_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    run = paths.RunPaths(str(tmp_path), "run-1")
    for folder in (run.work, run.outbox, tmp_path / "elsewhere/step-1"):
        Path(folder).mkdir(parents=True)
    (tmp_path / "elsewhere/step-1/w").write_text("secret")
    (Path(run.work) / "out").symlink_to(tmp_path / "elsewhere")
    watcher = checkpoint_watch.CheckpointWatch(run, {"pattern": "out/step-*", "quiet_s": 0}, Journal(run, 1))
    watcher.finish(is_trusted=True)
    assert list(Path(run.outbox).iterdir()) == []


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = paths.RunPaths(str(tmp_path), "run-1")
    for folder in (run.work, run.outbox):
        Path(folder).mkdir(parents=True)
    (Path(run.work) / "epoch=2-step=300.ckpt").write_text("w")

    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    watcher = checkpoint_watch.CheckpointWatch(run, {"pattern": "*.ckpt", "quiet_s": 0}, Journal(run, 1))
    watcher.finish(is_trusted=True)
    (taken,) = Path(run.outbox).iterdir()
    assert taken.name == ".new-300-0-1"
    assert (taken / "epoch=2-step=300.ckpt").read_text() == "w"
