"""Check every web request: a token that is new at each start, and only the dashboard's own pages as origin.

Loopback does not restrict access: every user of this machine can connect, and so can every page in its browsers. The
token protects against other users. `Host` protects against foreign names that resolve to 127.0.0.1, and `Origin`
against foreign pages that open a websocket.
"""

from __future__ import annotations

import hmac
import re
import secrets
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

COOKIE = "armada"
TOKEN_BYTES = 32
OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
"""Any port, because `ssh -L` may forward another one."""
ENTERED = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>armada</title>
<meta http-equiv="refresh" content="0;url=./"></head><body><a href="./">armada</a></body></html>
"""


class Gate:
    """Checks every request: pages, scripts, fonts and the websocket.

    Browsers send a cookie to every port of a host, so also to other users' servers on this machine's loopback. The
    dashboard therefore has a path with a random name, and the cookie is limited to that path.
    """

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        self.root = f"/{secrets.token_hex(8)}/"

    @property
    def way_in(self) -> str:
        """Return the path, with the token, that gives access."""
        return f"{self.root}?token={self._token}"

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Accept requests with the cookie, and set the cookie for requests with the token.

        Raises:
            HTTPForbidden: The request has neither, or comes from another page or under another host name.
        """
        host = own_host(request)
        if host is None:
            raise web.HTTPForbidden(text="wrong host name: the dashboard answers only to 127.0.0.1 and localhost\n")
        origin = request.headers.get("Origin")
        if origin is None and "Upgrade" in request.headers:
            raise web.HTTPForbidden(text="the websocket request has no Origin header\n")
        if origin is not None and origin != f"http://{host}":
            raise web.HTTPForbidden(text="requests from other pages are refused\n")
        if request.path == self.root and "token" in request.query:
            if self._is_token(request.query["token"]):
                return self._welcome()
        elif request.path.startswith(self.root) and self._is_token(request.cookies.get(COOKIE, "")):
            return await handler(request)
        raise web.HTTPForbidden(
            text="the token is missing or wrong: open the address that `armada dashboard --web` printed\n"
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode())

    def _welcome(self) -> web.Response:
        """Move the token from the address, which browsers keep and show, into a cookie that scripts cannot read.

        The answer is a page that loads the next one, not a redirect. After a click on another site's page, a redirect
        would still count as that site's request, and the browser would not send a strict cookie.
        """
        answer = web.Response(text=ENTERED, content_type="text/html")
        answer.set_cookie(COOKIE, self._token, path=self.root, httponly=True, samesite="Strict")
        return answer


def own_host(request: web.Request) -> str | None:
    """Return the request's `Host`, if that is this machine's own."""
    hosts = request.headers.getall("Host", [])
    return hosts[0] if len(hosts) == 1 and OWN_HOST.fullmatch(hosts[0]) else None


async def guard(request: web.Request, response: web.StreamResponse) -> None:
    """Add security headers: no scripts or fonts from other sites, no frames, no caching."""
    host = own_host(request)
    response.headers["Content-Security-Policy"] = (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
        f"connect-src 'self'{f' ws://{host}' if host else ''}; "  # in Safari, 'self' does not include websockets
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    response.headers.popall("Server", None)
