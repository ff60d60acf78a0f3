"""Record the rest of a site's allowance before a run is submitted and after it has ended."""

import os
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from armada_agent.engines import engine
from armada_agent.engines.engine import EngineError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.paths import RunPaths
from armada_agent.records.place import require_there

_LIMIT = 2000
_PATIENCE_S = 20.0  # a launch waits for the answer


def ask(argv: List[Any]) -> Tuple[str, bool]:
    """Run the site's own quota command, without a shell.

    Returns:
        The command's output, or why it failed; and whether it succeeded.
    """
    words = [str(word) for word in argv if parameters.is_text(word)]
    if not words:
        return "the host's `quota` is empty", False
    try:
        return engine.run_tool(words, timeout_s=_PATIENCE_S).strip()[-_LIMIT:], True
    except EngineError as error:
        return error.message[:_LIMIT], False


def note_before(paths: RunPaths, submission: int, settings: Dict[str, Any]) -> None:
    """Record the rest of the allowance before a submission. The site is asked once, however often the submission is repeated."""
    argv = settings.get("quota")
    record = paths.submission(submission, "quota.json")
    if isinstance(argv, list) and argv and not os.path.exists(record):
        files.write_json(record, {"command": argv, "before": _look(argv), "after": None})


def note_before_all(all_paths: Sequence[RunPaths], settings: Dict[str, Any]) -> None:
    """Record the rest of the allowance before the first submissions of many runs. The site is asked once for all of them."""
    argv = settings.get("quota")
    missing = [paths for paths in all_paths if not os.path.exists(paths.submission(1, "quota.json"))]
    if isinstance(argv, list) and argv and missing:
        before = _look(argv)
        for paths in missing:
            files.write_json(paths.submission(1, "quota.json"), {"command": argv, "before": before, "after": None})


def lacks_after(paths: RunPaths, submission: int) -> bool:
    """Return whether the allowance of an ended submission was recorded before it but not yet after it."""
    kept = _read(paths, submission)
    return kept is not None and kept.get("after") is None


def note_after(root: str, run_id: str, submission: int) -> int:
    """Record the rest of the allowance after a run, in a separate process: the process that saw the run's end cannot wait."""
    if os.fork():
        os._exit(0)
    paths = RunPaths(root, run_id)
    lock = files.lock(paths.submission(submission, ".quota.lock"), timeout_s=0)
    if lock is None:
        return 0  # another process is asking
    kept = _read(paths, submission)
    if kept is not None and kept.get("after") is None and isinstance(kept.get("command"), list):
        files.write_json(paths.submission(submission, "quota.json"), dict(kept, after=_look(kept["command"])))
    os.close(lock)
    return 0


def describe(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the allowance before and after the newest submission of a run; null where it was not recorded.

    Raises:
        AgentError: `not_found`.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    require_there(paths)
    number = paths.newest_submission()
    kept = (_read(paths, number) if number is not None else None) or {}
    return {"submission": number, "before": kept.get("before"), "after": kept.get("after")}


def _look(argv: List[Any]) -> Dict[str, Any]:
    now = time.time()
    text, answered = ask(argv)
    return {"time": now, "text": text, "answered": answered}


def _read(paths: RunPaths, submission: int) -> Optional[Dict[str, Any]]:
    try:
        return files.read_json(paths.submission(submission, "quota.json"))
    except files.UnreadableError:
        return None
