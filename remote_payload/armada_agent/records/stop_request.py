"""Read stop.json: somebody asks for the end of a run."""

from typing import Any, Dict, Optional

from armada_agent.foundation import files
from armada_agent.paths import RunPaths


def read_stop_request(paths: RunPaths) -> Optional[Dict[str, Any]]:
    """Read stop.json; a damaged one is a request to stop all the same."""
    try:
        return files.read_json(paths.stop)
    except files.UnreadableError:
        return {}


def concerns(stop_request: Dict[str, Any], submission: int) -> bool:
    """Tell whether a stop request was about this submission; one from before any submission is about all of them."""
    number = stop_request.get("submission")
    return not isinstance(number, int) or submission <= number
