"""Follow redirects only where what arrives cannot be changed on its way."""

import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional, Tuple

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def open_url(request: urllib.request.Request, timeout_s: float, is_checked: bool = False) -> Any:
    """Send a request and return the answer.

    Args:
        request: An http:// or https:// request.
        timeout_s: How long the server may be silent, in seconds.
        is_checked: What arrives is compared with a hash, so that a redirect to http:// does no harm.

    Raises:
        OSError: The server refuses (`urllib.error.HTTPError`), redirects to such a place, or cannot be reached.
        http.client.HTTPException: Its answer is not HTTP.
    """
    return urllib.request.build_opener(_Redirects(is_checked)).open(request, timeout=timeout_s)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def __init__(self, is_checked: bool) -> None:
        self._is_checked = is_checked

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        was_open = old.scheme == "http" and old.hostname not in LOOPBACK
        is_safe = new.scheme == "https" or (
            new.scheme == "http" and (was_open or self._is_checked or new.hostname in LOOPBACK)
        )
        if not is_safe:
            shown = "%s://%s" % (new.scheme, new.hostname)
            why = "it redirects to %.200s, where the file can be changed on its way" % shown
            raise urllib.error.HTTPError(req.full_url, code, why, headers, fp)
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if followed is not None and token is not None and _origin(old) == _origin(new):
            # The hub redirects a gated model's small files to another path of its own, which asks for the token again.
            followed.add_unredirected_header("Authorization", token)
        return followed


def _origin(address: urllib.parse.SplitResult) -> Tuple[str, Optional[str], Optional[int]]:
    ports = {"http": 80, "https": 443}
    return address.scheme, address.hostname, address.port or ports.get(address.scheme)
