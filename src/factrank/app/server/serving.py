"""Serve the live explorer on the loopback address until Ctrl-C, SIGTERM or SIGHUP."""

from __future__ import annotations

import secrets
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from factrank.app.server.application import Pages
from factrank.app.server.guard import Guard, own_hosts
from factrank.app.server.limits import Limits
from factrank.errors import InputError

ADDRESS = "127.0.0.1"
SECONDS_TO_CLOSE = 3
"""Time that open requests have to end when the server stops."""


def serve(port: int = 0, limits: Limits | None = None, *, on_start: Callable[[str], None] = lambda _: None) -> None:
    """Serve until the process is told to stop; then end all jobs and delete all uploads and results.

    Arguments:
        port: Port, or 0 for a free one.
        limits: Limits on sessions and jobs.
        on_start: Called with the address of the page, which contains the token.

    Raises:
        InputError: If the port cannot be used.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a client or worker that goes away does not end the server
    listening = _listening(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    pages = Pages(token, limits or Limits())
    config = uvicorn.Config(
        Guard(pages.application(), token, own_hosts(port)),
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        timeout_keep_alive=30,
        limit_concurrency=200,
        h11_max_incomplete_event_size=2**16,
    )
    address = f"http://{ADDRESS}:{port}/{token}/"
    server = _Server(config, on_stop=pages.closing.set, on_start=lambda: on_start(address))
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, server.handle_exit)  # the terminal was closed
    try:
        server.run(sockets=[listening])
    finally:
        pages.sessions.delete()


class _Server(uvicorn.Server):
    """A server that ends event streams when it stops, and then returns instead of raising the signal again."""

    def __init__(self, config: uvicorn.Config, *, on_stop: Callable[[], None], on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop, self._on_start = on_stop, on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        self.should_exit = True  # never at once: uploads are deleted first
        self._on_stop()


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((ADDRESS, port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"port {port} of {ADDRESS} cannot be used: {error.strerror or error}; choose another --port"
        ) from None
    return listening
