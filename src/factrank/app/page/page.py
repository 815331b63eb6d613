"""The explorer page: one self-contained HTML file, from its payload.

The page's content security policy names its scripts and its style sheet by hash and allows nothing else; a live page
may also talk to the server that it comes from. Data is JSON in a script element that cannot be ended from within.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from factrank.app.page.modules import asset, inside_script, joined
from factrank.errors import InputError
from factrank.foreign_text import shown_name
from factrank.report.study import script_data, theme, vega_library

MOST_BYTES = 30_000_000
"""Limit of the size of a page, which browsers on phones still open."""


def build_explorer(payload: Mapping[str, Any], live: Mapping[str, Any] | None = None) -> str:
    """Return the page of a payload.

    Arguments:
        payload: The data (`explorer_payload`).
        live: Settings of a live page, which `start` of main.js returns to live.js; None for a static page.

    Raises:
        InputError: If the page would be larger than `MOST_BYTES`.

    >>> from factrank import sample
    >>> from factrank.app.page import explorer_payload
    >>> page = build_explorer(explorer_payload(sample("astrid"), title="astrid"))
    >>> "<title>astrid · factrank explorer</title>" in page
    True
    """
    themes = {name: theme(name) | {"background": "transparent"} for name in ("light", "dark")}
    config = script_data({"payload": payload, "live": live, "themes": themes})
    if len(config) > MOST_BYTES:
        raise InputError(
            f"the page would have {len(config) / 1e6:.0f} MB, and the limit is {MOST_BYTES / 1e6:.0f} MB: choose fewer "
            "facts (factrank.read(...).select(...)), or leave out the layer (--no-layer) or the gallery"
        )
    script = joined("main", "start") if live is None else joined("live", "connect")
    style = asset("explorer.css") if live is None else asset("explorer.css") + asset("live.css")
    title = shown_name(str(payload.get("title") or ""), longest=120)
    return _template().render(
        title=f"{title} · factrank explorer" if title else "factrank explorer",
        policy=_policy([_early(), script, vega_library()], style, is_live=live is not None),
        style=Markup(style),  # noqa: S704 - our own
        early=Markup(_early()),  # noqa: S704 - our own
        data=Markup(config),  # noqa: S704 - cannot end a script element
        script=Markup(script),  # noqa: S704 - our own
        library=Markup(vega_library()),  # noqa: S704 - vendored
    )


def _policy(scripts: list[str], style: str, is_live: bool) -> str:
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": _hash(style),
        "img-src": "data:",
        "connect-src": "'self'" if is_live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{what} {whom}" for what, whom in allowed.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    return environment.from_string(asset("explorer.html"))


@cache
def _early() -> str:
    """Return the script that sets the theme before anything is drawn."""
    return inside_script(asset("theme.js"))
