"""`armada init`: what it writes is loaded by armada itself, says what the script says, and no script is ever run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from armada.cli.main import run
from armada.config.experiments import load_experiment
from armada.config.tasks.job_environment import JobEnvironment
from armada.config.tasks.script import Script
from armada.config.tasks.sft import Sft
from tests.unit.launch.drafts.draft_scripts import ARGPARSE, HF, LIGHTNING, NO_ARGUMENTS, SCRIPTS, TORCHRUN

ROW = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "my project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return project


def drafted(*words: str, file: str = "experiment.yaml") -> Script:
    assert run(["init", *words]) == 0
    found = load_experiment(Path(file))
    assert isinstance(found, Script)
    return found


def uncommented(file: Path) -> str:
    """The file with every suggested line taken into use: each must be one that armada knows."""
    lines = []
    for line in file.read_text().splitlines():
        bare = line.lstrip()
        if bare.startswith(("# - ", "#   - ")):
            indent = line[: len(line) - len(bare)]
            lines.append(f"{indent}{bare[2:]}" if indent else bare[1:].replace("  -", " -", 1))
        elif bare.startswith(
            ("# arguments:", "# checkpoint:", "# environment:", "# resume:", "# resources:", "# sync:", "# quiet_s:")
        ):
            lines.append(line.replace("# ", "", 1))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_draft_of_a_script_is_loaded_and_so_are_its_suggestions(folder: Path, name: str) -> None:
    (folder / "train.py").write_text(SCRIPTS[name])
    found = drafted("train.py")
    assert (found.script, found.code.resolve()) == ("train.py", folder.resolve())
    text = uncommented(folder / "experiment.yaml")
    if found.resume and found.resume.arguments:
        assert "# resume:" not in (folder / "experiment.yaml").read_text()
    assert "\nresources: {gpus: 1} " in text
    (folder / "all.yaml").write_text(text)
    assert isinstance(load_experiment(folder / "all.yaml"), Script), text


def test_arguments_of_argparse_are_found(folder: Path) -> None:
    (folder / "train.py").write_text(ARGPARSE)
    found = drafted("train.py")
    assert found.arguments == ("FILL-IN:data_dir", "--batch-size=FILL-IN:batch_size", "--output-dir=out")
    assert found.checkpoint is not None
    assert found.checkpoint.pattern == "out/ckpt-*.pt"
    assert found.resume is not None
    assert found.resume.arguments == ("--resume", "{checkpoint}")
    text = (folder / "experiment.yaml").read_text()
    for line in ('# - "--lr=0.001"', "learning rate # not: a comment", '# - "--optimizer=adam"', "one of adam, sgd"):
        assert line in text
    for line in ('  # - "--amp"', '  # - "--layers"', '  # - "2"', "samples at once", "# secrets: [WANDB_API_KEY]"):
        assert line in text


def test_arguments_of_dataclasses_are_found(folder: Path) -> None:
    (folder / "train.py").write_text(HF)
    found = drafted("train.py")
    assert found.arguments == ("--model_name=FILL-IN:model_name", "--output_dir=out")
    assert found.checkpoint is not None
    assert found.checkpoint.pattern == "out/checkpoint-*"
    assert found.resume is not None
    assert found.resume.arguments == ("--resume_from_checkpoint", "{checkpoint}")
    text = (folder / "experiment.yaml").read_text()
    assert '# - "--attention=sdpa"' in text
    assert '# - "--max_length=512"' in text


def test_checkpoints_are_found_without_arguments(folder: Path) -> None:
    for script, pattern in ((NO_ARGUMENTS, "models/step_*.pt"), (LIGHTNING, "weights/*.ckpt"), (TORCHRUN, None)):
        (folder / "train.py").write_text(script)
        found = drafted("train.py", "-o", f"{len(script)}.yaml", file=f"{len(script)}.yaml")
        assert found.arguments == ()
        assert (found.checkpoint.pattern if found.checkpoint else None) == pattern
    assert "local-rank" not in (folder / f"{len(TORCHRUN)}.yaml").read_text()


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        (
            'import click\n@click.option("--lr", required=True)\n@click.option("--on/--off")\ndef f(): ...',
            ("--lr=FILL-IN:lr",),
        ),
        ("import lightning\nLightningCLI(Model)", ("fit",)),
        (
            "from trl import TrlParser\nTrlParser((ScriptArguments, SFTConfig, ModelConfig))",
            (
                "--dataset_name=FILL-IN:dataset_name",
                "--output_dir=out",
                "--model_name_or_path=FILL-IN:model_name_or_path",
            ),
        ),
        ("import tyro\nclass C:\n  max_steps: int\n  lr: float = 1.0\ntyro.cli(C)", ("--max-steps=FILL-IN:max_steps",)),
        ('p.add_argument("-n", required=True)', ("-n", "FILL-IN:n")),
        ('p.add_argument("x", nargs="?")\np.add_argument(*y)\np.add_argument("a b", required=True)', ()),
    ],
)
def test_other_parsers_are_read_too(folder: Path, source: str, arguments: tuple[str, ...]) -> None:
    (folder / "train.py").write_text(source)
    assert drafted("train.py").arguments == arguments


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        (
            'torch.save(m, "%s/net_%d.pth" % (opt.outf, epoch))\np.add_argument("--outf", default="weights")',
            "weights/net_*.pth",
        ),
        ('torch.save(m, "ckpt_{}_{:04d}.pt".format(name, step))', "ckpt_*_*.pt"),
        ('def save(state, file="checkpoint.tar"):\n    torch.save(state, file)', "checkpoint.tar"),
        (
            'place = f"step_{n}"\nif a:\n    place = os.path.join(args.o, place)\naccelerator.save_state(place)',
            "step_*",
        ),
        ('root = Path("./runs")\ntorch.save(m, root / "a" / f"{n}.pt")', "runs/a/*.pt"),
        ('model.save_pretrained("out/final")\ntorch.save(m, f"out/step-{n}/state.pt")', "out/step-*/state.pt"),
        ('from transformers import Trainer\nTrainer(a)\nA(output_dir="./")', "checkpoint-*"),
        ('import lightning\nTrainer(default_root_dir="./logs/")', "logs/lightning_logs/version_*/checkpoints/*.ckpt"),
        ("torch.save(m, sys.argv[1])", None),
        ('torch.save(m, f"{root}/x.pt")', None),
        ('torch.save(m, "s3://bucket/x.pt")', None),
        ('torch.save(m, "out/**/x.pt")', "out/*/x.pt"),
    ],
)
def test_what_a_script_saves_is_found(folder: Path, source: str, pattern: str | None) -> None:
    (folder / "train.py").write_text(source)
    found = drafted("train.py")
    assert (found.checkpoint.pattern if found.checkpoint else None) == pattern


def test_a_second_kind_of_checkpoints_is_mentioned(folder: Path) -> None:
    (folder / "train.py").write_text(
        'x.save_state(f"step_{n}")\nx.save_state(f"epoch_{n}")\ntorch.save(m, "last.pt")\n'
    )
    found = drafted("train.py")
    assert found.checkpoint is not None
    assert found.checkpoint.pattern == "step_*"
    assert "# The script also saves epoch_*. Only one pattern is watched." in (folder / "experiment.yaml").read_text()


def test_data_that_git_ignores_is_named_and_results_are_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "--quiet", "."], cwd=folder, check=True)
    (folder / "train.py").write_text(f'{ARGPARSE}\nopen("results/table.csv")\n')
    (folder / ".gitignore").write_text("corpus/\n*.npy\nout/\nwandb/\n.venv/\n*.log\nresults/\n")
    for name in (
        "corpus/train.jsonl",
        "extra.npy",
        "out/ckpt-1.pt",
        "wandb/x.json",
        ".venv/a.npy",
        "run.log",
        "vocab.txt",
        "results/table.csv",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    found = drafted("train.py")
    assert found.data is not None
    assert [path.relative_to(folder).as_posix() for path in found.data.paths] == ["corpus", "extra.npy"]
    (folder / "requirements.txt").write_text("torch>=2\n# no\nTransformers\neinops==0.8\n-r more.txt\n")
    capsys.readouterr()
    assert run(["init", "train.py", "-o", "b.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["notes"] == ["requirements.txt names packages that armada's profiles do not have: einops"]
    assert told["to_fill_in"] == ["data_dir", "--batch-size"]
    (folder / "sub").mkdir()
    (folder / "more.txt").write_text("rich\n")
    assert run(["init", "train.py", "-o", "sub/c.yaml"]) == 0
    (folder / "sub" / "c.yaml").write_text(uncommented(folder / "sub" / "c.yaml"))
    installs = load_experiment(Path("sub/c.yaml"))
    assert isinstance(installs, Script)
    assert isinstance(installs.environment, JobEnvironment)
    assert isinstance(installs.environment.requirements, Path)
    assert installs.environment.requirements.samefile(folder / "requirements.txt")


def test_data_behind_a_link_is_named(folder: Path) -> None:
    disk = folder.parent / "disk"
    disk.mkdir()
    (disk / "a.jsonl").write_text(ROW)
    (folder / "corpus").symlink_to(disk)
    (folder / "train.py").write_text('open("corpus/a.jsonl")\nopen("pipe")\n')
    os.mkfifo(folder / "pipe")
    found = drafted("train.py")
    assert found.data is not None
    assert [path.relative_to(folder).as_posix() for path in found.data.paths] == ["corpus/a.jsonl"]
    subprocess.run(["git", "init", "--quiet", "."], cwd=folder, check=True)
    (folder / ".gitignore").write_text("corpus\npipe\n")
    found = drafted("train.py", "-o", "b.yaml", file="b.yaml")
    assert found.data is not None
    assert [path.relative_to(folder).as_posix() for path in found.data.paths] == ["corpus"]


def test_a_script_that_would_not_be_sent_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "--quiet", "."], cwd=folder, check=True)
    (folder / "train.py").write_text(NO_ARGUMENTS)
    (folder / ".gitignore").write_text("train.py\n")
    assert run(["init", "train.py"]) == 2
    assert "git ignores train.py" in capsys.readouterr().err
    (folder / "link.py").symlink_to("train.py")
    assert run(["init", "link.py"]) == 2
    assert "link.py is a link" in capsys.readouterr().err


def test_the_only_script_with_a_main_is_taken_and_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fit.py").write_text(LIGHTNING)
    (folder / "tools.py").write_text("def f(): ...\n")
    (folder / "broken.py").write_text("def f(:\n")
    assert drafted().script == "fit.py"
    assert "fit.py is the only Python file here that can be started" in capsys.readouterr().out
    (folder / "other.py").write_text(TORCHRUN)
    assert run(["init", "-o", "b.yaml"]) == 2
    assert "several scripts could be meant: fit.py, other.py\n  → armada init fit.py" in capsys.readouterr().err


def test_data_alone_makes_a_training(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "data").mkdir()
    for name in ("chats.jsonl", "data/more.jsonl", "chats-eval.jsonl"):
        (folder / name).write_text(ROW * 3)
    (folder / "list.json").write_text("[1]")
    (folder / "alpaca.json").write_text('[{"instruction": "a", "input": "", "output": "b"}]')
    (folder / "torn.csv").write_text('prompt,completion\n"a,b\n')
    (folder / "table.csv").write_text("prompt,completion\na,b\n")
    (folder / "plain.jsonl").write_text('{"text": "x"}\n')
    (folder / "odd.jsonl").write_text('{"question": "x"}\n')
    (folder / "empty.jsonl").write_text("")
    assert run(["init"]) == 0
    found = load_experiment(folder / "experiment.yaml")
    assert isinstance(found, Sft)
    assert found.data is not None
    named = ("alpaca.json", "chats.jsonl", "data/more.jsonl")
    assert [source.path for source in found.data.train] == [folder / name for name in named]
    assert [source.path for source in found.data.eval_sources] == [folder / "chats-eval.jsonl"]
    out = capsys.readouterr().out
    for left in (
        "list.json is left out: its first row is no JSON object",
        "torn.csv is left out: it cannot be read: a quote opens a value here",
        "table.csv is left out: its rows are prompt_completion",
        "plain.jsonl is left out: its rows are text",
        "odd.jsonl",
    ):
        assert left in out


def test_an_empty_folder_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 7
    assert "holds neither a Python script that can be started nor data" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_paths_are_relative_to_the_file(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "experiments").mkdir()
    (folder / "src" / "train.py").write_text(TORCHRUN)
    found = drafted("src/../src/train.py", "-o", "experiments/one.yaml", file="experiments/one.yaml")
    assert (found.script, found.code.resolve()) == ("src/train.py", folder.resolve())
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run it.py").write_text(TORCHRUN)
    found = drafted("../elsewhere/run it.py", "-o", "two.yaml", file="two.yaml")
    assert (found.script, found.code.resolve()) == ("run it.py", elsewhere.resolve())


def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(TORCHRUN)
    (folder / "experiment.yaml").write_text("mine")
    assert run(["init", "train.py"]) == 8
    said = capsys.readouterr().err
    assert "experiment.yaml exists already; nothing was written" in said
    assert "→ armada init train.py -o another.yaml\n" in said
    assert (folder / "experiment.yaml").read_text() == "mine"
    (folder / "dangling.yaml").symlink_to("nowhere")
    assert run(["init", "train.py", "-o", "dangling.yaml"]) == 8
    assert not (folder / "nowhere").exists()
    assert run(["init", "train.py", "-o", "no/such.yaml"]) == 7
    assert run(["init", "train.py", "--host", "locl"]) == 7
    assert "did you mean local?" in capsys.readouterr().err


def test_a_script_is_never_run(folder: Path) -> None:
    (folder / "train.py").write_text("open('ran', 'w')\nif __name__ == '__main__':\n    open('ran', 'w')\n")
    drafted()
    assert not (folder / "ran").exists()
    assert not (folder / "__pycache__").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"def f(:\n", "train.py:1: it is not valid Python"),
        (b"x = 1\n" * 400_000, "it is larger than 2 MiB"),
        (b"x = 1\ny = \0\n", "train.py:2: it is not text: it holds NUL bytes"),
        (bytes(range(1, 256)) * 20, "train.py:1: it is not valid Python"),
        (b"(" * 50_000, "it is not valid Python"),
        (b"x = " + b"-" * 500_000 + b"1", "nested too deeply"),
        (b"x = a" + b".b" * 500_000, "nested too deeply"),
        (b"x = " + b"1+" * 200_000 + b"1", "nested too deeply"),
        (b"# -*- coding: rot13 -*-\nx = 1\n", "it is not valid Python"),
    ],
    ids=["syntax", "huge", "NUL", "binary", "parentheses", "minus", "attributes", "sum", "coding"],
)
def test_a_hostile_script_gets_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], source: bytes, said: str
) -> None:
    (folder / "train.py").write_bytes(source)
    assert run(["init", "train.py"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert not (folder / "experiment.yaml").exists()


@pytest.mark.parametrize("what", ["missing.py", ".", "notes.txt", "pipe.py"])
def test_what_is_no_script_gets_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    (folder / "notes.txt").write_text("x")
    os.mkfifo(folder / "pipe.py")
    assert run(["init", what]) == 2
    assert capsys.readouterr().err.startswith("armada: ")


def test_words_of_a_script_stay_comments_and_texts(folder: Path) -> None:
    (folder / "train.py").write_text(
        'p.add_argument("--a", help="x\\u0085y\\u2028z\\nname: stolen\\x1b[2J", required=True)\n'
        'p.add_argument("--b", default=\'"\\\\#: -\\nname: stolen\')\n'
        'p.add_argument("--c", default="z" * 10**9)\np.add_argument("--d", default=10**10**10)\n'
        'p.add_argument("--\\U0001f600", default="\\ud800")\np.add_argument("--e", nargs=3, choices=[1, None, "a, b"])\n'
        'torch.save(1, "../../etc/x")\ntorch.save(1, "/abs/*")\ntorch.save(1, "a\\nb")\nopen("/etc/passwd")\n'
    )
    found = drafted("train.py")
    assert found.name == "train"
    assert found.arguments == ("--a=FILL-IN:a",)
    assert found.data is None
    assert found.checkpoint is None
