"""Whatever a killed attempt, a disk or a person left in a run's folder: the payload reads it, skips it or refuses it in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from armada_train import launch
from armada_train.bench import rows, turns
from armada_train.checkpoints import announce, complete, manifest, resume, shards, whole
from armada_train.data import prepared
from armada_train.failure import PayloadFailure, exit_code, read_failure, write_failure
from armada_train.model import files as model_files
from armada_train.model import warmstart
from armada_train.records import UnreadableRecord, read_object
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import History, Metrics, read_history
from armada_train.runfolder import RunFolder
from armada_train.specification.early_stop import Best, EarlyStop
from armada_train.specification.parser import read_specification
from armada_train.training.rank_ends import describe_end

from tests import hostile
from tests.chance import dice
from tests.payload.hostile_run import (
    FACTS,
    GOOD,
    INGREDIENTS,
    Records,
    settings_of,
    training_of,
    write_checkpoint,
    write_run,
)
from tests.payload.interpreter import Interpreter

RULE, LONGEST = EarlyStop("eval_loss", 2, 0.0), 20_000


class Refused(Exception):
    """A reader refused what it read, as its caller expects."""


class Reader(NamedTuple):
    """What reads records of a run's folder.

    Attributes:
        read: Returns what it makes of a run's folder, as train.py would use it.
        names: Which records it reads, below the run's folder.
        reasons: With which it refuses a record.
    """

    read: Callable[[Path], Any]
    names: tuple[str, ...]
    reasons: tuple[str, ...] = ()


def _resumed(folder: str, **changes: Any) -> Callable[[Path], Any]:
    """Return what finds the checkpoint of a folder to resume from, and does what follows before torch is needed."""

    def read(run: Path) -> Any:
        place = RunFolder(run / folder, attempt=2)
        training = training_of(run, **changes)
        found = resume.find_resume(training, place, settings_of(training))
        told: list[Any] = [found.checkpoint and found.checkpoint.name, found.findings, found.changed]
        if found.checkpoint is None:
            return told
        assert complete.find_defect(found.checkpoint) is None
        state = read_object(found.checkpoint / "trainer_state.json")
        assert state["global_step"] == complete.step_of(found.checkpoint)
        told += [RULE.verdict(state["log_history"]), Best().find(state["log_history"], 1 << 40)]
        told += [
            state["global_step"] >= state["max_steps"],
            state["train_batch_size"] // 1,
            int(state.get("epoch") or 0),
        ]
        return [*told, manifest.name_of_optimizer(manifest.read_manifest(found.checkpoint))]

    return read


def _metrics(run: Path) -> Any:
    found = read_history(run / "metrics.jsonl", 10)
    metrics = Metrics(run / "metrics.jsonl", attempt=2)
    metrics.begin(found)
    metrics.append("train", 4, {"loss": 1.5, "num_tokens": 400.0})
    if (run / "metrics.jsonl").stat().st_size < hostile.HUGE_BYTES:
        content = (run / "metrics.jsonl").read_bytes()
        assert json.loads(content.splitlines()[-1])["loss"] == 1.5
    return [asdict(found), found.finding]


def _heartbeat(run: Path) -> Any:
    told = describe_end(run, 0, -9)
    Heartbeat(RunFolder(run), lambda: 5.0).beat("loading")
    assert describe_end(run, 0, -9) == ("signal_SIGKILL", "rank 0 was ended by SIGKILL while loading, after step 0")
    return told


def _failure(run: Path) -> Any:
    told = read_failure(run / "attempts" / "2")
    write_failure(run / "attempts" / "2", "oom", "no memory is left", rank=1, lines=["x"])
    return [told, exit_code(told or "")]


def _prepared(run: Path) -> Any:
    cache = prepared.Cache(run / "prepared", lambda: None, lambda _: None)
    told: list[Any] = []
    for what, ingredients in INGREDIENTS.items():
        found = cache.find(ingredients)
        told.append(found and [found.facts[name] + 0 for name in FACTS[what] if name not in ("kind", "ignored_keys")])
        told.append(found and [sum(found.facts.get("ignored_keys", {}).values()), len(found.facts.get("kind", ""))])
    return told


def _bench(run: Path) -> Any:
    done = turns.read_turns(RunFolder(run), 1)
    told = [done.asked, turns.figures_of(done.done) if done.done else None, [turn.speed for turn in done.done]]
    found = rows.Rows(RunFolder(run)).read()
    return [
        told,
        {number: [asdict(row), row.needs_own_process] for number, row in found.items()},
        rows.read_result(run),
    ]


def _start(run: Path) -> Any:
    start = {"path": str(run / "start"), "optimizer": "moments"}
    lora = {"target_modules": ["q_proj"], "modules_to_save": [], "rslora": False}
    training = training_of(run, model={"path": str(run / "model")}, lora=lora, start_from=start)
    return warmstart.check_start(training)


def _whole_start(run: Path) -> Any:
    training = training_of(
        run, model={"path": str(run / "model")}, lora=None, start_from={"path": str(run / "whole"), "optimizer": False}
    )
    return warmstart.check_start(training)


def _model(run: Path) -> Any:
    return model_files.check_model(training_of(run, model={"path": str(run / "model")}, lora=None), "messages")


def _spec(run: Path) -> Any:
    spec = run / "spec.json"
    assert launch._stop_grace_s(spec) >= 0  # noqa: SLF001
    assert launch._asks_for_deepspeed(spec) in (True, False)  # noqa: SLF001
    return read_specification(spec).schedule.max_steps


def _announced(run: Path) -> Any:
    """Announce a checkpoint, write it again, and announce that."""
    place, checkpoint = RunFolder(run), run / "again" / "checkpoint-4"
    if checkpoint.is_dir():
        announce.announce(place, checkpoint, {"step": 4, "kind": "periodic"}, None)
    announce.forget(checkpoint)
    checkpoint.mkdir()
    (checkpoint / "model.bin").write_bytes(b"weights")
    hostile.remove(run / "outbox" / ".new-4")
    assert announce.announce(place, checkpoint, {"step": 4, "kind": "periodic"}, None)
    assert whole.is_marked(checkpoint)
    assert (run / "outbox" / ".new-4" / "model.bin").read_bytes() == b"weights"
    return whole.newest_marked(checkpoint.parent)


def _of(folder: str, step: int, *more: str) -> tuple[str, ...]:
    names = ("trainer_state.json", "armada.json", "scheduler.pt", "rng_state.pth", *more)
    mark = f"{folder}/checkpoints/.announced-checkpoint-{step}"
    return (mark, *(f"{folder}/checkpoints/checkpoint-{step}/{name}" for name in names))


def _in(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names)


WEIGHTS, INDEX, SHARD = "adapter_model.safetensors", "model.safetensors.index.json", f"{shards.MODEL}/__0_0.distcp"
MODEL = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "special_tokens_map.json")
FACT_FILES = [f"{prepared.name(each)}/facts.json" for each in INGREDIENTS.values()]
PLACES = ("outbox/.new-4", "outbox/.part-4", "again/checkpoint-4", "again/.announced-checkpoint-4")
REFUSED = ("resume_mismatch",)
READERS = {
    "resume": Reader(_resumed("plain"), _of("plain", 12, WEIGHTS, "optimizer.pt", "."), REFUSED),
    "resume an index": Reader(_resumed("index"), _of("index", 12, INDEX, "a.safetensors"), REFUSED),
    "resume shards": Reader(_resumed("shards"), _of("shards", 12, "shards.json", SHARD, shards.MODEL), REFUSED),
    "resume DeepSpeed": Reader(
        _resumed("deepspeed", deepspeed="/ds.json", device="cuda"),
        _of("deepspeed", 12, "latest", "step12/1_optim_states.pt", "step12"),
        REFUSED,
    ),
    "metrics": Reader(_metrics, ("metrics.jsonl",)),
    "heartbeat": Reader(_heartbeat, ("heartbeat-0.json",)),
    "failure": Reader(_failure, _in("attempts/2", "failure.json", "failure-1.json")),
    "prepared": Reader(_prepared, _in("prepared", *FACT_FILES)),
    "bench": Reader(_bench, ("bench-turns/1.json", "metrics.jsonl", "result.json")),
    "start": Reader(_start, _in("start", "adapter_config.json", WEIGHTS, "optimizer.pt", "armada.json"), ("bad_spec",)),
    "whole start": Reader(
        _whole_start,
        (*_in("whole", "config.json", "model.safetensors", "armada.json"), "model/model.safetensors"),
        ("bad_spec",),
    ),
    "model": Reader(
        _model, _in("model", *MODEL, "chat_template.json", "chat_template.jinja"), ("bad_spec", "data_error")
    ),
    "spec": Reader(_spec, ("spec.json",), ("bad_spec",)),
    "announce": Reader(_announced, PLACES),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path)


def is_sentence(text: str) -> bool:
    return text.isprintable() and len(text) < LONGEST


def read(reader: Reader, run: Path) -> Any:
    """Read, and check that what is said can be printed, and that a refusal is one that home knows.

    Raises:
        Refused: The reader refused it.
    """
    try:
        told = reader.read(run)
    except PayloadFailure as failure:
        if failure.reason not in reader.reasons or not is_sentence(failure.message):
            raise
        raise Refused(failure.message) from failure
    text = json.dumps(told, default=str, ensure_ascii=False)
    assert len(text) < 4 << 20
    return told


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_whatever_lies_there(run: Path, name: str) -> None:
    reader, chance = READERS[name], dice(701 + list(READERS).index(name))
    records = Records(run, reader.names)
    right = read(reader, run)
    outside = {path: path.read_bytes() for path in run.with_name("outside").iterdir()}
    for number in range(hostile.CASES):
        if number % 3 == 0:
            records.again()
        said = records.throw(chance)
        try:
            told = read(reader, run)
        except Refused:
            continue
        except Exception:
            print(said)
            raise
        assert not name.startswith("resume") or all(map(is_sentence, told[1])), said
    records.again()
    assert read(reader, run) == right, "once the records are right again, nothing is refused"
    assert {path: path.read_bytes() for path in run.with_name("outside").iterdir()} == outside


@pytest.mark.parametrize("name", [name for name in READERS if name.startswith("resume")])
def test_a_damaged_checkpoint_costs_at_most_itself(run: Path, name: str) -> None:
    """What is damaged in the newest one is resumed as it was, refused, or the one before is resumed."""
    reader, chance = READERS[name], dice(721 + list(READERS).index(name))
    records, found = Records(run, tuple(each for each in reader.names if not each.endswith("/."))), []
    for _ in range(hostile.CASES // 10):
        records.again()
        said = records.throw(chance)
        try:
            told = read(reader, run)
        except Refused as refused:
            words = str(refused)
            found.append("refused")
            if not any(each in words for each in ("checkpoint-12: ", "checkpoint-12 was saved by")):
                raise
            continue
        found.append(told[0])
        assert told[0] in ("checkpoint-12", "checkpoint-8"), said
        assert told[0] == "checkpoint-12" or any("checkpoint-12 is skipped: " in each for each in told[1]), said
    assert {"checkpoint-8", "checkpoint-12"} <= set(found)


def test_lines_of_metrics_are_read_beside_whatever_else_is_there(tmp_path: Path) -> None:
    chance, path = dice(741), tmp_path / "metrics.jsonl"
    for _ in range(0, hostile.CASES, 20):
        thrown = [hostile.line(chance).replace("\n", " ").encode("utf-8", "surrogatepass") for _ in range(10)]
        thrown += [hostile.content(chance, json.dumps(GOOD).encode())[:100_000].replace(b"\n", b" ") for _ in range(10)]
        chance.shuffle(thrown)
        first, last = ({**GOOD, "step": step, "loss": loss, "num_tokens": 7.0} for step, loss in ((1, 9.0), (5, 1.0)))
        path.write_bytes(b"\n".join([json.dumps(first).encode(), *thrown, json.dumps(last).encode(), b'{"kind": "tr']))
        found = read_history(path, 5)
        assert (found.loss_first, found.loss_last, found.train_tokens) == (9.0, 1.0, 7.0)
        assert found.unreadable >= 1
        assert found.finding is not None
        assert found.finding.isprintable()
        assert len(found.finding) < 1000
        metrics = Metrics(path, attempt=2)
        metrics.begin(found)
        metrics.append("train", 6, {"loss": 0.5, "num_tokens": 8.0})
        assert read_history(path, 6).loss_last == 0.5


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"kind": "train", "step": 2, "num_tokens": 5}', "`loss` is None, which is no number"),
        ('{"kind": "train", "step": 2, "loss": "low", "num_tokens": 5}', "`loss` is low, which is no number"),
        ('{"kind": "train", "step": 2, "loss": 1.0}', "`num_tokens` is None, which is no number of tokens"),
        ('{"kind": "train", "step": "2", "loss": 1.0}', "`step` is 2, which is no number of a step"),
        ('{"kind": "eval", "step": 0}', "`eval_loss` is None, which is no number"),
        ("[" * 100_000, "it is not JSON: maximum recursion depth"),
        ('{"loss": "\\ud800"}', "it is not JSON: 'utf-8' codec can't encode"),
        ("\0" * 4096, "it is not JSON: Expecting value"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_and_the_first_is_named(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line}\n{line}\n{json.dumps(GOOD)}\n")
    found = read_history(path, 10)
    assert (found.loss_first, found.loss_last, found.unreadable) == (2.5, 2.5, 2)
    assert found.finding is not None
    assert (
        f"2 lines of earlier attempts cannot be read and are left out of the summary: metrics.jsonl:2: {why}"
        in found.finding
    )


def test_a_history_without_damage_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(GOOD)}\n\n")
    assert read_history(tmp_path / "metrics.jsonl", 10) == History(2.5, 2.5, None, 300.0)  # type: ignore[arg-type]  # TRL averages it
    assert read_history(tmp_path / "none.jsonl", 10) == History()


STATES: dict[str, tuple[dict[str, Any], str]] = {
    "steps": ({"max_steps": None}, "`max_steps` is None, not a whole number"),
    "batch": ({"train_batch_size": "4"}, "`train_batch_size` is 4, not a whole number"),
    "history": ({"log_history": {}}, "`log_history` is {}, not a list"),
    "epoch": ({"epoch": float("inf")}, "`epoch` is inf, not a number"),
    "best": ({"best_metric": 10**400}, "`best_metric` is 1000"),
    "callbacks": ({"stateful_callbacks": [1]}, "`stateful_callbacks` is [1], not an object"),
    "entry": ({"log_history": [{"loss": 1.0}]}, "an entry of `log_history` has no step"),
    "evaluation": (
        {"log_history": [{"step": 2, "eval_loss": "low"}]},
        "`eval_loss` of step 2 in `log_history` is low, not a number",
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_a_state_that_would_end_the_training_later_is_refused_by_name(tmp_path: Path, case: str) -> None:
    changes, why = STATES[case]
    checkpoint = write_checkpoint(tmp_path, 12)
    state = read_object(checkpoint / "trainer_state.json")
    (checkpoint / "trainer_state.json").write_text(json.dumps({**state, **changes}))
    defect = complete.find_defect(checkpoint)
    assert defect is not None
    assert f"trainer_state.json is damaged: {why}" in defect


def test_settings_that_a_disk_changed_are_named_in_the_refusal(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path, 12)
    training = training_of(tmp_path)
    right = settings_of(training)
    for key, value in {"batch.processes": "two", "data.train": [{"sha256": 5}], "lora.r": [[]]}.items():
        manifest.write_manifest(checkpoint, {**right, key: value})
        with pytest.raises(PayloadFailure, match=f"checkpoint-12: `{key}` was .* and is ") as caught:
            resume.find_resume(training, RunFolder(tmp_path), right)
        assert caught.value.reason == "resume_mismatch"


def test_a_folder_in_the_place_of_a_report_is_set_aside_and_keeps_its_content(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "heartbeat-0.json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes").write_text("mine")
    Metrics(tmp_path / "metrics.jsonl", attempt=2).begin(History())
    Heartbeat(RunFolder(tmp_path), lambda: 5.0).beat("loading")
    assert read_object(tmp_path / "heartbeat-0.json")["phase"] == "loading"
    assert len(list(tmp_path.glob("*.set-aside-*/notes"))) == 2


def test_a_checkpoint_that_is_a_link_is_written_anew_without_touching_what_it_leads_to(tmp_path: Path) -> None:
    elsewhere = write_checkpoint(tmp_path / "scratch", 4)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "checkpoint-4").symlink_to(elsewhere)
    announce.forget(tmp_path / "checkpoints" / "checkpoint-4")
    assert not (tmp_path / "checkpoints" / "checkpoint-4").is_symlink()
    assert (elsewhere / "optimizer.pt").exists()


@pytest.mark.parametrize(
    "content", [b"[]", b"", b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"a": "\\ud800"}', b"\xff"]
)
def test_a_record_that_is_none_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(UnreadableRecord, match=r"record\.json: it is "):
        read_object(tmp_path / "record.json")


READ_SHARDS = """
import sys, warnings
from pathlib import Path
import torch
import torch.distributed.checkpoint as shards
from armada_train.checkpoints.shard_reader import read_stored
from armada_train.failure import PayloadFailure
sys.path.insert(0, sys.argv[2])
from tests import hostile
from tests.chance import dice
warnings.simplefilter("ignore")
checkpoint, chance, refused = Path(sys.argv[1]), dice(742), 0
folder = checkpoint / "pytorch_model_fsdp_0"
shards.save({"model": {"a": torch.ones(3, 4), "b": torch.zeros(5)}}, checkpoint_id=folder, no_dist=True)
right = {path: path.read_bytes() for path in folder.iterdir()}
for number in range(int(sys.argv[3])):
    place = chance.choice(sorted(right))
    said = hostile.replace(chance, place, [folder, folder / "none"])
    try:
        for stored in read_stored(checkpoint):
            for piece in stored.pieces:
                piece.load()
    except PayloadFailure as failure:
        refused += failure.reason == "merge_mismatch" and failure.message.isprintable()
    except BaseException:
        print(place.name, said, flush=True)
        raise
    hostile.remove(place)
    place.write_bytes(right[place])
print([(stored.name, [piece.load().sum().item() for piece in stored.pieces]) for stored in read_stored(checkpoint)])
print(refused)
"""


@pytest.mark.payload
def test_shards_are_joined_or_refused_whatever_their_bytes(payload_python: Interpreter, tmp_path: Path) -> None:
    words = str(tmp_path), str(Path(__file__).parents[2]), str(hostile.CASES)
    ended = payload_python.finish("-c", READ_SHARDS, *words)
    *_, tensors, refused = ended.output.splitlines()
    assert ended.code == 0, ended.output
    assert tensors == "[('a', [12.0]), ('b', [0.0])]"
    assert int(refused) > hostile.CASES / 2
