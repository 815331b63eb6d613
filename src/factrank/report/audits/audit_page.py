"""The page of an audit: a single self-contained HTML file that makes no network requests.

Jinja2 escapes every text; data for scripts is JSON without "<"; the content security policy allows only the page's own
two scripts, by their hashes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from factrank.auditing import HeadCircuits, LoraAudit, ModelAudit
from factrank.foreign_text import visible
from factrank.host import replacing
from factrank.report.audits.audit_tables import describe_audit
from factrank.report.display import description_html
from factrank.report.pictures import draw_circuit_values, draw_distances, draw_effective_ranks, draw_update_ranks
from factrank.report.study import page_part, script_data, script_policy, theme, vega_library

MOST_ROWS = 5_000
HEAD_COLUMNS = (
    *("layer", "head", "kv head", "level", "QK rank", "QK effective", "QK energy", "QK stable", "QK largest"),
    *("OV rank", "OV effective", "OV energy", "OV stable", "OV largest"),
)
UPDATE_COLUMNS = ("update", "r", "rank", "effective", "energy", "stable", "largest", "parameters", "facts at most")


def write_audit_page(found: ModelAudit | LoraAudit, path: Path) -> None:
    """Write the page of an audit; an existing file is replaced atomically."""
    with replacing(path) as stream:
        stream.write(build_audit_page(found).encode())


def build_audit_page(found: ModelAudit | LoraAudit) -> str:
    """Return the page of an audit: its tables, charts, and one sortable row per head or update."""
    charts = _model_charts(found) if isinstance(found, ModelAudit) else _lora_charts(found)
    head, rows = _head_rows(found) if isinstance(found, ModelAudit) else _update_rows(found)
    themes = {name: theme(name) | {"background": "transparent"} for name in ("light", "dark")}
    scripts = [vega_library(), _part("audit_page.js")]
    data = {"charts": {name: _plain(chart) for name, (_, chart) in charts.items()}, "themes": themes}
    return _template().render(
        title=found.title,
        summary=Markup(description_html(describe_audit(found))),  # noqa: S704 - escaped there
        figures=[(name, text) for name, (text, _) in charts.items()],
        rows_title="Every head" if isinstance(found, ModelAudit) else "Every update",
        head=head,
        rows=rows[:MOST_ROWS],
        n_more=f"{len(rows) - MOST_ROWS:,}" if len(rows) > MOST_ROWS else "",
        policy=script_policy(scripts),
        style=Markup(page_part("study_page.css")),  # noqa: S704 - our own
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


def _head_rows(found: ModelAudit) -> tuple[tuple[str, ...], list[list[str]]]:
    members = [
        (level, member)
        for layer in found.layers
        for level, some in (("head", layer.heads), ("group", layer.groups))
        for member in some
    ]
    return HEAD_COLUMNS, [_head_row(level, member) for level, member in members]


def _head_row(level: str, member: HeadCircuits) -> list[str]:
    cells = [f"{member.layer}", f"{member.head}", f"{member.kv_head}", level]
    for each in (member.qk, member.ov):
        numbers = (each.effective_rank, each.energy_rank, each.stable_rank)
        cells += [f"{each.rank}", *(f"{number:.2f}" for number in numbers), f"{each.largest:.4g}"]
    return cells


def _update_rows(found: LoraAudit) -> tuple[tuple[str, ...], list[list[str]]]:
    rows = []
    for update in found.updates:
        each, facts = update.spectrum, found.facts_of(update)
        numbers = [f"{number:.2f}" for number in (each.effective_rank, each.energy_rank, each.stable_rank)]
        last = [f"{each.largest:.4g}", f"{update.parameters:,}", "" if facts is None else f"{facts:,}"]
        rows.append([update.name, f"{update.allowed}", f"{each.rank}", *numbers, *last])
    return UPDATE_COLUMNS, rows


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
