"""`factrank explore`: write a page in which a table, a layer or the reproductions can be explored."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.recall import Tau
from factrank.cli.support.naming import naming
from factrank.cli.support.outputs import require_page
from factrank.cli.support.sources import Table, reads_table, title
from factrank.cli.support.terminal import Json, complain, progress, say, say_json
from factrank.errors import InputError
from factrank.tensors import DEFAULT_BUDGET

if TYPE_CHECKING:
    from factrank.app.page import ExplorerPage

LAYER_SUFFIX = ".safetensors"

SourcesIfAny = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LAYER|TABLE...",
        help="A layer file, optionally followed by a table to judge it by; or a table of facts, or sample:NAME.",
    ),
]


@reads_table
def explore(
    table: Table,
    source: SourcesIfAny = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Write the page to this .html file.")
    ] = Path("explorer.html"),
    no_layer: Annotated[
        bool, typer.Option("--no-layer", help="Show a table without constructing a layer for it.")
    ] = False,
    gallery: Annotated[bool, typer.Option("--gallery", help="Also show published reproductions of papers.")] = False,
    reproductions: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder of the reproductions, for --gallery.")
    ] = Path("reproductions"),
    budget: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Time for the bounds on the ranks; 0: counting only.")
    ] = DEFAULT_BUDGET,
    tau: Tau = 0.95,
    json: Json = False,
) -> None:
    """Write a page to explore a table or a layer in a browser.

    The page is one HTML file that works offline: facts and their tensor, rank bounds, heat maps of the layer, answers
    to any (key, query) and where they come from, recall and hallucinations at any threshold, and the certificate, which
    is proved anew. A table gets the smallest layer in closed form, unless it has more than 5,000 facts.

    Example: factrank explore sample:elements -o elements.html
    """
    require_page(output)
    if not source and not gallery:
        raise InputError("give a layer, a table or sample:NAME, or --gallery")
    if not source and table != Table():
        raise InputError("--long, --wide, --multi and similar options describe a table: give its file")
    page = _page(source or [], table, no_layer, reproductions if gallery else None, budget=budget, tau=tau)
    page.save(output)
    if json:
        say_json(_plain(output, page))
        return
    if page.database is not None and page.layer is None and not no_layer:
        complain("the table is too large to construct a layer here; construct or train one, and explore its file")
    say(f"{_words(page)}\nsaved to {output} ({len(page.html.encode()) / 1e6:.1f} MB); open it in a browser")


def _page(sources: list[str], table: Table, no_layer: bool, reproductions: Path | None, **options: Any) -> ExplorerPage:
    from factrank.app.page import explore as explore_page  # noqa: PLC0415 - JAX takes a second to load

    name = Path(title(sources)).name if sources else ""
    if not sources or not sources[0].lower().endswith(LAYER_SUFFIX):
        given = table.load(sources) if sources else None
        with progress().status("constructing and measuring"):
            return explore_page(given, layer=not no_layer, title=name, reproductions=reproductions, **options)
    from factrank.families.attention import load_layer  # noqa: PLC0415

    layer, tables = Path(sources[0]), sources[1:]
    if not tables and table != Table():
        raise InputError("--long, --wide, --multi and similar options describe a table: give its file after the layer")
    saved = load_layer(layer)
    facts = table.load_onto(tables, saved.database) if tables else saved.database
    with progress().status("verifying and measuring"), naming(layer):
        if no_layer:
            return explore_page(facts, layer=False, title=layer.name, reproductions=reproductions, **options)
        return explore_page(saved, facts, title=layer.name, reproductions=reproductions, **options)


def _words(page: ExplorerPage) -> str:
    lines = []
    if page.database is not None:
        keys, queries, values = page.database.shape
        lines.append(f"{page.database.n_facts:,} facts: {keys:,} keys x {queries:,} queries -> {values:,} values")
    if page.layer is not None:
        lines.append(f"{page.layer.shape.in_words()}; {page.layer.parameters:,} parameters")
    if page.certificate is not None:
        found = page.certificate
        lines.append("certified: every fact is recalled" if found.certified else f"not certified: {found.reason}")
    if page.papers:
        lines.append(f"reproductions: {', '.join(page.papers)}")
    return "\n".join(lines)


def _plain(output: Path, page: ExplorerPage) -> dict[str, Any]:
    layer = page.layer
    return {
        "page": str(output),
        "bytes": len(page.html.encode()),
        "facts": None if page.database is None else page.database.n_facts,
        "layer": None if layer is None else {"parameters": layer.parameters, "shape": asdict(layer.shape)},
        "certified": None if page.certificate is None else page.certificate.certified,
        "papers": list(page.papers),
    }
