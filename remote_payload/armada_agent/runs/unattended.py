"""What a submission needs that goes on without a user: the secrets of the former one, and a budget that is not spent."""

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.spent import Spent


def require_secrets(paths: RunPaths) -> None:
    """Check that the secrets with which a run was started still exist: a job without its key may fail hours later.

    Raises:
        AgentError: `conflict`.
    """
    try:
        job = (files.read_json(paths.spec) or {}).get("job")
        there = files.read_json(paths.secrets) or {}
    except files.UnreadableError as error:
        raise AgentError("io", str(error))
    declared = job.get("secrets") or [] if isinstance(job, dict) else None
    if not isinstance(declared, list) or not all(isinstance(name, str) for name in declared):
        raise AgentError("io", "the spec of run %s is damaged: which secrets it needs cannot be read" % paths.run_id)
    missing = [name for name in declared if name not in there]
    if missing:
        message = "secrets of run %s are no longer on its host: %s" % (paths.run_id, ", ".join(map(str, missing)))
        raise AgentError("conflict", message, "armada resume %s sends them again" % paths.run_id)


def require_budget(paths: RunPaths) -> None:
    """Refuse to go on without a user where the budget is spent: only a person grants it once more.

    Raises:
        AgentError: `conflict`.
    """
    if Spent(paths, files.read_json(paths.spec) or {"stop_grace_s": 0.0}).is_over:
        again = "`armada resume %s` grants the same once more" % paths.run_id
        raise AgentError("conflict", "the budget of %s is spent; %s" % (paths.run_id, again))
