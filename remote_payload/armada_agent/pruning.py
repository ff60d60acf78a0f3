"""Deleting checkpoints that home asks to delete: only what home has said it holds, and never the newest."""

import contextlib
import os
import shutil
from typing import Any, Dict, List

from armada_agent import checkpoints, files, parameters
from armada_agent.paths import RunPaths, checked_digest, list_folder
from armada_agent.session import Call

TRASH = ".trash-"


def prune(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete finished checkpoints; those that may not go are named with the reason.

    Raises:
        AgentError: `not_found` for a run that is not here.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    paths.require()
    wanted = [checked_digest(digest) for digest in parameters.sequence(params, "digests")]
    for name in list_folder(paths.outbox):
        if name.startswith(TRASH):  # somebody was killed between the rename and the end of the deletion
            shutil.rmtree(os.path.join(paths.outbox, name), ignore_errors=True)
    entries = checkpoints.list_finished(paths)
    newest = entries[-1]["digest"] if entries else None
    pruned: List[str] = []
    refused: Dict[str, str] = {}
    for digest in wanted:
        if digest == newest:
            refused[digest] = "it is the newest here"
        elif os.path.isdir(paths.checkpoint(digest)) and not os.path.exists(paths.acknowledgement(digest)):
            refused[digest] = "home has not said that it holds it"
        else:
            _delete(paths, digest)
            pruned.append(digest)
    return {"pruned": pruned, "refused": refused}


def _delete(paths: RunPaths, digest: str) -> None:
    trash = os.path.join(paths.outbox, TRASH + digest)
    with contextlib.suppress(FileNotFoundError):  # the supervisor thinned it in this moment
        os.rename(paths.checkpoint(digest).rstrip("/"), trash)
        files.fsync_folder(paths.outbox)
    files.remove(paths.acknowledgement(digest))
    shutil.rmtree(trash, ignore_errors=True)
