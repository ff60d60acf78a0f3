"""Wait for the vLLM server that samples a training's completions, before a model is loaded. Without torch."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from armada_train.failure import PayloadFailure
from armada_train.specification.section import bad_spec
from armada_train.specification.values import Training

_PAUSE_S = 2.0
_ANSWER_S = 10.0


def await_vllm_server(
    training: Training,
    beat: Callable[[], object],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Wait until the server says that it is ready; return at once for a training without one.

    TRL waits for it too, but with the model in the GPU's memory, and its error names no setting.

    Args:
        training: The specification.
        beat: Called before each attempt.
        clock: In seconds.
        pause: Takes seconds.

    Raises:
        PayloadFailure: `env_error`: nothing answers there within `vllm.timeout`; `bad_spec`: its URL is none.
    """
    vllm: dict[str, Any] | None = training.objective.settings.get("vllm")
    if vllm is None or vllm["mode"] != "server":
        return
    key, url = f"`training.{training.objective.name}.vllm.url`", str(vllm["url"]).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise bad_spec(f"{key} must be http://HOST:PORT, not {url}")
    ends_at = clock() + vllm["timeout_s"]
    while True:
        beat()
        why = _trouble(f"{url}/health")
        if why is None:
            return
        if clock() >= ends_at:
            raise PayloadFailure(
                "env_error",
                f"{key} {url}: no vLLM server is ready there after {vllm['timeout_s']:g} s ({why}); start it with "
                "`trl vllm-serve --model MODEL` where this host reaches it, or use `mode: colocate`",
            )
        pause(_PAUSE_S)


def _trouble(url: str) -> str | None:
    """Return why the server is not ready; None if it is."""
    try:
        with urllib.request.urlopen(url, timeout=_ANSWER_S):  # noqa: S310  # http or https, see above
            return None
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}"
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        return str(reason) or type(error).__name__
