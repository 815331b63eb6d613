"""`factrank app`: the live explorer, a page on this machine that measures, constructs and trains."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from factrank.cli.support.terminal import Json, complain, say, say_json
from factrank.errors import InputError


def app(
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port; by default, a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    json: Json = False,
) -> None:
    """Explore tables and layers in a browser.

    Serves a page to this machine only: upload or paste a table, measure it, write it into a layer or watch a layer
    learn it, and download the results. Uploads stay on this machine and are deleted when the server stops (Ctrl-C).

    Example: factrank app --port 8000
    """
    try:
        from factrank.app.server import serve  # noqa: PLC0415 - the web server is an extra
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise InputError("the live explorer needs a web server: pip install 'factrank[app]'") from None

    def started(address: str) -> None:
        if json:
            say_json({"address": address})
        else:
            say(
                f"factrank explorer: {address}\nKeep this address to yourself. Ctrl-C stops it and deletes all uploads."
            )
        if not no_browser and not webbrowser.open(address):
            complain("no browser was found; open the address yourself")

    serve(port, on_start=started)
