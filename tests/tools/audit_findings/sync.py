"""What the audit found about bringing results home: copies that were destroyed, and losses that were not said."""

from __future__ import annotations

import shutil

from tests.conftest import Armada
from tests.tools.audit_findings.stage import HOST, SAVES, Answer, Ending, Finding, Stage, weights, where

TABLE = b"accuracy,0.93" * 100


def release(stage: Stage) -> Ending:
    """Home has a flipped byte, a deleted output and an emptied log; then the host is released and wiped."""
    run_id = stage.launch(SAVES, name="s1-release", sync={"outputs": ["results/**"]})
    for step in (1, 2):
        stage.save(run_id, step)
    stage.tell(run_id, "end")
    stage.await_state(run_id, "succeeded")
    log = stage.shell(f"cat {stage.folder(run_id)}/output.log").encode()
    stage.run("sync", "now", run_id)
    at_home = stage.armada.folder / f"home/state/runs/{run_id}"
    damaged = at_home / "checkpoints/checkpoint-2/weights.bin"
    damaged.chmod(0o600)
    damaged.write_bytes(b"S" + weights(2)[1:])
    (table,) = at_home.rglob("table.csv")
    table.unlink()
    (at_home / "outputs/output.log").write_bytes(b"")
    drained = stage.run("hosts", "release", HOST, "--drain", "--ignore-work")
    wiped = stage.run("hosts", "release", HOST, "--wipe", "--yes", "--ignore-work")
    asked = {"checkpoint-2": weights(2), "the output": TABLE, "the log": log}
    found = {name: stage.places(content) for name, content in asked.items()}
    truth = ", ".join(f"{name} is {where(places)}" for name, places in found.items())
    said = f"{drained.told('lost', 'home')}; {wiped.told('wiped', 'deleted', 'lost')}"
    return Ending(said, truth, not all(found.values()))


def thinning(stage: Stage) -> Ending:
    """A checkpoint was acknowledged, its copy at home then deleted; the job saves three more."""
    run_id = stage.launch(SAVES, name="s1-thinning", sync={"keep_remote": 2})
    stage.save(run_id, 1)
    stage.run("sync", "now", run_id)
    (stage.home / f"state/runs/{run_id}/checkpoints").chmod(0o700)
    shutil.rmtree(stage.home / f"state/runs/{run_id}/checkpoints/checkpoint-1")
    for step in (2, 3, 4):
        stage.save(run_id, step)
    stage.tell(run_id, "end")
    stage.await_state(run_id, "succeeded")
    there = stage.places(weights(1))
    synced = stage.run("sync", "now", run_id)
    shown = stage.run("show", run_id)
    after = stage.places(weights(1))
    truth = f"checkpoint-1 is {where(there)}; after `sync now` {where(after)}"
    return Ending(f"{synced.told()}; `show`: {shown.line('gone', 'step 1', 'checkpoint')}", truth, not after)


def copied_home(stage: Stage) -> Ending:
    """The home is copied; the copy syncs a run whose retention keeps the last three."""
    settings = {"keep_home": {"last": 3}, "keep_remote": 1}
    run_id = stage.launch(SAVES, name="s1-copy", sync=settings)
    for step in (1, 2, 3):
        stage.save(run_id, step)
    stage.run("sync", "now", run_id)
    copy = stage.armada.folder / "copy"
    shutil.copytree(stage.home, copy, symlinks=True)
    other = Armada(stage.armada.folder, stage.armada.env | {"ARMADA_HOME": str(copy)})
    for step in (4, 5, 6):
        stage.save(run_id, step)
    held = _held(stage, run_id)
    synced = Answer.of(other, "sync", "now", run_id)
    left = _held(stage, run_id)
    stage.run("sync", "now", run_id)
    after = _held(stage, run_id)
    stage.tell(run_id, "end")
    stage.await_state(run_id, "succeeded")
    truth = f"the original had {held} before, {left} after the copy's sync, and {after} after a sync of its own"
    return Ending(
        f"the copy's {synced.told('deleted', 'synced')}", truth, not set(held) <= set(left) or after != [4, 5, 6]
    )


def _held(stage: Stage, run_id: str) -> list[int]:
    """The steps whose whole checkpoints the home has."""
    folder = stage.home / f"state/runs/{run_id}/checkpoints"
    files = {step: folder / f"checkpoint-{step}/weights.bin" for step in range(1, 7)}
    return [step for step, file in files.items() if file.exists() and file.read_bytes() == weights(step)]


def vanished(stage: Stage) -> Ending:
    """A run succeeded, nothing of it is home, and its folder is removed on the host."""
    run_id = stage.launch(SAVES, name="s1-vanished")
    stage.save(run_id, 1)
    stage.state(run_id)
    stage.tell(run_id, "end")
    stage.await_state(run_id, "succeeded")
    stage.state(run_id)
    stage.shell(f"rm -rf {stage.folder(run_id)}")
    synced, listed = stage.run("sync", "now", run_id), stage.run("sync", "ls")
    pulled = stage.run("pull", run_id)
    said = "; ".join((synced.told("lost"), f"`sync ls`: {listed.line(run_id)}", pulled.told("lost")))
    is_wrong = "all home" in listed.text or "lost" not in synced.text or pulled.code == 0
    return Ending(said, f"checkpoint-1 is {where(stage.places(weights(1)))}", is_wrong)


FINDINGS: dict[str, Finding] = {
    "release": release,
    "thinning": thinning,
    "copied home": copied_home,
    "vanished results": vanished,
}
