"""A user's own training script, as armada starts it: under accelerate, with nothing of ours in its process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada
from tests.payload.interpreter import Interpreter
from tests.payload.prepared import output, prepare_environment, run_folder
from tests.waiting import eventually

pytestmark = pytest.mark.payload

# What people write after reading accelerate's first page; the last lines note what it found.
SCRIPT = """\
import json, os, pathlib, sys, time
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for step, (batch,) in enumerate(data, 1):
    loss = model(batch).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    if step % 2 == 0 and accelerator.is_main_process:
        folder = pathlib.Path(f"out/checkpoint-{step}")
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(accelerator.unwrap_model(model).state_dict(), folder / "weights.pt")
    print(f"step {step} loss {loss.item():.4f}", flush=True)
seen = {
    "world": accelerator.num_processes, "device": accelerator.device.type, "mixed": accelerator.mixed_precision,
    "argv": sys.argv[1:], "ours": [name for name in sys.modules if name.startswith("armada")],
    "path": [p for p in sys.path if "armada" in p and "code" in p], "python_path": os.environ.get("PYTHONPATH"),
}
if accelerator.is_main_process:
    pathlib.Path("part-0").write_text(json.dumps(seen))
    pathlib.Path("part-0").rename("seen-0.json")
accelerator.end_training()
"""


def project(armada: Armada, script: str = SCRIPT, **changes: Any) -> str:
    folder = armada.folder / "project"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script)
    experiment: dict[str, Any] = {
        "name": "own script",
        "task": "script",
        "script": "train.py",
        "code": "project",
        "checkpoint": {"pattern": "out/checkpoint-*", "quiet_s": 60},
        "resume": ["--resume", "{checkpoint}"],
        "resources": {"processes": 2},
    }
    return armada.write("exp.yaml", json.dumps(experiment | changes))


@pytest.fixture
def local(armada: Armada, payload_python: Interpreter) -> Armada:
    prepare_environment(armada, payload_python.path)
    return armada


def seen(armada: Armada, run_id: str, start: int = 0) -> dict[str, Any]:
    file = run_folder(armada, run_id) / "work" / f"seen-{start}.json"
    found: dict[str, Any] = json.loads(eventually(lambda: file.read_text() if file.exists() else ""))
    return found


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.takes_long("accelerate's own launcher, and ranks that import torch anew")
def test_a_script_runs_under_accelerate_and_its_checkpoints_come_home(local: Armada, processes: int) -> None:
    words = ["--config_file", "mine.yaml", "-m", "--", "$(x) 'y'"]
    file = project(local, arguments=words, resources={"processes": processes}, env={"PYTHONPATH": "src"})
    run = local.json("launch", "--host", "local", file, "--follow")
    assert run["state"] == "succeeded", output(local, run["run_id"])
    assert seen(local, run["run_id"]) == {
        "world": processes, "device": "cpu", "mixed": "no", "argv": words, "ours": [], "path": [],
        "python_path": f"src:{run_folder(local, run['run_id']) / 'lib'}",  # where `armada_log` is
    }  # fmt: skip
    assert run["task"] == "script"
    shown = local.json("show", run["run_id"])
    steps = [checkpoint["step"] for checkpoint in shown["checkpoints"] if checkpoint["home_path"]]
    assert steps[-1] == (8 if processes == 1 else 4)
    assert (Path(shown["checkpoints"][-1]["home_path"]) / "weights.pt").is_file()


@pytest.mark.takes_long("two attempts of two ranks that import torch anew")
def test_a_second_attempt_is_told_where_to_go_on(local: Armada) -> None:
    script = (
        "import json, os, pathlib, sys\n"
        "pathlib.Path('out/checkpoint-4').mkdir(parents=True, exist_ok=True)\n"
        "pathlib.Path('out/checkpoint-4/weights.pt').write_text('weights')\n"
        "start = 4 if '--resume' in sys.argv else 0\n"
        "pathlib.Path(f'part-{start}').write_text(json.dumps({'argv': sys.argv[1:]}))\n"
        "os.rename(f'part-{start}', f'seen-{start}.json')\n"
        "if not start: sys.exit(3)\n"
    )
    checkpoint = {"pattern": "out/checkpoint-*", "quiet_s": 0}
    file = project(local, script, checkpoint=checkpoint, resources={"processes": 1})
    assert local.run("launch", "--host", "local", file, "--follow").returncode == 6
    (first,) = local.json("ps")
    run_id = first["run_id"]
    assert (first["state"], first["reason"]) == ("failed", "exit_3")
    local_submit(local, run_id)
    again = seen(local, run_id, start=4)
    assert again["argv"] == ["--resume", str(run_folder(local, run_id) / "work/out/checkpoint-4")]


def local_submit(armada: Armada, run_id: str) -> None:
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from tests.payload.prepared import local_host

    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    with HostSession(local_host(home), home, patience_s=10) as session:
        session.call("run.submit", {"run_id": run_id, "submission": 2}, timeout_s=60)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_signal_reaches_the_script_which_has_its_grace(local: Armada, processes: int) -> None:
    script = (
        "import os, pathlib, signal, sys, time\n"
        "def leave(*_):\n"
        "    pathlib.Path(f'left-{os.environ.get(\"RANK\", 0)}').touch(); sys.exit(85)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "pathlib.Path(f'up-{os.environ.get(\"RANK\", 0)}').touch()\n"
        "while True: time.sleep(0.05)\n"
    )
    file = project(local, script, resources={"processes": processes})
    run_id = local.json("launch", "--host", "local", file)["run_id"]
    work = run_folder(local, run_id) / "work"
    eventually(lambda: len(list(work.glob("up-*"))) == processes)
    assert local.run("stop", run_id, "--grace", "30").returncode == 0
    assert len(list(work.glob("left-*"))) == processes
    assert local.json("ps")[0]["state"] == "cancelled"


@pytest.mark.parametrize(
    ("end", "reason", "code"), [("sys.exit(7)", "exit_7", 7), ("os.kill(os.getpid(), 9)", "signal_SIGKILL", 137)]
)
@pytest.mark.takes_long("accelerate's own launcher")
def test_a_scripts_own_exit_code_comes_through_torchrun(local: Armada, end: str, reason: str, code: int) -> None:
    script = f"import os, sys\nif os.environ['RANK'] == '1': {end}\n"
    done = local.run("launch", "--host", "local", project(local, script), "--follow")
    assert done.returncode == 6
    (run,) = local.json("ps")
    assert (run["reason"], run["exit_code"]) == (reason, code)


def test_a_script_that_git_ignores_is_refused(local: Armada) -> None:
    file = project(local)
    folder = local.folder / "project"
    (folder / ".gitignore").write_text("train.py\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    done = local.run("launch", "--host", "local", file)
    assert done.returncode == 2
    assert "train.py is not sent: git ignores it" in done.stderr


def test_more_gpus_in_sight_than_planned_are_refused(payload_python: Interpreter, tmp_path: Path) -> None:
    """Here torch sees none: a plan with one is another world."""
    (tmp_path / "spec.json").write_text(json.dumps({"format": 1, "gpus": 1}))
    settings = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "NO", "num_processes": 1, "num_machines": 1}
    settings |= {"use_cpu": False, "mixed_precision": "no", "machine_rank": 0}
    (tmp_path / "a.yaml").write_text(json.dumps(settings))
    argv = [payload_python.path, "-m", "armada_train.launch", "--config_file", "a.yaml", "--spec", "spec.json"]
    payload = Path(__file__).parents[2] / "remote_payload"
    ended = subprocess.run(
        [*argv, "--script", "train.py", "--"], cwd=tmp_path, env={"PYTHONPATH": str(payload), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    assert "the plan has 1 GPU(s), but torch" in ended.stderr
    failure = json.loads((tmp_path / "attempts/1/failure.json").read_text())
    assert failure["reason"] == "world_mismatch"
