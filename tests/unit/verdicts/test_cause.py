"""Why a job failed, told from recorded outputs of real failures: their folder is the reason that must be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from armada_agent.verdicts.cause import Facts, Said, find_cause
from armada_agent.verdicts.cause_patterns import SENTENCES, classify

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*/*.txt"))
GLOO = "RuntimeError: [pair.cc:537] gloo: Read error [127.0.0.1]:3366: Connection reset by peer"
KERNEL = "process 13658 (python3) with 0.4 GB, by the limit of its cgroup"


def facts(
    text: str = "",
    status: int = 1,
    *,
    first: Said | None = None,
    others: tuple[Said, ...] = (),
    oom_kills: tuple[str, ...] = (),
    is_disk_full: bool = False,
) -> Facts:
    return Facts(status, first, list(others), text, list(oom_kills), is_disk_full)


def read(name: str) -> tuple[Facts, int | None]:
    """A recording: where it is from, `exit <code>` with the rank that failed first, an empty line, the output."""
    path = Path(__file__).parent / "recordings" / f"{name}.txt"
    head, _, text = path.read_text("utf-8").partition("\n\n")
    match = re.fullmatch(r"exit (\d+)(?: rank (\d+))?", head.splitlines()[1])
    assert match
    return facts(text, int(match[1])), None if match[2] is None else int(match[2])


def said(rank: int, reason: str, message: str) -> Said:
    return Said(rank, reason, message, [f"Traceback of rank {rank}", message])


@pytest.mark.parametrize("name", [f"{path.parent.name}/{path.stem}" for path in RECORDINGS])
def test_the_cause_of_a_recorded_failure_is_found_and_the_rank_that_failed_first(name: str) -> None:
    given, rank = read(name)
    cause = find_cause(given)
    assert (cause.reason, cause.rank) == (name.partition("/")[0], rank)
    if sentence := SENTENCES.get(cause.reason):
        assert (cause.message or "").startswith(sentence)
    assert rank is None or {other["rank"] for other in cause.others} == {1 - rank}
    assert all("ChildFailedError" not in line and "CalledProcessError" not in line for line in cause.lines)


def test_each_class_has_three_recordings() -> None:
    counted = {name: sum(path.parent.name == name for path in RECORDINGS) for name in SENTENCES}
    assert min(counted.values()) >= 3, counted


@pytest.mark.parametrize(
    "name",
    ["signal_SIGKILL/torchrun", "signal_SIGKILL/accelerate", "signal_SIGKILL/shell", "signal_SIGKILL/data-loader"],
)
def test_a_kill_is_lack_of_memory_where_the_kernel_says_so(name: str) -> None:
    given, rank = read(name)
    cause = find_cause(given._replace(oom_kills=[KERNEL]))
    assert (cause.reason, cause.rank) == ("host_oom", rank)
    assert KERNEL in (cause.message or "")


@pytest.mark.parametrize(
    "name", ["missing_file/cat", "disk_full/torchrun", "signal_SIGSEGV/torchrun", "exit_1/handled"]
)
def test_what_the_kernel_killed_meanwhile_is_not_the_cause_of_another_end(name: str) -> None:
    given, _ = read(name)
    assert find_cause(given._replace(oom_kills=[KERNEL])) == find_cause(given)


def test_a_killed_rank_has_its_own_last_lines_and_not_the_survivors() -> None:
    lines = find_cause(read("signal_SIGKILL/torchrun")[0]).lines
    assert lines == ["step 2 loss 0.3411", "step 4 loss 0.2403"]


def test_last_lines_are_those_of_the_rank_that_failed_first() -> None:
    lines = find_cause(read("missing_module/torchrun")[0]).lines
    assert lines[-1].startswith("[rank1]: ModuleNotFoundError")
    assert not [line for line in lines if "[rank0]" in line]


@pytest.mark.parametrize("reason", ["nan_loss", "data_error", "oom", "preempted"])
def test_what_the_job_said_of_its_failure_holds_and_other_ranks_complaints_stay(reason: str) -> None:
    first, other = said(1, reason, "at step 31"), said(0, "exception", GLOO)
    cause = find_cause(facts(first=first, others=(first, other), status=1))
    assert (cause.reason, cause.message, cause.rank, cause.lines) == (reason, "at step 31", 1, first.lines)
    assert cause.others == [{"rank": 0, "message": GLOO}]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("OSError: [Errno 28] No space left on device", "disk_full"),
        ("ModuleNotFoundError: No module named 'kernels'", "missing_module"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'rows.jsonl'", "missing_file"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "network"),
        ("ValueError: too many values to unpack", "exception"),
        (GLOO, "exception"),
    ],
)
def test_an_exception_that_the_trainer_does_not_know_is_classified_by_its_words(message: str, reason: str) -> None:
    cause = find_cause(facts(first=said(0, "exception", message)))
    assert cause.reason == reason
    assert message in (cause.message or "")


def test_an_exception_is_known_by_what_it_was_raised_from() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "OSError: [Errno 28] No space left on device",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "b.py", line 2, in <module>',
        "RuntimeError: saving failed",
    ]
    assert find_cause(facts(first=Said(0, "exception", "RuntimeError: saving failed", lines))).reason == "disk_full"


def test_a_rank_that_the_launcher_saw_killed_is_the_cause_with_the_kernels_words() -> None:
    first = Said(1, "signal_SIGKILL", "rank 1 was ended by SIGKILL in step 31", [])
    assert find_cause(facts(first=first)).message == "rank 1 was ended by SIGKILL in step 31"
    cause = find_cause(facts(first=first, others=(said(0, "exception", GLOO),), oom_kills=(KERNEL,)))
    assert (cause.reason, cause.rank, cause.others) == ("host_oom", 1, [{"rank": 0, "message": GLOO}])


@pytest.mark.parametrize(
    ("status", "reason"),
    [(7, "exit_7"), (-9, "signal_SIGKILL"), (-11, "signal_SIGSEGV"), (143, "exit_143"), (-40, "signal_40")],
)
def test_without_words_the_exit_code_or_signal_is_the_reason(status: int, reason: str) -> None:
    cause = find_cause(facts(status=status))
    assert (cause.reason, cause.rank, cause.lines, cause.others) == (reason, None, [], [])


def test_a_job_that_fails_without_a_word_on_a_full_disk_failed_of_that() -> None:
    assert find_cause(facts("step 1\n", 1, is_disk_full=True)).reason == "disk_full"
    assert find_cause(facts("Traceback (most recent call last):\n  x\nKeyError: 'a'\n", 1)).reason == "exit_1"
    assert find_cause(facts("step 1\n", -9, is_disk_full=True)).reason == "signal_SIGKILL"


def test_an_exception_of_no_known_class_is_quoted() -> None:
    cause = find_cause(read("exit_1/handled")[0])
    assert cause.message == "KeyError: 'labels'"


def test_ranks_that_their_launcher_ended_are_innocent() -> None:
    text = """W1122 08:46:18.284000 7130 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 70 closing signal SIGTERM
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 70)  (SIGKILL)
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : 3 (pid: 71)
"""
    cause = find_cause(facts(text))
    assert (cause.reason, cause.rank) == ("exit_1", 1)


def test_an_exception_that_the_program_survived_is_not_its_cause() -> None:
    told = "Traceback (most recent call last):\n  x\nFileNotFoundError: cache.json\n"
    assert find_cause(facts(told + "step\n" * 20, 3)).reason == "missing_file"
    assert find_cause(facts(told + "step\n" * 40, 3)).reason == "exit_3"


@pytest.mark.parametrize(
    "text",
    [
        "\0" * 250_000,
        "Traceback (most recent call last):\n" * 7000,
        "Traceback (most recent call last):\n  x\nE: y\n" * 5000,
        "[rank1]: " * 25_000,
        "[rank1]: Traceback (most recent call last):\n" * 5000,
        "\n" * 250_000,
    ],
    ids=["nul", "heads", "tracebacks", "prefixes", "heads of a rank", "empty lines"],
)
def test_hostile_output_is_read_to_an_end(text: str) -> None:
    cause = find_cause(facts(text, 3))
    assert cause.reason == "exit_3"
    assert all(len(line) <= 300 for line in cause.lines)


@pytest.mark.parametrize("line", ["{'loss': nan, 'epoch': 1.0}", "{'loss': 'nan', 'grad_norm': 'nan'}", "loss: nan"])
def test_a_loss_that_was_printed_last_and_is_no_number_is_the_cause(line: str) -> None:
    assert classify(line) == "nan_loss"
    assert classify(line.replace("nan", "0.5")) is None
