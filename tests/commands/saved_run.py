"""A run that saves three checkpoints, for tests of what comes home of it."""

from __future__ import annotations

from tests.conftest import Armada

# What the payload does when it saves: links files below .part-N, announces, renames.
SAVE = r"""
import json, os, sys, time
run = os.environ["ARMADA_RUN_DIR"]
for step, loss in ((10, 0.5), (20, 0.3), (30, 0.4)):
    part = os.path.join(run, "outbox", ".part-%d" % step)
    os.makedirs(part)
    open(os.path.join(part, "model.bin"), "wb").write(b"%d" % step * 1000)
    open(os.path.join(part, "base.bin"), "wb").write(b"base" * 5000)
    json.dump({"step": step, "kind": "periodic", "time": time.time(), "metrics": {"eval_loss": loss}},
              open(os.path.join(part, ".announce.json"), "w"))
    with open(os.path.join(run, "metrics.jsonl"), "a") as metrics:
        print(json.dumps({"kind": "eval", "step": step, "time": time.time(), "attempt": 1, "eval_loss": loss}), file=metrics)
    os.rename(part, os.path.join(run, "outbox", ".new-%d" % step))
os.makedirs("results")
open("results/table.csv", "w").write("a,b\n")
open("scratch.tmp", "w").write("not named by anybody")
print("saved")
"""


def save_and_end(armada: Armada) -> str:
    """Launch it on this machine and wait for its end; nothing of it is home yet."""
    armada.write("save.py", SAVE)
    experiment = armada.command("python3", str(armada.folder / "save.py"), sync={"outputs": ["results/**"]})
    found: str = armada.json("launch", "--host", "local", experiment)["run_id"]
    armada.await_end(found)
    assert armada.json("ps")[0]["state"] == "succeeded"
    return found
