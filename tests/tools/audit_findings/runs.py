"""What the audit found about runs: work that was done again or given up, dead runs shown as alive, and the reverse."""

from __future__ import annotations

import time
from functools import partial

from tests.fleet import machines
from tests.tools.audit_findings.stage import HOST, ROOT, SAVES, Ending, Finding, Stage, weights, where
from tests.waiting import eventually

TRAINS = """
import os, shutil, sys, time
attempt = os.environ["ARMADA_ATTEMPT"]
open("pid-" + attempt, "w").write(str(os.getpid()))
first = int(sys.argv[2].rpartition("-")[2]) if "--resume" in sys.argv else 0
print("attempt", attempt, "begins at step", first, flush=True)
shutil.rmtree("out", ignore_errors=True)
for step in range(first + 10, 70, 10):
    while not os.path.exists("go-%s-%d" % (attempt, step)):
        print("before step", step, flush=True)
        time.sleep(0.1)
    os.makedirs("out/checkpoint-%d" % step)
    open("out/checkpoint-%d/weights.bin" % step, "w").write("attempt %s, step %d, " % (attempt, step) * 2000)
    print("step", step, flush=True)
"""
"""A job that clears `out` when it starts, as some scripts do, and saves every ten steps up to 60, each once it may."""

RESTORED_S = 150.0
"""How long a host shows an older copy before the looks end: armada allows a shared file system two minutes of lag."""

BROUGHT_S = 45.0
"""How long a daemon has to bring a checkpoint home: it takes seconds."""
ALIVE = ("running", "submitted", "queued", "stalled", "nothing")

HARMED = """
import json, os, time
line = {line}
while not os.path.exists("go"):
    time.sleep(0.05)
open(os.path.join(os.environ["ARMADA_RUN_DIR"], "metrics.jsonl"), "a").write(line + chr(10))
print("written", flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
LINES = {
    "nested": """'{"kind": "train", "step": 1, "loss": ' + "[" * 2000 + "]" * 2000 + "}" """,
    "surrogate": r"""'{"kind": "train", "step": 1, "time": 1.0, "loss": 1.0, "a' + chr(92) + 'ud800": 2.0}'""",
}
"""Lines for metrics.jsonl, as Python expressions."""


def _trained(attempt: int, step: int) -> bytes:
    return b"attempt %d, step %d, " % (attempt, step) * 2000


def _starts(stage: Stage, run_id: str) -> int:
    return len(stage.shell(f"ls {stage.folder(run_id)}/work/pid-*").split())


def _train(stage: Stage, name: str, quiet_s: float, **more: int) -> str:
    """Launch `TRAINS`; its run id."""
    watched = {"pattern": "out/checkpoint-*", "quiet_s": quiet_s}
    resume = ["--resume", "{checkpoint}"]
    run_id = stage.launch(TRAINS, name=name, checkpoint=watched, resume=resume, **more)
    stage.pid(run_id)
    return run_id


def _reach(stage: Stage, run_id: str, *steps: int) -> None:
    """Let the first attempt train up to steps, and wait until it has saved them."""
    stage.tell(run_id, *(f"go-1-{step}" for step in steps))
    last = f"{stage.folder(run_id)}/work/out/checkpoint-{steps[-1]}/weights.bin"
    eventually(lambda: stage.is_so(f"[ -s {last} ]"), f"step {steps[-1]}")


def retry(stage: Stage, watchers: tuple[str, ...]) -> Ending:
    """A run that may be retried loses who watches it at step 30; its job goes on to step 60 and ends well."""
    run_id = _train(stage, "s1-retry", 1, retries=2)
    _reach(stage, run_id, 10, 20, 30)
    eventually(lambda: 30 in stage.announced(run_id), "step 30 in the outbox")
    stage.kill_watchers(run_id, *watchers)
    _reach(stage, run_id, 40, 50, 60)
    first = stage.pid(run_id)
    eventually(lambda: not stage.lives(first), "the end of the job")
    states: list[str] = []

    def settled() -> bool:
        states.append(stage.state(run_id))
        return _starts(stage, run_id) > 1 or "home" in stage.places(_trained(1, 60)) or len(states) > 20

    with stage.daemon():
        eventually(settled, "what becomes of the run")
    starts = _starts(stage, run_id)
    if starts == 1:
        stage.run("sync", "now", run_id)
    last = stage.places(_trained(1, 60))
    truth = f"its job had ended well; it was started {starts} time{'s' * (starts > 1)}; its step 60 is {where(last)}"
    if starts > 1:
        stage.run("stop", run_id, "--grace", "0")
    shown = list(dict.fromkeys(states))
    return Ending(f"`ps`: {', then '.join(shown)}", truth, starts > 1 or not last)


def resume(stage: Stage) -> Ending:
    """Who watches a run is killed before the first checkpoints were quiet; its job is killed later, and it is resumed."""
    quiet_s = 5.0
    run_id = _train(stage, "s1-resume", quiet_s)
    _reach(stage, run_id, 10, 20, 30, 40, 50)
    stage.kill_watchers(run_id, "guardian", "supervisor")
    assert stage.announced(run_id) == [], "it was too late"
    time.sleep(2 * quiet_s)  # the checkpoints are whole, by the experiment's own rule
    stage.shell(f"kill -9 {stage.pid(run_id)}")
    state = stage.state(run_id)
    resumed = stage.run("resume", run_id)
    log = f"cat {stage.folder(run_id)}/output.log"
    stage.pid(run_id, 2)
    began = eventually(
        lambda: [line for line in stage.shell(log).splitlines() if line.startswith("attempt 2")], "its second attempt"
    )
    stage.run("stop", run_id, "--grace", "0")
    truth = f"five checkpoints lay on the disk; {began[0]}; step 50 is {where(stage.places(_trained(1, 50)))}"
    return Ending(f"`ps`: {state}; {resumed.told('resum', 'goes on')}", truth, began[0].endswith(" 0"))


def snapshot(stage: Stage, *, is_rebooted: bool) -> Ending:
    """A run is stopped and resumed; then its host shows an older copy of its folder, and nothing of it lives."""
    run_id = stage.launch(SAVES, name="s1-snapshot")
    stage.pid(run_id)
    stage.state(run_id)
    folder = stage.folder(run_id)
    stage.shell(f"cp -a {folder} /home/researcher/snapshot")
    stage.run("stop", run_id, "--grace", "0")
    stage.run("resume", run_id)
    stage.pid(run_id, 2)
    states = [stage.state(run_id)]
    if is_rebooted:
        machines.reboot(machines.MACHINES[HOST])
    else:
        stage.kill_watchers(run_id, "guardian", "supervisor", submission=2)
        stage.shell(f"kill -9 {stage.pid(run_id, 2)}")
    stage.shell(f"rm -rf {folder} && mv /home/researcher/snapshot {folder}")
    deadline = time.monotonic() + RESTORED_S

    def is_said() -> bool:
        states.append(stage.state(run_id))
        return not states[-1].startswith(ALIVE) or time.monotonic() > deadline

    eventually(is_said, "that nothing lives", within_s=2 * RESTORED_S, longest_pause_s=10.0)
    resumed = stage.run("resume", run_id)
    if resumed.code == 0:
        stage.await_state(run_id, "running")
        stage.run("stop", run_id, "--grace", "0")
    said = f"`ps`: {', then '.join(dict.fromkeys(states))}; {resumed.told('launched', 'armada:')}"
    truth = f"nothing of the run lived; it {'ran again' if resumed.code == 0 else 'could not be resumed'}"
    return Ending(said, truth, states[-1].startswith(ALIVE) or resumed.code != 0)


def stop_away(stage: Stage) -> Ending:
    """A run's root is on a disk that is unmounted; the run is stopped, and the disk comes back."""
    disk = "/home/researcher/disk"
    as_root = partial(stage.shell, user=None)
    as_root(f"mkdir -p {disk} {ROOT} && chown -R researcher: {disk} {ROOT} && mount --bind {disk} {ROOT}")
    run_id = stage.launch(SAVES, name="s1-away")
    pid = stage.pid(run_id)
    stage.state(run_id)
    as_root(f"umount -l {ROOT}")
    away = stage.state(run_id)
    stopped = stage.run("stop", run_id, "--grace", "0")
    lived = stage.lives(pid)
    as_root(f"mount --bind {disk} {ROOT}")
    back = stage.state(run_id)
    lives = stage.lives(pid)
    said = f"`ps`: {away}; {stopped.told('stop', 'cancel')}; `ps` when the disk is back: {back}"
    truth = (
        f"its job {'lived on' if lived else 'had ended'} after `stop`, and {'lives' if lives else 'is gone'} at the end"
    )
    return Ending(said, truth, (lived and stopped.code == 0) or (lives and back.startswith("cancelled")))


def hostile_line(stage: Stage, line: str) -> Ending:
    """A job writes one hostile line into its metrics; another run on its host saves a checkpoint and ends."""
    harmful = stage.launch(HARMED.format(line=LINES[line]), name="s1-hostile")
    innocent = stage.launch(SAVES, name="s1-innocent")
    stage.tell(harmful, "go")
    eventually(lambda: "written" in stage.shell(f"cat {stage.folder(harmful)}/output.log"), "the line")
    stage.save(innocent, 1)
    stage.tell(innocent, "end")
    stage.await_state(innocent, "succeeded")
    deadline = time.monotonic() + BROUGHT_S
    with stage.daemon():
        eventually(lambda: "home" in stage.places(weights(1)) or time.monotonic() > deadline, "the checkpoint")
        status = stage.run("daemon", "status")
    home = "home" in stage.places(weights(1))
    asked = [stage.run(*words) for words in (("ps",), ("show", innocent), ("why", innocent))]
    stopped = stage.run("stop", harmful, "--grace", "0")
    state = stage.state(innocent)
    codes = ", ".join(f"`{answer.words[0]}` ends with {answer.code}" for answer in (*asked, stopped))
    truth = f"the other run had succeeded; its checkpoint is {'home' if home else 'not home'}"
    is_wrong = not home or state != "succeeded" or any(answer.code for answer in (*asked, stopped))
    said = f"{codes}; `ps` of the other run: {state}; `daemon status`: {status.line(HOST)}"
    return Ending(said, truth, is_wrong)


FINDINGS: dict[str, Finding] = {
    "retry": partial(retry, watchers=("supervisor",)),
    "retry, no guardian": partial(retry, watchers=("guardian", "supervisor")),
    "resume": resume,
    "snapshot": partial(snapshot, is_rebooted=False),
    "snapshot, reboot": partial(snapshot, is_rebooted=True),
    "stop while away": stop_away,
    "nested line": partial(hostile_line, line="nested"),
    "surrogate line": partial(hostile_line, line="surrogate"),
}
