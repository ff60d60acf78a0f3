"""Curves of scripts and commands that know nothing of armada, from their start to `armada show`."""

from __future__ import annotations

from armada.store import metrics
from armada.store.database import Database
from tests.conftest import Armada

TRAINER = """\
import sys
for step in range(1, 5):
    loss = "nan" if step == 4 else "%.3f" % (1 / step)
    print("\\r%3d%%|####      | %d/4 [00:01<00:01, 1.00it/s]" % (25 * step, step), end="", file=sys.stderr, flush=True)
    print("\\r          \\r{'loss': '%s', 'grad_norm': '1.5', 'learning_rate': '1e-05', 'epoch': '0.%d'}" % (loss, step))
    print("\\r%3d%%|####      | %d/4 [00:01<00:01, 1.00it/s]" % (25 * step, step), end="", file=sys.stderr, flush=True)
print("{'eval_loss': 0.5, 'eval_runtime': 1.0, 'epoch': 0.4}")
print("{'train_runtime': 36.2, 'train_samples_per_second': 44.25, 'train_loss': 0.29, 'epoch': 1.0}")
"""


def test_a_script_that_prints_as_the_trainer_does_has_curves(armada: Armada) -> None:
    project = armada.folder / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAINER)
    experiment = armada.command("python3", "train.py", code="project")
    done = armada.run("launch", "--host", "local", experiment, "--follow")
    assert done.returncode == 0, done.stderr
    (run,) = armada.json("ps")
    shown = armada.json("show", run["run_id"])
    assert (shown["step"], shown["total_steps"], shown["loss"]) == (4, 4, None)
    printed = armada.run("show", run["run_id"]).stdout
    assert "loss NaN" in printed
    assert "eval loss  0.5000 at 4" in printed
    assert "speed      train_samples_per_second 44.25" in printed
    assert shown["results"] == {"train_loss": 0.29, "train_runtime": 36.2, "train_samples_per_second": 44.25}
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        assert metrics.curve(database, run["run_id"], "loss") == [(1, 1.0), (2, 0.5), (3, 0.333), (4, None)]
        assert {"grad_norm", "learning_rate", "epoch"} <= set(metrics.names(database, run["run_id"]))
    assert "the loss is not a number at step 4" in (armada.local_runs / run["run_id"] / "events.jsonl").read_text()


def test_a_script_that_imports_armada_log_has_curves_and_a_persons_trial_in_its_folder_adds_nothing(
    armada: Armada,
) -> None:
    script = (
        "import armada_log; armada_log.progress(1, 8); "
        "armada_log.log(2, loss=0.25, tokens=5, **{'time/data': 0.5, 'time/forward': 1.5})"
    )
    launched = armada.json("launch", "--host", "local", armada.command("python3", "-c", script), "--follow")
    run_id = launched["run_id"]
    shown = armada.json("show", run_id)
    assert (shown["state"], shown["step"], shown["total_steps"], shown["loss"]) == ("succeeded", 2, 8, 0.25)
    split = armada.json("show", run_id, "--time", "--last", "5")["time"]
    assert (split["last"]["step_s"], split["last"]["parts"][0]["share"]) == (2.0, 0.25)
    table = [line.split()[:3] for line in armada.run("show", run_id, "--time").stdout.splitlines()]
    assert ["data", "0.5", "25%"] in table
    assert "--last belongs to --time" in armada.run("show", run_id, "--last", "5").stderr
    tried = armada.run("exec", run_id, "--", "python3", "-c", "import armada_log; armada_log.log(3, trial=9.0)")
    assert tried.returncode == 0, tried.stderr
    assert "trial" not in (armada.local_runs / run_id / "reported.jsonl").read_text()


def test_a_table_that_the_experiment_names_is_drawn(armada: Armada) -> None:
    rows = "printf 'step,train_loss,val_loss\\n5,0.5,\\n5,,0.4\\n' > curve.csv"
    experiment = armada.command("sh", "-c", rows, metrics="*.csv")
    launched = armada.json("launch", "--host", "local", experiment, "--follow")
    shown = armada.json("show", launched["run_id"])
    assert (shown["step"], shown["loss"]) == (5, 0.5)
    assert "eval loss  0.4000 at 5" in armada.run("show", launched["run_id"]).stdout
