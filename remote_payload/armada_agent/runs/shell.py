"""Run a user's own program in a run's folder with the environment of its job: `armada ssh` and `armada exec`.

The program does not carry the run's marker: when the job ends, the supervisor ends every process with the marker, and a
user's shell is not part of the job.
"""

import os
import shlex
import signal
import sys
from typing import Any, Dict, List, Mapping, Optional, cast

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.host import containers, job_setup, job_variables, processes, setup_lines
from armada_agent.metrics import library
from armada_agent.paths import RunPaths
from armada_agent.runs import worker_shell

NOT_FOUND = 127
NOT_EXECUTABLE = 126
REFUSED = 125
"""Exit codes for a program that could not be started, as shells and `docker exec` use them."""

_TERMINAL = ("TERM", "COLORTERM", "TERM_PROGRAM", "DISPLAY", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "SSH_AUTH_SOCK")


def enter(asked: Dict[str, Any]) -> int:
    """Replace this process by the requested program.

    Args:
        asked: `root`, `run_id` (None: no run), `argv` (empty: the user's login shell), `setup` (the host's shell
            lines). `worker`: the program runs on the worker of the run's job, if it has one now (`worker_shell.enter`).
            `on_worker`: this is that worker. `waits`: this process stays as the program's parent, because ssh does not
            tell which signal ended the process that it started.

    Returns:
        An exit code, only if the program could not be started, or ran on a worker. An error is on standard error.
    """
    try:
        return _enter(asked)
    except AgentError as error:
        return _refuse(error.message, REFUSED)


def _enter(asked: Dict[str, Any]) -> int:
    argv = _words(asked.get("argv", []))
    setup_lines.use(asked.get("setup"))
    setup_lines.apply()
    if asked.get("run_id") is None:
        environment, folder = dict(os.environ), os.path.expanduser("~")
    else:
        paths = RunPaths(asked["root"], asked["run_id"])
        paths.require()
        if asked.get("worker") is not None:
            code = worker_shell.enter(asked, paths)
            if code is not None:
                return code
        environment, folder = compose_environment(paths, os.environ), paths.work
        if asked.get("on_worker") is True:
            environment.update(worker_shell.own_variables(os.environ))
        words = _container_words(paths, argv, environment)
        if words is not None:
            argv, environment = words, containers.client_environment(environment)
    shell = environment.get("SHELL") or "/bin/sh"
    try:
        os.chdir(folder)
    except OSError as error:
        return _refuse("%s: %s" % (folder, error.strerror), REFUSED)
    program = argv or [shell]
    if asked.get("waits") is True:
        child = os.fork()
        if child:
            return _wait(child)
    code = _become(program, environment)
    if asked.get("waits") is True:
        sys.stderr.flush()
        os._exit(code)  # the parent returns it
    return code


def _wait(child: int) -> int:
    """Wait until the program has ended. Return its exit code; 128 plus the signal's number if a signal ended it."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # they are for the program
    status = os.waitpid(child, 0)[1]
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _become(program: List[str], environment: Dict[str, str]) -> int:
    """Replace this process by the program. Return an exit code only if it could not be started."""
    try:
        # A word that is not UTF-8 arrives with its bytes as surrogates.
        os.execvpe(  # noqa: S606 - the user requested this program
            program[0],
            cast("List[str]", [word.encode("utf-8", "surrogateescape") for word in program]),
            cast("Dict[str, str]", {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}),
        )
    except FileNotFoundError:
        return _refuse(_absence(program), NOT_FOUND)
    except PermissionError:
        return _refuse("%s may not be executed" % program[0], NOT_EXECUTABLE)
    except (OSError, ValueError) as error:
        return _refuse("%s could not be started: %s" % (program[0], error), NOT_EXECUTABLE)


def _words(given: Any) -> List[str]:
    """Return the words of a command. Bytes that are not UTF-8 are surrogate escapes in them, as in `sys.argv` at home.

    Raises:
        AgentError: `bad_request`: a word cannot be an argument; without it the others would shift.
    """
    for word in given:
        if not isinstance(word, str) or not parameters.is_text(word.encode("utf-8", "replace").decode("utf-8")):
            raise AgentError("bad_request", "the command has a word that cannot be an argument: %r" % (word,))
    return list(given)


def _container_words(paths: RunPaths, argv: List[str], environment: Dict[str, str]) -> Optional[List[str]]:
    """Return the command that enters the container of a run's job; None if the job has none, or it does not run.

    The program has neither the job's secrets nor its marker.
    """
    try:
        spec = files.read_json(paths.spec) or {}
        recorded = files.read_json(paths.container) or {}
    except files.UnreadableError as error:
        raise AgentError("io", str(error))
    if not isinstance(spec.get("container"), dict):
        return None
    name = containers.name_of(paths)
    program = containers.recorded_program(recorded)
    try:
        is_running = program is not None and containers.is_running(containers.find_state(program, name, environment))
    except containers.NoAnswerError as error:
        raise AgentError("environment", str(error))
    if program is None or not is_running:
        sys.stderr.write("armada: the container of %s does not run now; this is the host itself\n" % paths.run_id)
        return None
    words = [program, "exec", "--interactive"] + (["--tty"] if sys.stdin.isatty() else [])
    secrets = [str(secret) for secret in spec["job"].get("secrets") or []]
    for variable in [processes.RUN_MARKER, processes.GPU_MARKER, "ARMADA_LOG_FILE"] + secrets:
        words += ["--env", variable + "="]
    if "TERM" in environment:
        words += ["--env", "TERM=" + environment["TERM"]]
    return words + ["--workdir", paths.work, name] + (argv or ["sh"])


def _absence(program: List[str]) -> str:
    if len(program) > 1 or not any(character in program[0] for character in " |;&<>*"):
        return "%s is not on this host" % program[0]
    line = shlex.quote(program[0])
    return "no program on this host is called %s; to run a line of shell: -- sh -c %s" % (line, line)


def compose_environment(paths: RunPaths, own: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment of a user's program: that of the run's job without its secrets and its marker.

    Args:
        paths: The run's files.
        own: The environment of this login, for the terminal's variables.

    Raises:
        AgentError: `io`: the run's plan cannot be read; `environment`: a line of its `setup` fails.
    """
    try:
        spec = files.read_json(paths.spec) or {}
        state = files.read_json(paths.state) or {}
    except files.UnreadableError as error:
        raise AgentError("io", str(error))
    job = spec.get("job")
    given: Dict[str, Any] = job if isinstance(job, dict) else {}
    try:
        environment = job_variables.of_run(paths, setup_lines.exported())
    except OSError as error:
        raise AgentError("io", "%s: %s" % (paths.variables, error.strerror))
    planned = given.get("env")
    if isinstance(planned, dict):
        environment.update({str(name): value for name, value in planned.items() if isinstance(value, str)})
    environment = job_setup.apply(spec, environment, paths.work, {})
    job_variables.activate(environment, spec)
    programs = _programs(paths, given.get("argv"))
    if programs is not None:
        environment["PATH"] = job_variables.join_paths(programs, environment.get("PATH", ""))
        environment["VIRTUAL_ENV"] = os.path.dirname(programs)
    gpus = state.get("gpus")
    if state.get("state") == "running" and isinstance(gpus, list) and gpus:
        environment.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=",".join(str(gpu) for gpu in gpus))
    environment.update({name: own[name] for name in _TERMINAL if name in own})
    environment["ARMADA_RUN_DIR"] = paths.folder
    if os.path.isdir(paths.library):
        library.add_to_path(
            paths, environment
        )  # not the job's destination of metrics: a user's experiments are not part of the run's curves
    return environment


def _programs(paths: RunPaths, argv: Any) -> Optional[str]:
    """Return the `bin` folder of a job's environment; None if the job does not use an environment of armada's."""
    if not isinstance(argv, list) or not argv or not isinstance(argv[0], str):
        return None
    folder = os.path.dirname(argv[0])
    return folder if folder.startswith(os.path.join(paths.root, "envs") + os.sep) else None


def _refuse(message: str, code: int) -> int:
    sys.stderr.write("armada: %s\n" % message)
    return code
