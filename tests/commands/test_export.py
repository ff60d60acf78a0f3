"""`armada export`: a checkpoint at home becomes a folder that others can load; whole, verified, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Armada
from tests.published_run import (
    BASE,
    ON_HOST,
    TRAINING_ONLY,
    adapter,
    opened,
    publish,
    record,
    record_losses,
    sft_plan,
)
from tests.together import codes, said, together

RUN = "my-adapter-1"
ARGUMENTS = {
    "--lr": "--lr",
    "1e-4": "1e-4",
    "--hub_token": "--hub_token",
    "short": "***",
    "--epochs": "--epochs",
    "--api-key=k": "--api-key=***",
    "hf_abcdefghijklmnopqrstuv": "***",
    "https://me:pw@example.org/x": "https://***@example.org/x",
    "WANDB_API_KEY=0": "WANDB_API_KEY=***",
    "python x.py --password p": "***",
}
"""Arguments of a script, and what a card shows of them."""


@pytest.fixture
def exporting(armada: Armada) -> Armada:
    """A home with two checkpoints of a LoRA training; the first one is the best."""
    rows = armada.folder / "train.jsonl"
    rows.write_text('{"text": "a"}\n\n{"text": "b"}\n')
    settings = {
        "format": 1,
        "settings": {
            "data.train": [
                {"sha256": hashlib.sha256(rows.read_bytes()).hexdigest()},
                {"hub": "owner/rows", "sha256": "0" * 64},
            ]
        },
    }
    files = adapter(ON_HOST, **{"armada.json": json.dumps(settings).encode()})
    with opened(armada.folder / "home") as (home, database):
        record(database, RUN, sft_plan(RUN, rows))
        for step in (10, 20):
            publish(database, home, RUN, step, {**files, "adapter_model.safetensors": b"%d" % step * 1000})
        losses: list[dict[str, object]] = [
            {"kind": "eval", "step": 10, "eval_loss": 0.25},
            {"kind": "train", "step": 20, "loss": 0.5},
            {"kind": "eval", "step": 20, "eval_loss": 0.75},
        ]
        record_losses(database, RUN, losses)
    return armada


def beside(armada: Armada) -> list[str]:
    """The names in the folder where exports go, without what the test itself put there."""
    return sorted(path.name for path in armada.folder.iterdir() if path.name not in ("home", "train.jsonl"))


def checkpoint_file(armada: Armada, name: str, step: int = 20) -> Path:
    return armada.folder / "home" / "state" / "runs" / RUN / "checkpoints" / f"checkpoint-{step}" / name


def test_an_export_has_what_inference_needs_and_a_model_card(exporting: Armada) -> None:
    told = exporting.json("export", RUN, "--to", "out/model")
    folder = exporting.folder / "out" / "model"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    assert (folder / "adapter_model.safetensors").read_bytes() == b"20" * 1000
    assert (told["to"], told["step"], told["kind"], told["base_model"]) == (str(folder), 20, "adapter", BASE)
    assert set(TRAINING_ONLY) <= set(told["left_out"])
    assert stat.S_IMODE((folder / "adapter_model.safetensors").stat().st_mode) & 0o600 == 0o600  # not home's read-only
    assert beside(exporting) == ["out"]


def test_the_card_says_base_data_losses_settings_and_how_to_load_it(exporting: Armada) -> None:
    exporting.json("export", RUN, "--to", "model")
    card = (exporting.folder / "model" / "README.md").read_text()
    rows = hashlib.sha256((exporting.folder / "train.jsonl").read_bytes()).hexdigest()
    assert card.startswith(f'---\nbase_model: "{BASE}"\nbase_model_relation: adapter\n')
    for expected in (
        'datasets:\n- "owner/rows"\nlibrary_name',
        "library_name: peft",
        f"| train | `train.jsonl` | `{rows}` | `2` |",
        "| last training loss, at step 20 | `0.5000` |",
        "| last evaluation loss, at step 20 | `0.7500` |",
        "| best evaluation loss of the run, at step 10 | `0.2500` |",
        "| train.learning_rate | `0.0002` |",
        "| lora.r | `8` |",
        "| batch.global | `16` |",
        f'base = AutoModelForCausalLM.from_pretrained("{BASE}", dtype="bfloat16")',
        'model = PeftModel.from_pretrained(base, "./model")',
        "tokenizer.apply_chat_template(",
    ):
        assert expected in card, expected
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert code is not None
    compile(code[1], "card", "exec")
    assert str(exporting.folder) not in card
    assert ON_HOST not in card


def test_an_exported_adapter_names_its_base_as_the_user_did_and_the_checkpoint_stays_as_it_came(
    exporting: Armada,
) -> None:
    told = exporting.json("export", RUN, "--to", "model")
    assert told["changed"] == ["adapter_config.json"]
    exported = json.loads((exporting.folder / "model" / "adapter_config.json").read_text())
    assert (exported["base_model_name_or_path"], exported["r"]) == (BASE, 8)
    kept = json.loads(checkpoint_file(exporting, "adapter_config.json").read_text())
    assert kept["base_model_name_or_path"] == ON_HOST


def test_the_best_checkpoint_a_step_and_everything_can_be_asked_for(exporting: Armada) -> None:
    assert exporting.json("export", RUN, "--checkpoint", "best", "--to", "best")["step"] == 10
    assert exporting.json("export", RUN, "--checkpoint", "10", "--to", "ten")["step"] == 10
    told = exporting.json("export", RUN, "--all", "--to", "all")
    assert told["left_out"] == ["README.md"]
    assert {name: (exporting.folder / "all" / name).read_bytes() for name in TRAINING_ONLY} == TRAINING_ONLY
    said = exporting.run("export", RUN, "--to", "again")
    assert "every byte verified" in said.stdout
    assert "--all exports what a training needs" in said.stdout


@pytest.mark.fault("a byte of a checkpoint at home changes, and it is exported", "refused; nothing is written")
def test_a_checkpoint_damaged_at_home_is_not_exported_and_the_damage_is_recorded(exporting: Armada) -> None:
    path = checkpoint_file(exporting, "adapter_model.safetensors")
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    answer = exporting.run("export", RUN, "--to", "out/model", "--json")
    assert answer.returncode == 1
    error = json.loads(answer.stdout)["error"]
    assert "adapter_model.safetensors is not as it came; nothing was written" in error["message"]
    assert error["hint"] == f"armada sync verify {RUN} --read-data"
    assert beside(exporting) == []  # `out`, which it made, is gone too
    assert "damaged at home" in exporting.run("show", RUN).stdout
    assert exporting.run("export", RUN, "--checkpoint", "10", "--to", "out").returncode == 0


@pytest.mark.parametrize("name", ["adapter_config.json", "tokenizer.json", "MANIFEST.json"])
def test_any_file_that_is_gone_from_home_stops_the_export(exporting: Armada, name: str) -> None:
    checkpoint_file(exporting, name).unlink()
    answer = exporting.run("export", RUN, "--to", "model")
    assert answer.returncode == 1
    assert f"{name} is not as it came" in answer.stderr
    assert beside(exporting) == []


def test_a_checkpoint_deleted_at_home_is_not_called_home(exporting: Armada) -> None:
    """No host is known here that could have it."""
    shutil.rmtree(checkpoint_file(exporting, ".").resolve())
    shown = exporting.run("show", RUN, "--json")
    paths = {each["step"]: each["home_path"] for each in json.loads(shown.stdout)["checkpoints"]}
    assert (paths[20], Path(str(paths[10])).name) == (None, "checkpoint-10")
    shown = exporting.run("show", RUN)
    assert re.search(r"checkpoint-20 .* deleted here, and gone from ", shown.stdout)
    assert re.search(r"checkpoint-10 .* home, verified: ", shown.stdout)
    listed = exporting.run("ps", "--all", "--cached")
    assert " 1 of 2 " in listed.stdout
    assert exporting.json("ps", "--cached")[0]["checkpoints_home"] == 2  # as recorded: a list for scripts asks no disk
    answer = exporting.run("export", RUN, "--checkpoint", "20", "--to", "model")
    assert answer.returncode == 7
    assert "is gone from home, and " in answer.stderr
    assert "armada pull" not in answer.stderr


def test_a_checkpoint_on_a_disk_that_is_not_mounted_is_not_called_gone(exporting: Armada) -> None:
    place = checkpoint_file(exporting, ".").resolve()
    place.rename(exporting.folder / "home" / "disk")
    place.symlink_to(exporting.folder / "not-mounted")
    answer = exporting.run("export", RUN, "--checkpoint", "20", "--to", "model")
    assert answer.returncode == 1
    assert f"cannot be read at home: {place} is a link to a disk that may not be mounted" in answer.stderr
    assert "mount that disk" in answer.stderr
    assert "gone" not in answer.stderr.replace("if the checkpoint is gone", "")
    assert beside(exporting) == []


def test_a_link_in_place_of_a_file_is_not_followed(exporting: Armada) -> None:
    path = checkpoint_file(exporting, "tokenizer.json")
    elsewhere = exporting.folder / "home" / "same-bytes"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert exporting.run("export", RUN, "--to", "model").returncode == 1
    assert beside(exporting) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["no-such-run", "--to", "model"], 7, "no run"),
        ([RUN, "--checkpoint", "99", "--to", "model"], 7, "has no checkpoint 99"),
        ([RUN, "--checkpoint", "newest", "--to", "model"], 2, "'newest' is not a step"),
        ([RUN, "--to", ""], 2, "is not the name of a new folder"),
        ([RUN, "--to", "/"], 2, "is not the name of a new folder"),
        ([RUN, "--to", "home/state/models/x"], 2, "is armada's own folder"),
        ([RUN, "--to", "full"], 8, "exists already and is not empty"),
        ([RUN, "--to", "train.jsonl"], 8, "train.jsonl is no folder"),
        ([RUN, "--to", "s3://bucket/model"], 2, "is not the name of a folder here"),
        ([RUN, "--to", "HF://owner/model"], 2, "is not the name of a folder here"),
        ([RUN, "--to", "train.jsonl/x"], 1, "cannot write the export of checkpoint"),
        ([RUN, "--to", "/proc/armada-export"], 1, "cannot write the export of checkpoint"),
        ([RUN], 2, "--to"),
    ],
)
def test_a_bad_request_is_refused_in_a_sentence_and_writes_nothing(
    exporting: Armada, arguments: list[str], code: int, sentence: str
) -> None:
    (exporting.folder / "full").mkdir()
    (exporting.folder / "full" / "mine").write_text("mine")
    answer = exporting.run("export", *arguments)
    assert (answer.returncode, sentence in answer.stderr) == (code, True), answer.stderr
    assert "Traceback" not in answer.stderr
    assert beside(exporting) == ["full"]
    assert not (exporting.folder / "home" / "state" / "models").exists()


def test_a_link_into_armadas_home_is_no_way_around(exporting: Armada) -> None:
    (exporting.folder / "way").symlink_to(exporting.folder / "home" / "state")
    answer = exporting.run("export", RUN, "--to", "way/model")
    assert answer.returncode == 2
    assert "armada's own folder" in answer.stderr


def test_an_empty_folder_becomes_the_export(exporting: Armada) -> None:
    (exporting.folder / "empty").mkdir()
    exporting.json("export", RUN, "--to", "empty")
    assert (exporting.folder / "empty" / "README.md").exists()


def test_a_run_without_a_checkpoint_at_home_says_how_to_fetch_one(exporting: Armada) -> None:
    with opened(exporting.folder / "home") as (_, database):
        record(database, "other-1", sft_plan("other-1"))
    answer = exporting.run("export", "other-1", "--to", "model")
    assert answer.returncode == 7
    assert "armada pull other-1" in answer.stderr


def test_what_a_sync_left_out_is_missed_by_all_alone(exporting: Armada) -> None:
    with opened(exporting.folder / "home") as (home, database):
        publish(database, home, RUN, 30, adapter(), absent=("optimizer.pt",))
    answer = exporting.run("export", RUN, "--all", "--to", "model")
    assert answer.returncode == 7
    assert f"armada pull {RUN} --checkpoint 30" in answer.stderr
    assert beside(exporting) == []
    assert exporting.json("export", RUN, "--to", "model")["step"] == 30


def test_a_script_with_files_of_its_own_is_exported_as_it_is(exporting: Armada) -> None:
    plan = {
        "format": 1, "name": "own", "task": "script",
        "experiment": {"script": "train.py", "arguments": [*ARGUMENTS]},
    }  # fmt: skip
    files = {
        "weights/part-0.npz": b"n" * 100,
        "notes (final).txt": b"x",
        "optimizer.pt": b"o",
        "state/optimizer.bin": b"o",
    }
    with opened(exporting.folder / "home") as (home, database):
        record(database, "own-1", plan)
        publish(database, home, "own-1", 5, files)
        publish(database, home, "own-1", 6, {"optimizer.pt": b"o"})
    told = exporting.json("export", "own-1", "--checkpoint", "5", "--to", "model")
    assert (told["kind"], told["base_model"]) == ("files", None)
    assert told["left_out"] == ["optimizer.pt", "state/optimizer.bin"]
    assert (exporting.folder / "model" / "weights" / "part-0.npz").read_bytes() == b"n" * 100
    card = (exporting.folder / "model" / "README.md").read_text()
    assert "How to load it" not in card
    assert f"| arguments | `{' '.join(ARGUMENTS.values())}` |" in card
    answer = exporting.run("export", "own-1", "--to", "none")
    assert answer.returncode == 7
    assert "--all exports them" in answer.stderr


@pytest.mark.fault("the same export twice at once", "one folder, whole; the other is refused")
def test_the_same_export_twice_at_once_makes_one_folder(exporting: Armada) -> None:
    both = together(exporting, *2 * [["export", RUN, "--to", "model"]])
    assert codes(both) == [0, 8], [said(each) for each in both]
    assert (exporting.folder / "model" / "adapter_model.safetensors").read_bytes() == b"20" * 1000
    assert beside(exporting) == ["model"]


def test_an_empty_folder_that_is_there_is_filled_and_stays_what_it_is(exporting: Armada) -> None:
    there = exporting.folder / "there"
    there.mkdir(mode=0o750)
    before = there.stat()
    assert exporting.run("export", RUN, "--to", "there").returncode == 0
    after = there.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert (there / "adapter_model.safetensors").is_file()
    assert [each.name for each in there.iterdir() if each.name.startswith(".")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.fault("the disk of an export is full", "refused before it begins; nothing is left of it")
def test_a_full_disk_leaves_nothing(exporting: Armada) -> None:
    small = exporting.folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine mounts nothing")
    try:
        answer = exporting.run("export", RUN, "--to", str(small / "model"))
        assert answer.returncode == 1
        assert "free some space there, or name a folder on another disk" in answer.stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)
