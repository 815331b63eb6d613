"""The page of an audit: a single self-contained HTML file that makes no network requests.

Jinja2 escapes every text; data for scripts is JSON without "<"; the content security policy allows only the page's own
two scripts, by their hashes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from factrank.auditing import FactsInWeights, ForwardCheck, LoraAudit, ModelAudit
from factrank.foreign_text import visible
from factrank.host import replacing
from factrank.report.audits.audit_tables import describe_audit, describe_check, describe_recall
from factrank.report.audits.page_tables import page_tables
from factrank.report.display import description_html
from factrank.report.pictures import draw_circuit_values, draw_distances, draw_effective_ranks, draw_update_ranks
from factrank.report.study import page_part, script_data, script_policy, theme, vega_library


def write_audit_page(
    found: ModelAudit | LoraAudit,
    path: Path,
    *,
    facts: FactsInWeights | None = None,
    check: ForwardCheck | None = None,
) -> None:
    """Write the page of an audit; an existing file is replaced atomically."""
    page = build_audit_page(found, facts=facts, check=check)
    with replacing(path) as stream:
        stream.write(page.encode())


def build_audit_page(
    found: ModelAudit | LoraAudit, *, facts: FactsInWeights | None = None, check: ForwardCheck | None = None
) -> str:
    """Return the page of an audit.

    Arguments:
        found: The audit: summary, charts, and one sortable row per head or update.
        facts: Facts in the weights: the strongest entries, and a table fact by fact.
        check: The self-check.
    """
    charts = _model_charts(found) if isinstance(found, ModelAudit) else _lora_charts(found)
    themes = {name: theme(name) | {"background": "transparent"} for name in ("light", "dark")}
    scripts = [vega_library(), _part("audit_page.js")]
    data = {"charts": {name: _plain(chart) for name, (_, chart) in charts.items()}, "themes": themes}
    shown = [describe_audit(found)]
    shown += [describe_check(check)] if check is not None else []
    shown += [describe_recall(facts)] if facts is not None and facts.recalls else []
    return _template().render(
        title=found.title,
        name=PurePath(found.title).name or found.title,
        summaries=[Markup(description_html(each)) for each in shown],  # noqa: S704 - escaped there
        figures=[(name, text) for name, (text, _) in charts.items()],
        tables=page_tables(found, facts, check),
        policy=script_policy(scripts),
        style=Markup(page_part("study_page.css") + _part("audit_page.css")),  # noqa: S704 - our own
        data=Markup(script_data(data)),  # noqa: S704 - cannot end a script element
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own
    )


def _model_charts(found: ModelAudit) -> dict[str, tuple[str, Any]]:
    charts = {
        "qk": ("Effective rank of QK by layer and head", draw_effective_ranks(found, "QK")),
        "ov": ("Effective rank of OV by layer and head", draw_effective_ranks(found, "OV")),
        "values": ("Singular values", draw_circuit_values(found)),
    }
    if found.heads[0].distances:
        charts["distances"] = ("Effective rank of QK by distance", draw_distances(found))
    return charts


def _lora_charts(found: LoraAudit) -> dict[str, tuple[str, Any]]:
    return {"updates": ("Effective rank of the updates", draw_update_ranks(found))}


def _plain(chart: Any) -> dict[str, Any]:
    """Return the specification without its colours, which the page chooses."""
    specification: dict[str, Any] = chart.to_dict()
    specification.pop("config", None)
    return specification


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_visible
    )
    return environment.from_string(_part("audit_page.html"))


def _visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")
