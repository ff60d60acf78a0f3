"""Delete checkpoints at home's request: only those that every home of the run has acknowledged, and never the newest."""

import contextlib
import os
import shutil
from typing import Any, Dict, List

from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.outbox import homes, listing
from armada_agent.paths import RunPaths, checked_digest, list_folder, require_own
from armada_agent.records.place import require_there
from armada_agent.verdicts.age import find_newest
from armada_agent.verdicts.letting_go import may_go

TRASH = ".trash-"


def prune(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Delete finished checkpoints. Those that must stay are returned with the reason.

    Raises:
        AgentError: `not_found`: the run is not on this host.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    require_there(paths)
    require_own(paths.outbox)
    asker = (homes.read_asker(params) or {}).get("id")
    wanted = [checked_digest(digest) for digest in parameters.sequence(params, "digests")]
    for name in list_folder(paths.outbox):
        if name.startswith(TRASH):  # a process was killed between the rename and the end of the deletion
            shutil.rmtree(os.path.join(paths.outbox, name), ignore_errors=True)
    newest = find_newest(listing.list_finished(paths)) | listing.last_recorded(paths)
    pruned: List[str] = []
    refused: Dict[str, str] = {}
    for digest in wanted:
        verdict = may_go(homes.read_words(paths, digest), asker, digest in newest)
        if verdict.goes or not os.path.isdir(paths.checkpoint(digest)):
            _delete(paths, digest)
            pruned.append(digest)
        else:
            silent = ", ".join(homes.name_of(paths, home) for home in verdict.lacking)
            refused[digest] = verdict.reason or "%s has not fetched it" % silent
    return {"pruned": pruned, "refused": refused}


def _delete(paths: RunPaths, digest: str) -> None:
    trash = os.path.join(paths.outbox, TRASH + digest)
    with contextlib.suppress(FileNotFoundError):  # the supervisor has just deleted it
        os.rename(paths.checkpoint(digest).rstrip("/"), trash)
        files.fsync_folder(paths.outbox)
    homes.drop_words(paths, digest)
    shutil.rmtree(trash, ignore_errors=True)
