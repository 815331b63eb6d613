"""The guard in front of the application: who may ask, and what every answer says to the browser.

A request must name the loopback address in its Host header (a site whose name was pointed at this machine does not),
and the token in its path. A request that changes something must come from the page itself: browsers state the
Origin, which scripts cannot forge. Other sites can neither read answers nor show the page in a frame.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer; the page itself has a content security policy of its own in addition."""

SAFE = ("GET", "HEAD")
OWN = ("same-origin", "none")
"""Values of Sec-Fetch-Site: from the page itself, or typed by the user."""


class Guard:
    """Middleware that refuses strangers and removes the token from the path.

    Arguments:
        app: Application behind it.
        token: First part of every path.
        hosts: Accepted Host headers, such as "127.0.0.1:8000".
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, frozenset(hosts)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal, inner = self._judge(scope)
        app = self.app if refusal is None else PlainTextResponse(refusal[1], refusal[0])
        await app(inner, receive, _with_headers(send))

    def _judge(self, scope: Scope) -> tuple[tuple[int, str] | None, Scope]:
        """Return why a request is refused (None if it is not), and the request without its token."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return (421, "This server answers only at its loopback address.\n"), scope
        token, _, rest = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self._token):
            return (404, "Not found. Open the address that factrank app has printed, with its token.\n"), scope
        if not self._is_own(scope["method"], headers, hosts[0], rest):
            return (403, "Refused: the request comes from another site.\n"), scope
        return None, {**scope, "path": f"/{rest}", "root_path": ""}

    def _is_own(self, method: str, headers: Headers, host: str, rest: str) -> bool:
        site = headers.get("sec-fetch-site", "none")
        if method not in SAFE:
            return site in OWN and headers.getlist("origin") == [f"http://{host}"]
        is_page = rest == "" and headers.get("sec-fetch-mode") == "navigate"
        return site in OWN or is_page


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def own_hosts(port: int) -> list[str]:
    """Return the names under which this machine reaches itself.

    >>> own_hosts(8000)
    ['127.0.0.1:8000', 'localhost:8000']
    """
    return [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
