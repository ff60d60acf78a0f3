"""Validate the parameters of requests from home."""

from typing import Any, Dict, List

from armada_agent.errors import AgentError


def text(params: Dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not is_text(value):
        raise AgentError("bad_request", "`%s` must be text without NUL" % name)
    return str(value)


def is_text(value: Any) -> bool:
    """Return whether a value can be an argument, an environment variable or a file name on this host."""
    try:
        return isinstance(value, str) and "\0" not in value and bool(value.encode("utf-8") or True)
    except UnicodeEncodeError:
        return False  # it contains half of a surrogate pair


def integer(params: Dict[str, Any], name: str, default: int = 0, least: int = 0) -> int:
    value = params.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise AgentError("bad_request", "`%s` must be a whole number from %d" % (name, least))
    return value


def seconds(params: Dict[str, Any], name: str) -> float:
    value = params.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e9:
        raise AgentError("bad_request", "`%s` must be a number of seconds" % name)
    return float(value)


def mapping(params: Dict[str, Any], name: str) -> Dict[str, Any]:
    value = params.get(name, {})
    if not isinstance(value, dict):
        raise AgentError("bad_request", "`%s` must be an object" % name)
    return value


def texts(params: Dict[str, Any], name: str) -> Dict[str, str]:
    """Return the parameter `name`, an object whose values must all be text without NUL."""
    value = mapping(params, name)
    return {key: text(value, key) for key in value}


def sequence(params: Dict[str, Any], name: str) -> List[Any]:
    value = params.get(name)
    if not isinstance(value, list):
        raise AgentError("bad_request", "`%s` must be a list" % name)
    return value
