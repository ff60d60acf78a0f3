"""What the payload reads and writes with the standard library alone; no torch is needed here."""

from __future__ import annotations

import errno
import json
import logging
import os
import struct
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from armada_train.checkpoints import announce, complete, whole
from armada_train.checkpoints.choice import Choice, choose
from armada_train.checkpoints.full_disk import give_up, is_disk_full
from armada_train.checkpoints.manifest import write_manifest
from armada_train.data.hashes import hash_data
from armada_train.data.rows import Files
from armada_train.failure import PayloadFailure, describe, write_failure
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import History, Metrics, read_history
from armada_train.runfolder import RunFolder
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Source
from armada_train.training.libraries import configure_libraries
from armada_train.training.rank_ends import Signalled, describe_end, first_end
from armada_train.training.throughput import Throughput

from tests.payload.payload_run import chat, make_training, write_jsonl
from tests.waiting import eventually


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# --- rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("\xff", "is not UTF-8"),
        ("[1]", "must be a JSON object"),
        ("{}", "the row has nothing; it needs messages"),
        ('{"text": 3}', "`text` must be text, not 3"),
        ('{"text": "\\ud800"}', "has half a character"),
        ('{"messages": []}', "must be a filled list of turns"),
        ('{"messages": [{"role": "boss", "content": "x"}]}', '`messages[0].role` is "boss"'),
        ('{"messages": [{"role": "user", "content": "x"}]}', "has no assistant turn"),
        ('{"messages": [{"role": "assistant", "content": [1]}]}', "`messages[0].content` is a list of parts"),
        ('{"messages": [{"role": "assistant", "content": "x", "tool_calls": [1]}]}', "must hold a function"),
        ('{"text": "plain"}', "has text, but earlier ones have messages"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(json.dumps(chat("q", "a")).encode() + b"\n" + line.encode("latin-1") + b"\n")
    with pytest.raises(PayloadFailure) as caught:
        Files([Source(path)]).check()
    assert caught.value.reason == "data_error"
    assert caught.value.message.startswith(f"{path}:2: ")
    assert message in caught.value.message


def test_a_missing_file_and_an_empty_one_are_data_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    for name in ("empty.jsonl", "missing.jsonl"):
        with pytest.raises(PayloadFailure, match=name) as caught:
            Files([Source(tmp_path / name)]).check()
        assert caught.value.reason == "data_error"


def test_data_that_is_gone_when_it_is_hashed_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(PayloadFailure) as caught:
        hash_data(tmp_path / "gone.jsonl")
    assert caught.value.reason == "data_error"
    assert caught.value.message == f"{tmp_path}/gone.jsonl: this file does not exist"


def test_sharegpt_rows_become_messages(tmp_path: Path) -> None:
    turns = [{"from": "system", "value": "Be kind."}, {"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]
    rows = Files([Source(write_jsonl(tmp_path / "rows.jsonl", [{"conversations": turns}]))])
    assert [turn["role"] for turn in rows.first(1)[0]["messages"]] == ["system", "user", "assistant"]
    assert list(rows.texts()) == ["Be kind.", "Hi", "Yo"]


# --- checkpoints ---------------------------------------------------------------------------------------------------


def make_checkpoint(folder: Path, step: int) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    header = json.dumps({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    (checkpoint / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"1234")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        with zipfile.ZipFile(checkpoint / name, "w") as archive:
            archive.writestr("data", "x" * 100)
    state = {"global_step": step, "max_steps": 100, "train_batch_size": 1, "log_history": []}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    return checkpoint


def test_a_state_of_which_nothing_was_recorded_is_read_whole(tmp_path: Path) -> None:
    """torch loads a byte that changed without a word."""
    checkpoint = make_checkpoint(tmp_path, 5)
    assert complete.missing_states(checkpoint, 1) == []
    state = checkpoint / "optimizer.pt"
    content = state.read_bytes()
    state.write_bytes(content.replace(b"xxx", b"xyx", 1))
    assert complete.missing_states(checkpoint, 1) == ["optimizer.pt"]
    whole.mark(checkpoint)  # its bytes are those that are recorded
    assert complete.missing_states(checkpoint, 1) == []
    state.write_bytes(content)
    assert complete.missing_states(checkpoint, 1) == ["optimizer.pt"]


def test_deepspeeds_own_states_are_known_by_the_folder_that_latest_names(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-5"
    folder = checkpoint / "global_step5"
    folder.mkdir(parents=True)
    (checkpoint / "latest").write_text("global_step5")

    def put(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x", "x")

    for rank in range(2):
        put(checkpoint / f"rng_state_{rank}.pth")
    assert complete.missing_states(checkpoint, 2) == ["global_step5/mp_rank_00_model_states.pt"]
    put(folder / "mp_rank_00_model_states.pt")
    assert complete.missing_states(checkpoint, 2) == []  # without ZeRO the optimizer lies beside the weights
    put(folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt")
    assert complete.missing_states(checkpoint, 2) == ["global_step5/*optim_states.pt of a rank"]
    (folder / "zero_pp_rank_1_mp_rank_00_optim_states.pt").write_bytes(b"half")
    assert complete.missing_states(checkpoint, 2) == ["global_step5/zero_pp_rank_1_mp_rank_00_optim_states.pt"]
    put(folder / "zero_pp_rank_1_mp_rank_00_optim_states.pt")
    assert complete.missing_states(checkpoint, 2) == []
    (checkpoint / "latest").write_text("../elsewhere")
    assert complete.missing_states(checkpoint, 2) != []


def test_an_adapter_names_its_base_as_home_does(tmp_path: Path) -> None:
    complete.name_base_model(tmp_path, "/home/me/model")  # a whole model has no adapter's configuration
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps({"base_model_name_or_path": "/root/.armada/models/9f", "r": 8}))
    complete.name_base_model(tmp_path, "/home/me/model")
    assert json.loads(path.read_text()) == {"base_model_name_or_path": "/home/me/model", "r": 8}
    assert list(tmp_path.iterdir()) == [path]


def test_the_card_that_peft_writes_names_the_base_as_home_does(tmp_path: Path) -> None:
    there, card = "/root/.armada/models/hub/Qwen--Qwen2.5-0.5B/9f", tmp_path / "README.md"
    card.write_text(
        f"---\nbase_model: {there}\ntags:\n- base_model:adapter:{there}\n- lora\n---\n# Model Card für Model ID\n"
    )
    complete.name_base_model(tmp_path, "Qwen/Qwen2.5-0.5B")  # not an adapter's: the card is somebody else's
    assert there in card.read_text()
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": there}))
    for _ in range(2):  # the second time there is nothing to replace
        complete.name_base_model(tmp_path, "Qwen/Qwen2.5-0.5B")
        assert card.read_text() == (
            "---\nbase_model: Qwen/Qwen2.5-0.5B\ntags:\n- base_model:adapter:Qwen/Qwen2.5-0.5B\n- lora\n---\n# Model Card für Model ID\n"
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "adapter_config.json"]


def test_the_last_complete_checkpoint_is_found_by_number(tmp_path: Path) -> None:
    for step in (9, 10, 100):
        make_checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-x").mkdir()
    assert choose(complete.find_all(tmp_path, 1)) == Choice(tmp_path / "checkpoint-100", (), [])
    assert choose(complete.find_all(tmp_path / "nowhere", 1)) == Choice(None, (), [])


@pytest.mark.parametrize(
    "name", ["trainer_state.json", "adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"]
)
def test_a_checkpoint_with_a_file_missing_or_cut_is_skipped_aloud(tmp_path: Path, name: str) -> None:
    whole = make_checkpoint(tmp_path, 10)
    cut, without = make_checkpoint(tmp_path, 20) / name, make_checkpoint(tmp_path, 30) / name
    cut.write_bytes(cut.read_bytes()[:-1])
    without.unlink()
    found = choose(complete.find_all(tmp_path, 1))
    assert found.checkpoint == whole
    assert [sentence.split(" is skipped")[0] for sentence in found.skipped] == ["checkpoint-30", "checkpoint-20"]


def test_a_checkpoint_of_fewer_ranks_lacks_random_states(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path, 10)
    assert complete.missing_states(checkpoint, 2) == ["rng_state_0.pth", "rng_state_1.pth"]
    write_manifest(checkpoint, {"batch.processes": 1})
    assert complete.missing_states(checkpoint, 2) == []  # it says itself that one rank wrote it


# --- outbox --------------------------------------------------------------------------------------------------------


def test_an_announced_checkpoint_survives_rotation_and_rewriting(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    checkpoint = make_checkpoint(run.checkpoints, 10)
    (run.outbox / ".part-10").mkdir(parents=True)
    assert announce.announce(run, checkpoint, {"step": 10}, None)
    announced = run.outbox / ".new-10"
    before = (announced / "optimizer.pt").read_bytes()
    assert (announced / "optimizer.pt").stat().st_ino == (checkpoint / "optimizer.pt").stat().st_ino

    announce.forget(checkpoint)
    make_checkpoint(run.checkpoints, 10)
    (checkpoint / "optimizer.pt").write_bytes(b"rewritten")
    assert (announced / "optimizer.pt").read_bytes() == before
    assert not list(run.outbox.glob(".part-*"))


def test_a_checkpoint_that_the_supervisor_took_is_announced_no_second_time(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    checkpoint = make_checkpoint(run.checkpoints, 10)
    announce.announce(run, checkpoint, {"step": 10}, None)
    (run.outbox / ".new-10").rename(run.outbox / "digest")
    assert not announce.announce(run, checkpoint, {"step": 10}, None)
    assert [entry.name for entry in run.outbox.iterdir()] == ["digest"]


def test_what_was_set_aside_is_deleted_once_a_later_checkpoint_is_whole(tmp_path: Path) -> None:
    for name in ("checkpoint-9", "checkpoint-20"):
        (tmp_path / f"skipped-by-attempt-2-{name}").mkdir()
    (tmp_path / "skipped-by-attempt-2-checkpoint-mine").mkdir()
    (tmp_path / "checkpoint-5").mkdir()
    complete.drop_set_aside(tmp_path, 12)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "checkpoint-5",
        "skipped-by-attempt-2-checkpoint-20",
        "skipped-by-attempt-2-checkpoint-mine",
    ]


# --- failures, metrics, heartbeat, speed ---------------------------------------------------------------------------


def test_the_cause_of_a_failure_outranks_what_followed_from_it(tmp_path: Path) -> None:
    def reason() -> Any:
        return json.loads((tmp_path / "failure.json").read_text())["reason"]

    write_failure(tmp_path, "exception", "connection closed by peer")
    write_failure(tmp_path, "oom", "out of memory")
    assert reason() == "oom"
    write_failure(tmp_path, "exception", "connection closed by peer")
    write_failure(tmp_path, "nan_loss", "too late")
    assert reason() == "oom"
    assert [entry.name for entry in tmp_path.iterdir()] == ["failure.json"]


def test_who_lost_another_rank_gives_way_to_whoever_failed_first(tmp_path: Path) -> None:
    lost = "RuntimeError: gloo/transport/tcp/pair.cc: Connection closed by peer"
    write_failure(tmp_path, "exception", lost, rank=0)
    write_failure(tmp_path, "exception", "KeyError: 'labels'", rank=1, lines=["Traceback", "KeyError: 'labels'"])
    write_failure(tmp_path, "exception", "ValueError: later", rank=2)
    told = json.loads((tmp_path / "failure.json").read_text())
    assert (told["rank"], told["message"], told["lines"][-1]) == (1, "KeyError: 'labels'", "KeyError: 'labels'")
    assert json.loads((tmp_path / "failure-0.json").read_text())["message"] == lost
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "failure-0.json",
        "failure-1.json",
        "failure-2.json",
        "failure.json",
    ]


def test_a_failure_that_cannot_be_recorded_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "attempt").write_text("in its place")
    write_failure(tmp_path / "attempt", "disk_full", "no room")
    assert "disk_full cannot be recorded: " in capsys.readouterr().err


def test_a_traceback_is_described_with_what_it_came_from() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise RuntimeError("saving failed") from error
    except RuntimeError as error:
        lines = describe(error)
    assert lines[-1] == "RuntimeError: saving failed"
    assert "OSError: [Errno 28] No space left on device" in lines


# --- ranks as torchrun saw them end --------------------------------------------------------------------------------


@dataclass
class End:
    pid: int
    exitcode: int
    timestamp: int


@dataclass
class Failed:
    failures: dict[int, End]


@pytest.mark.parametrize(
    ("ends", "signalled", "first"),
    [
        (
            {0: End(70, 1, 100), 1: End(71, -9, 101)},
            set(),
            (1, -9),
        ),  # the survivor wrote its error down, and so earlier
        ({0: End(70, -9, 100), 1: End(71, 3, 101)}, {70}, (1, 3)),  # torchrun itself killed the one that did not end
        ({0: End(70, -6, 100), 1: End(71, 1, 101)}, set(), (0, -6)),
        ({0: End(70, 1, 101), 1: End(71, 2, 100)}, set(), (1, 2)),
        ({0: End(70, -15, 100)}, {70}, (0, -15)),
    ],
)
def test_the_rank_whose_end_came_first_is_chosen(
    ends: dict[int, End], signalled: set[int], first: tuple[int, int]
) -> None:
    assert first_end(Failed(ends), signalled) == first


def test_whom_torchrun_ends_itself_is_noted() -> None:
    signalled = Signalled()
    log = logging.getLogger("a test's")
    log.addHandler(signalled)
    log.warning("Sending process %s closing signal %s", 7220, "SIGTERM")
    log.warning("failed (exitcode: %s) local_rank: %s (pid: %s) of binary: %s", -9, 1, 7221, "python")
    assert signalled.pids == {7220}


def test_a_killed_rank_is_described_by_its_last_heartbeat(tmp_path: Path) -> None:
    (tmp_path / "heartbeat-1.json").write_text(json.dumps({"rank": 1, "phase": "saving", "step": 30}))
    assert describe_end(tmp_path, 1, -9) == (
        "signal_SIGKILL",
        "rank 1 was ended by SIGKILL while saving, after step 30",
    )
    assert describe_end(tmp_path, 0, -11) == ("signal_SIGSEGV", "rank 0 was ended by SIGSEGV")
    assert describe_end(tmp_path, 1, 1) is None
    assert describe_end(tmp_path, 1, -15) is None


# --- a disk that fills ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), True),
        (OSError(errno.EFBIG, "File too large"), False),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598"), False),  # there is room
        (KeyError("labels"), False),
    ],
)
def test_a_full_disk_is_known_from_what_saving_raised(tmp_path: Path, error: Exception, is_full: bool) -> None:
    assert is_disk_full(error, tmp_path) is is_full
    outer = RuntimeError("saving failed")
    outer.__cause__ = error
    assert is_disk_full(outer, tmp_path) is is_full


def test_torchs_own_words_for_a_full_disk_are_believed_where_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada_train.checkpoints.full_disk._free_bytes", lambda _folder: 4096)
    assert is_disk_full(RuntimeError("basic_ios::clear: iostream error"), tmp_path)


def test_what_could_not_be_saved_is_deleted_by_the_rank_that_saves(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-4").mkdir()
    assert "there is no earlier one" in give_up(tmp_path / "checkpoint-4", None, is_main=False).message
    assert (tmp_path / "checkpoint-4").exists()
    failure = give_up(tmp_path / "checkpoint-4", "checkpoint-2", is_main=True)
    assert (failure.reason, failure.exit_code) == ("disk_full", 1)
    assert "checkpoint-2 is the last complete one" in failure.message
    assert not (tmp_path / "checkpoint-4").exists()


def test_a_new_attempt_continues_the_metrics_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = Metrics(path, attempt=1)
    first.begin(History())
    first.append("eval", 0, {"eval_loss": 7.0})
    for step in (1, 10, 20):
        first.append("train", step, {"loss": 6.0 - step / 10, "num_tokens": 100 * step})
    with path.open("a") as file:
        file.write('{"kind": "train", "step": 2')

    history = read_history(path, step=10)
    assert replace(history, first_unreadable="") == History(5.9, 5.0, 7.0, train_tokens=1000, unreadable=1)
    assert history.first_unreadable.startswith("metrics.jsonl:5: it is not JSON: ")
    second = Metrics(path, attempt=2)
    second.begin(history)
    second.append("train", 11, {"loss": 4.9, "num_tokens": 1100})
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["attempt"], last["step"]) == (2, 11)
    assert second.loss_first == 5.9
    assert second.losses_at(11) == {"loss": 4.9}
    assert second.losses_at(12) == {}


def test_a_heartbeat_is_written_once_a_second_and_at_every_new_phase(tmp_path: Path) -> None:
    clock, run = Clock(), RunFolder(tmp_path, attempt=3, rank=1)
    heartbeat = Heartbeat(run, clock)

    def seen() -> tuple[str, int, int | None]:
        content = json.loads((tmp_path / "heartbeat-1.json").read_text())
        return content["phase"], content["step"], content["total_steps"]

    heartbeat.beat("training", 1, 10)
    clock.now += 0.9
    heartbeat.beat("training", 2)
    assert seen() == ("training", 1, 10)
    heartbeat.beat("saving")
    assert seen() == ("saving", 2, 10)
    clock.now += 1
    heartbeat.beat("saving", 3)
    eventually(lambda: seen() == ("saving", 3, 10), "its thread to write")
    clock.now += 0.9
    heartbeat.beat("saving", 4)
    heartbeat.beat("training")
    assert seen() == ("training", 4, 10)


def test_a_heartbeat_that_cannot_be_written_for_a_while_is_written_later(tmp_path: Path) -> None:
    clock, run = Clock(), RunFolder(tmp_path / "run")
    run.path.mkdir()
    heartbeat = Heartbeat(run, clock)
    heartbeat.beat("training", 1, 10)
    run.path.rename(tmp_path / "away")
    clock.now += 1
    heartbeat.beat("training", 2)
    (tmp_path / "away").rename(run.path)

    def step() -> Any:
        clock.now += 1
        heartbeat.beat("training", 3)
        return json.loads((run.path / "heartbeat-0.json").read_text())["step"]

    eventually(lambda: step() == 3, "the disk to be there again")


def test_speed_counts_no_time_of_evaluation_or_saving() -> None:
    clock = Clock()
    throughput = Throughput(clock)
    for _ in range(2):
        clock.now += 2
        throughput.step()
    clock.now += 60
    throughput.restart()
    assert throughput.lap(tokens=800, samples=8) == {"tokens_per_s": 200, "samples_per_s": 2, "step_time_s": 2}
    assert throughput.total_s == 4


@pytest.mark.parametrize(("wandb", "key", "reports"), [("off", "k", False), ("auto", "", False), ("offline", "", True)])
def test_tracking_is_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb: str, key: str, reports: bool
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "wandb.py").touch()
    tracking = {"wandb": wandb, "project": "p"}
    training = parse_training(Section(make_training(Path("/t"), tracking=tracking), "training"))
    environment = {"WANDB_API_KEY": key}
    assert configure_libraries(training, RunFolder(tmp_path), environment) is reports
    assert environment["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"
    if reports:
        assert environment["WANDB_RUN_ID"] == "a-test-1"
        assert environment["WANDB_RESUME"] == "allow"
        assert environment["WANDB_DIR"] == str(tmp_path)
        assert environment["WANDB_MODE"] == "offline"


def test_one_process_without_a_launcher_is_rank_0_of_1() -> None:
    run = RunFolder.from_environment(Path("/r"), {})
    assert (run.rank, run.world_size, run.attempt, run.is_main) == (0, 1, 1, True)
    run = RunFolder.from_environment(Path("/r"), {"RANK": "3", "WORLD_SIZE": "4", "ARMADA_ATTEMPT": "2"})
    assert (run.rank, run.world_size, run.is_main) == (3, 4, False)
    assert run.attempt_folder == Path("/r/attempts/2")
