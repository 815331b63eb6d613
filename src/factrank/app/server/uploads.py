"""Uploads: the body of a request, read in pieces and only as far as the limit."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from factrank.errors import InputError

LARGEST_JSON = 2**16
SECONDS = 120.0
"""Time that a body may take to arrive."""

LINGER_SECONDS, LINGER_BYTES = 0.5, 2**20
"""Time and size up to which the rest of a refused body is read and dropped."""


class TooLargeError(Exception):
    """A body is larger than its limit; the rest of it is not read."""


class LingeringResponse(JSONResponse):
    """A refusal of a body that was not read: it is sent at once, and then a little of the body is read and dropped.

    To close a connection with unread data resets it, and the refusal would be lost on the way.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - of every response
        """Send the refusal."""
        self.headers["Connection"] = "close"
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        dropped = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while dropped < LINGER_BYTES:
                    message = await receive()
                    dropped += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b""})


async def save_body(request: Request, path: Path, most: int) -> int:
    """Write the body of a request to a file; returns its size.

    Raises:
        TooLargeError: If the request announces more than `most` bytes, or sends more.
        InputError: If the body breaks off.
    """
    _require_announced(request, most)
    size = 0
    try:
        async with asyncio.timeout(SECONDS):
            with path.open("xb") as file:
                async for piece in request.stream():
                    size += len(piece)
                    if size > most:
                        raise TooLargeError
                    await asyncio.to_thread(file.write, piece)
    except (TimeoutError, ClientDisconnect):
        raise InputError("the upload broke off; try again") from None
    return size


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        TooLargeError: If it is larger than any that the page sends.
        InputError: If it is not a JSON object.
    """
    _require_announced(request, LARGEST_JSON)
    text = b""
    try:
        async with asyncio.timeout(SECONDS):
            async for piece in request.stream():
                text += piece
                if len(text) > LARGEST_JSON:
                    raise TooLargeError
        plain = json.loads(text)
    except (ValueError, RecursionError, TimeoutError, ClientDisconnect):
        raise InputError("expected a JSON object") from None
    if not isinstance(plain, dict):
        raise InputError("expected a JSON object")
    return plain


def _require_announced(request: Request, most: int) -> None:
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or len(announced) > 18 or int(announced) > most:
        raise TooLargeError
