"""`python -m armada_train.launch --config_file … --spec …`: accelerate's launcher with meaningful signals and exit codes.

With `--script FILE -- ARGUMENTS` it starts a user's own script instead of the payload, and leaves no trace in it.

accelerate's launcher for one process does not forward SIGTERM. torchrun always exits with 1, and kills its ranks 30 s
after a SIGTERM. Schedulers restart a job by its exit code, so the ranks' own code must be passed on.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from armada_train.failure import BROKEN, GENERIC, INTERRUPTED, REFUSED, exit_code, read_failure, write_failure
from armada_train.records import UnreadableRecord, find_object, is_number, read_object, show
from armada_train.runfolder import RunFolder
from armada_train.training.rank_ends import LeftCodes, Signalled, describe_end, first_end

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
_LONGEST_GRACE_S = 1 << 30
_SHORTEST_GRACE_S = 30  # torchrun's own


def main() -> int:
    parser = argparse.ArgumentParser(prog="armada_train.launch", description="Start the ranks of a run.")
    parser.add_argument("--config_file", required=True, help="accelerate's settings")
    parser.add_argument("--spec", type=Path, required=True, help="spec.json in the run's folder")
    parser.add_argument("--script", help="a script of the user's own")
    ours, its = _split(sys.argv[1:])
    given = parser.parse_args(ours)
    spec = given.spec.absolute()

    # A script's launcher is started with -B, for our own modules; those of the libraries are compiled once, not at each start.
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_simple_launcher_cmd_env

    job = ["-m", "armada_train", "--spec", str(spec)]
    if given.script is not None:
        _leave_python_path()
        job = [given.script, *its]
    words = ["--config_file", given.config_file, *job]
    # The same calls as `accelerate launch` makes.
    arguments, _, _ = launch._validate_launch_command(launch.launch_command_parser().parse_args(words))  # noqa: SLF001
    if given.script is not None and (complaint := _count_gpus(spec)):
        print(f"armada_train.launch: {complaint}", file=sys.stderr, flush=True)
        write_failure(RunFolder.from_environment(spec.parent, os.environ).attempt_folder, "world_mismatch", complaint)
        return REFUSED
    # DeepSpeed needs torchrun's variables even for one process.
    many = arguments.multi_gpu or arguments.use_fsdp or arguments.use_deepspeed or _asks_for_deepspeed(spec)
    if not many:
        command, environment = prepare_simple_launcher_cmd_env(arguments)
        sys.stdout.flush()
        os.execvpe(command[0], command, environment)  # noqa: S606 - one process needs no launcher above it
    launcher = launch.deepspeed_launcher if arguments.use_deepspeed else launch.multi_gpu_launcher
    return _launch_ranks(launcher, arguments, spec, is_ours=given.script is None)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Separate our arguments from those of the script, which follow the first `--`."""
    if "--" not in words:
        return words, []
    border = words.index("--")
    return words[:border], words[border + 1 :]


def _leave_python_path() -> None:
    """Remove our own folder, the first, from the script's import path."""
    rest = os.environ.pop("PYTHONPATH", "").partition(os.pathsep)[2]
    if rest:
        os.environ["PYTHONPATH"] = rest


def _count_gpus(spec: Path) -> str | None:
    """Compare the visible GPUs with the plan, once for all ranks; counting them does not start CUDA here."""
    import torch

    try:
        planned = read_object(spec).get("gpus", 0)
    except UnreadableRecord as error:
        return str(error)
    visible = torch.cuda.device_count()
    return (
        None
        if visible == planned
        else f"the plan has {show(planned)} GPU(s), but torch {torch.__version__} sees {visible}"
    )


def _launch_ranks(launcher: Any, arguments: Any, spec: Path, *, is_ours: bool) -> int:
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # accelerate's parser does not know these two options of torchrun, but passes them on.
    arguments.signals_to_handle = _SIGNALS
    arguments.shutdown_timeout = max(_SHORTEST_GRACE_S, _stop_grace_s(spec))
    signalled, left = Signalled(), LeftCodes()
    signalled.listen()
    left.listen()
    try:
        launcher(arguments)
    except (ChildFailedError, SignalException) as error:
        if not is_ours:
            return _code_of(error, signalled.pids, left)
        run = RunFolder.from_environment(spec.parent, os.environ)
        _record_kill(run, error, signalled.pids)
        failure = read_failure(run.attempt_folder)
        if failure is None:
            print(error, file=sys.stderr, flush=True)
            # The signal came when nothing was left to do but to end.
            return 0 if hasattr(error, "sigval") and left.common() == 0 else BROKEN
        return exit_code(failure)
    return 0


def _record_kill(run: RunFolder, error: Any, signalled: set[int]) -> None:
    """Record the rank that was killed, which wrote nothing, as the cause before the errors of the others."""
    if hasattr(error, "sigval") or read_failure(run.attempt_folder) not in (None, GENERIC):
        return
    rank, code = first_end(error, signalled)
    if told := describe_end(run.path, rank, code):
        reason, message = told
        print(f"armada_train.launch: {message}", file=sys.stderr, flush=True)
        write_failure(run.attempt_folder, reason, message, rank=rank)


def _code_of(error: Any, signalled: set[int], left: LeftCodes) -> int:
    """Return a script's own exit code, that of the rank that failed first; torchrun's is always 1.

    After a signal it is 85 if all of them left by themselves, with that or with 0: the checkpoint that they saved counts
    then, and the run goes on from it. A 0 does not tell whether a script was done, or only saved.
    """
    print(error, file=sys.stderr, flush=True)
    if hasattr(error, "sigval"):
        return 128 + int(error.sigval) if left.common() is None else INTERRUPTED
    _, code = first_end(error, signalled)
    return 128 - code if code < 0 else code or BROKEN


def _asks_for_deepspeed(spec: Path) -> bool:
    training = find_object(spec).get("training")  # the rank says what is wrong with spec.json
    return isinstance(training, dict) and training.get("deepspeed") is not None


def _stop_grace_s(spec: Path) -> int:
    grace_s = find_object(spec).get("stop_grace_s")
    return int(grace_s) if is_number(grace_s) and 0 <= grace_s < _LONGEST_GRACE_S else 0


if __name__ == "__main__":
    sys.exit(main())
