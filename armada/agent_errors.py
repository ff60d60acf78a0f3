"""What an agent's refusal means for a person."""

from __future__ import annotations

from armada.errors import ArmadaError, Conflict, NotFound, OutcomeUnknown, ProvisionFailed, SchedulerRefused
from armada.inert import inert_line, inert_text

_METHOD_NOT_FOUND = -32601
_ERROR_KINDS: dict[str, type[ArmadaError]] = {
    "not_found": NotFound,
    "conflict": Conflict,
    "environment": ProvisionFailed,
    "disk_full": ProvisionFailed,
    "scheduler": SchedulerRefused,
    "outcome_unknown": OutcomeUnknown,
}


def call_error(error: object, method: str, *, host: str) -> ArmadaError:
    """Turn the agent's refusal of a request into the error for a person."""
    fields = error if isinstance(error, dict) else {}
    if fields.get("code") == _METHOD_NOT_FOUND:
        return ArmadaError(f"the agent does not know {method}", hint="update armada", host=host)
    said = inert_text(str(fields.get("message", f"{method} failed")), limit=4096)
    data = fields.get("data")
    kind, hint = (data.get("kind"), data.get("hint")) if isinstance(data, dict) else (None, None)
    error_class = _ERROR_KINDS.get(str(kind), ArmadaError)
    return error_class(said, hint=inert_line(hint) if isinstance(hint, str) else None, host=host)
