"""Run folders on a host: create them atomically, list them, delete them."""

import json
import os
import re
import shlex
import shutil
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import deletion, durability, files, parameters
from armada_agent.foundation.session import Call
from armada_agent.host import job_variables, roots, set_aside
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths, checked_digest, list_run_ids, list_runs_folder, newest
from armada_agent.provision import content
from armada_agent.records.place import is_gone
from armada_agent.runs import leftover_processes, repeated, submissions, work_data
from armada_agent.runs.observation import Evidence
from armada_agent.verdicts import removing

_MOST_SPECS = 200
_MOST_STRANGE = 20
_LONGEST_STATE = 40
_SPECS_LIMIT = 4 * 1024 * 1024  # bytes in one answer: a line has at most 8 MiB
_LAUNCH_FILE = re.compile(r"launch/[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")


def create(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Create a run's folder and, if the request names a submission, submit the run. Repeating the request changes nothing.

    Raises:
        AgentError: `conflict`: the run exists with another spec, or everything on the host is being deleted; the errors
            of `run.submit`; `outcome_unknown`: an earlier request has claimed the submission, and this one fails.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    number = 1 if params.get("submission") is None else parameters.integer(params, "submission", least=1)
    with repeated.doubted([paths], number):
        set_aside.refuse_while_wiped(call.root)
    with repeated.doubted([paths], number, sure=("bad_request", "conflict")):
        set_aside.put_back_left(call.root)
        home = homes.read_asker(params)
        answer = _create(call, params)
        homes.register(paths, home)
    if params.get("submission") is not None:
        answer["submitted"] = submissions.submit(call, params)
    return answer


def _create(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    paths = RunPaths(call.root, params.get("run_id"))
    spec = _checked_spec(paths, parameters.mapping(params, "spec"))
    launch = parameters.texts(params, "files")
    for name in launch:
        if not _LAUNCH_FILE.fullmatch(name):
            raise AgentError("bad_request", "%.100r is not a file name under launch/" % name)
    secrets = parameters.texts(params, "secrets")
    job_variables.check_names(secrets)
    if not os.path.isdir(paths.folder):
        files.make_folders(os.path.dirname(paths.folder))
        staged = os.path.join(os.path.dirname(paths.folder), os.path.basename(files.temporary_name(paths.run_id)))
        try:
            _fill(call, staged, spec, launch, secrets)
            if _rename(staged, paths.folder):
                roots.identify(call.root)  # which marks the folder of runs, so that an empty one is not taken for it
                return {"path": paths.folder, "created": True}
        finally:
            shutil.rmtree(staged, ignore_errors=True)  # exists only if another request was first, or after an error
    if _read_spec(paths) != spec:
        raise AgentError("conflict", "run %s exists here with another spec" % paths.run_id)
    submissions.bring_secrets(paths, secrets)
    return {"path": paths.folder, "created": False}


def list_runs(call: Call, _params: Dict[str, Any]) -> Dict[str, Any]:
    """List every run below the root with its last written state; `strange` names what is among them and is no run.

    Somebody renamed a run's folder, or put files there. What is being made or deleted has a name of armada's own.
    """
    set_aside.put_back_left(call.root)
    ids = list_run_ids(call.root)
    answer: Dict[str, Any] = {"runs": [_summarise(RunPaths(call.root, name)) for name in ids]}
    there = [name for name in list_runs_folder(call.root) if not (files.is_temporary(name) or name == roots.MARK)]
    strange = [_shown_name(name) for name in sorted(set(there) - set(ids))]
    return dict(answer, strange=strange[:_MOST_STRANGE]) if strange else answer


def _shown_name(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]


def read_specs(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the plans of runs for a home that has lost its store, as many as fit into the answer.

    A missing or damaged plan is null, with the reason next to it.
    """
    asked = parameters.sequence(params, "run_ids")
    if len(asked) > _MOST_SPECS:
        raise AgentError("bad_request", "at most %d plans per request" % _MOST_SPECS)
    room = _SPECS_LIMIT
    answers: List[Dict[str, Any]] = []
    for run_id in asked:
        paths = RunPaths(call.root, run_id)
        spec, problem = None, None
        try:
            spec = files.read_json(paths.spec, limit=_SPECS_LIMIT)
            problem = None if spec is not None else "there is no spec.json"
        except files.UnreadableError as error:
            problem = str(error)[:500]
        size = len(json.dumps(spec))
        if size > _SPECS_LIMIT:
            spec, problem, size = None, "spec.json is too large for an answer: %d bytes" % size, 0
        room -= size
        if room < 0 and answers:
            break
        answers.append({"run_id": paths.run_id, "spec": spec, "problem": problem})
    return {"specs": answers}


def remove(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete a run's folder.

    Raises:
        AgentError: `conflict`: the run lives or may still start, or another home would lose something and `despite_homes`
            does not say that the user accepts that, or the folder has something that is not in `judged`; `not_found`;
            `io`: something of it cannot be deleted.
    """
    asker, judged = homes.read_asker(params), _read_judged(params)
    paths = RunPaths(call.root, params.get("run_id"))
    if not paths.is_there():
        raise AgentError("not_found", "no run %s under %s" % (paths.run_id, call.root))
    if is_gone(paths):
        _refuse_scraps(paths)
    lock = files.lock(paths.submit_lock, timeout_s=5.0)
    if lock is None:
        raise AgentError("conflict", "run %s is being submitted" % paths.run_id)
    try:
        evidence = Evidence(paths)
        if evidence.supervisor in ("alive", "unknown") or evidence.processes():
            raise AgentError("conflict", "run %s is still alive" % paths.run_id, "stop it first")
        if evidence.may_still_start:
            raise AgentError("conflict", "run %s may still start" % paths.run_id, "stop it first")
        lacking = homes.find_lacking(paths, asker)
        if lacking and params.get("despite_homes") is not True:
            raise AgentError("conflict", "; ".join(sorted(lacking.values())), "sync there first, or --other-home")
        trash = os.path.join(os.path.dirname(paths.folder), os.path.basename(files.temporary_name(paths.run_id)))
        require_judged(paths, judged)
        os.rename(paths.folder, trash)
    finally:
        os.close(lock)
    deletion.delete_folder(trash, paths.folder)
    return {}


def _read_judged(params: Dict[str, Any]) -> Optional[removing.FolderSeen]:
    """Read what home saw of the folder before it judged it. None: it does not say, as an older one, or judged nothing."""
    if params.get("judged") is None:
        return None
    told = parameters.mapping(params, "judged")
    submission, attempt = (
        None if told.get(name) is None else parameters.integer(told, name) for name in ("submission", "attempt")
    )
    digests = frozenset(map(checked_digest, parameters.sequence(told, "checkpoints")))
    return removing.FolderSeen(submission, attempt, digests, parameters.integer(told, "announced"))


def require_judged(paths: RunPaths, judged: Optional[removing.FolderSeen]) -> None:
    """Refuse to delete a folder that has something which home did not judge: somebody resumed the run, or requeued its job.

    Raises:
        AgentError: `conflict`.
    """
    if judged is None:
        return
    # In this order, a checkpoint that is finished meanwhile is counted twice instead of never.
    announced = len(paths.announced())
    now = removing.FolderSeen(
        submission=paths.newest_submission() or 0,
        attempt=newest(paths.attempts()) or 0,
        checkpoints=frozenset(paths.checkpoints()),
        announced=announced,
    )
    refusal = removing.why_not_since(paths.run_id, judged, now)
    if refusal is not None:
        raise AgentError("conflict", refusal.what, refusal.hint)


def _refuse_scraps(paths: RunPaths) -> None:
    """Refuse to delete what a job wrote after its run's folder was deleted: home does not know about it.

    Raises:
        AgentError: `conflict`.
    """
    if leftover_processes.find(paths):
        raise AgentError("conflict", "run %s is still alive" % paths.run_id, "stop it first")
    if paths.announced():
        message = "the folder of run %s was removed while it ran, and its job has saved checkpoints there since: %s"
        remedy = "copy what you need, then: rm -rf %s  # on the host" % shlex.quote(paths.folder)
        raise AgentError("conflict", message % (paths.run_id, paths.outbox), remedy)


def read_spec(paths: RunPaths) -> Dict[str, Any]:
    """Read a run's plan.

    Raises:
        AgentError: `not_found`; `io`: the file is damaged.
    """
    paths.require()
    return _read_spec(paths)


def _read_spec(paths: RunPaths) -> Dict[str, Any]:
    try:
        return files.read_json(paths.spec) or {}
    except files.UnreadableError as error:
        raise AgentError("io", "run %s: %s" % (paths.run_id, error))


def _checked_spec(paths: RunPaths, spec: Dict[str, Any]) -> Dict[str, Any]:
    if spec.get("run_id") != paths.run_id:
        raise AgentError("bad_request", "the spec is of another run: %.100r" % spec.get("run_id"))
    if spec.get("format") != 1:
        message = "spec format %.20r; this agent knows 1" % spec.get("format")
        raise AgentError("bad_request", message, "update the older of the two: armada at home, or this agent")
    job = parameters.mapping(spec, "job")
    argv = parameters.sequence(job, "argv")
    if not argv or not all(map(parameters.is_text, argv)) or not argv[0]:
        raise AgentError("bad_request", "`job.argv` must be a list of strings that begins with a program")
    job_variables.check_names(parameters.texts(job, "env"))
    code = job.get("code")
    if code is not None and not (isinstance(code, str) and os.path.isabs(code)):
        raise AgentError("bad_request", "`job.code` must be an absolute folder")
    work_data.check(job.get("data"))
    parameters.integer(spec, "gpus")
    parameters.seconds(spec, "stop_grace_s")
    if spec.get("time_limit_s") is not None:
        parameters.seconds(spec, "time_limit_s")
    if spec.get("budget") is not None:
        parameters.seconds(parameters.mapping(spec, "budget"), "seconds")
    _check_watch(spec.get("watch"))
    outbox = parameters.mapping(spec, "outbox")
    parameters.integer(outbox, "keep", default=1, least=1)
    parameters.integer(outbox, "disk_floor_bytes")
    return spec


def _check_watch(watch: Any) -> None:
    if watch is None:
        return
    if not isinstance(watch, dict):
        raise AgentError("bad_request", "`watch` must be an object")
    resume = parameters.sequence(watch, "resume") if watch.get("resume") is not None else []
    if not all(map(parameters.is_text, resume)):
        raise AgentError("bad_request", "`watch.resume` must be a list of strings")
    if not all(map(parameters.is_text, parameters.sequence(watch, "metrics") if watch.get("metrics") else [])):
        raise AgentError("bad_request", "`watch.metrics` must be a list of strings")
    if watch.get("checkpoints") is not None:
        checkpoints = parameters.mapping(watch, "checkpoints")
        pattern = parameters.text(checkpoints, "pattern")
        if not pattern or os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise AgentError("bad_request", "`watch.checkpoints.pattern` must stay below the folder the job works in")
        parameters.seconds(checkpoints, "quiet_s")


def _fill(call: Call, staged: str, spec: Dict[str, Any], launch: Dict[str, str], secrets: Dict[str, str]) -> None:
    os.mkdir(staged, 0o700)
    for name in ("launch", "outbox", "submissions", "attempts"):
        os.mkdir(os.path.join(staged, name), 0o700)
    code = spec["job"].get("code")
    work = os.path.join(staged, "work")
    if code is None:
        os.mkdir(work, 0o700)
    elif os.path.isdir(code):
        shutil.copytree(code, work, symlinks=True)
        sha = content.find_code(call.root, code)
        if sha is not None:
            content.require_right(work, sha, code, True, call)  # the copy, because the copy is executed
        durability.fsync_tree(work)  # after a power failure, an empty script would end successfully
    else:
        raise AgentError("not_found", "the code's folder %s is not on this host" % code, "send it first")
    if spec["job"].get("data"):
        work_data.link(call.root, work, spec["job"]["data"])
        durability.fsync_tree(work)
    for name, text in launch.items():
        files.write_bytes(os.path.join(staged, name), text.encode("utf-8"))
    if secrets:
        files.write_bytes(os.path.join(staged, "secrets.env"), files.encode(secrets))
    files.write_bytes(os.path.join(staged, "spec.json"), files.encode(spec))
    files.fsync_folder(staged)


def _rename(staged: str, folder: str) -> bool:
    try:
        os.rename(staged, folder)
    except OSError:
        if os.path.isdir(folder):
            return False
        raise
    files.fsync_folder(os.path.dirname(folder))
    return True


def _summarise(paths: RunPaths) -> Dict[str, Any]:
    summary: Dict[str, Any] = {"run_id": paths.run_id, "state": "unknown", "created_at": None, "submission": None}
    try:
        paths.is_there()
        spec = files.read_json(paths.spec) or {}
        state = files.read_json(paths.state)
        submission = paths.newest_submission()
        word = state.get("state") if state else "submitted" if submission is not None else "preparing"
    except (files.UnreadableError, OSError):
        return summary  # one damaged folder must not hide the other runs
    summary["submission"] = submission
    created_at = spec.get("created_at")
    summary["created_at"] = created_at if isinstance(created_at, (int, float)) else None
    summary["state"] = word if isinstance(word, str) and len(word) <= _LONGEST_STATE else "unknown"
    return summary
