"""Entry points of the detached processes. The bootstrap calls `serve` in-process instead."""

import argparse
import sys
from typing import List


def main() -> int:
    if sys.argv[1:2] == ["contain"]:
        return _contain(sys.argv[2:])
    if sys.argv[1:2] == ["dispatch"]:
        return _dispatch(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="armada-agent")
    commands = parser.add_subparsers(dest="command")
    for name, purpose in (
        ("supervise", "start a run's job and watch it to its end"),
        ("clear", "end what a dead supervisor left behind"),
        ("finish", "hash the checkpoints that a dead supervisor left announced"),
        ("end", "end the processes of a run whose folder is gone"),
        ("quota", "ask what an ended run has left of its allowance"),
    ):
        command = commands.add_parser(name, help=purpose)
        command.add_argument("--root", required=True)
        command.add_argument("--run", required=True)
        command.add_argument("--submission", type=int, required=True)
        if name == "supervise":
            command.add_argument("--job", help="the batch system's id of the job that runs this, if there is one")
        if name == "end":
            command.add_argument("--grace", type=float, default=60.0, help="seconds between SIGTERM and SIGKILL")
    given = parser.parse_args()
    if given.command is None:
        parser.error("use `supervise`, `clear`, `finish`, `end` or `quota`")
    if given.command == "supervise" and given.job is not None:
        from armada_agent.supervisor.batch import supervise as begin_job

        return begin_job(given.root, given.run, given.submission, given.job)
    if given.command == "end":
        from armada_agent.runs.leftover_processes import end

        return end(given.root, given.run, given.grace)
    if given.command == "supervise":
        from armada_agent.supervisor.supervise import supervise as begin
    elif given.command == "quota":
        from armada_agent.engines.allowance import note_after as begin
    elif given.command == "finish":
        from armada_agent.outbox.orphans import finish as begin
    else:
        from armada_agent.supervisor.cleanup import clear as begin
    return begin(given.root, given.run, given.submission)


def _dispatch(words: List[str]) -> int:
    """Start the cells of a sweep one after the other."""
    from armada_agent.runs.dispatcher import dispatch

    parser = argparse.ArgumentParser(prog="armada-agent dispatch", description="start the cells of a sweep")
    for name in ("root", "sweep"):
        parser.add_argument("--" + name, required=True)
    given = parser.parse_args(words)
    return dispatch(given.root, given.sweep)


def _contain(words: List[str]) -> int:
    """Run a job's container. What stands after `--` is for the container tool."""
    from armada_agent.supervisor.contain import contain

    parser = argparse.ArgumentParser(prog="armada-agent contain", description="run a job in its container")
    for name in ("root", "run", "program"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    split = words.index("--")
    given = parser.parse_args(words[:split])
    return contain(given.root, given.run, given.attempt, given.program, words[split + 1 :])


if __name__ == "__main__":
    sys.exit(main())
