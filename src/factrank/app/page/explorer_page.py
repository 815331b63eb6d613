"""`explore`: the explorer page of a table, a layer or published reproductions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factrank.app.page.page import build_explorer
from factrank.app.page.payload import explorer_payload
from factrank.certificates import Certificate
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import verify
from factrank.families.attention.searching import construct
from factrank.host import replacing
from factrank.readouts import DEFAULT_TAU, with_facts
from factrank.tensors import DEFAULT_BUDGET, Measurement, measure

MOST_CONSTRUCTED = 5_000
"""Largest number of facts for which `explore` constructs a layer by itself."""


@dataclass(frozen=True, eq=False)
class ExplorerPage:
    """An explorer page: its HTML, and what it shows."""

    html: str
    database: Database | None
    layer: Any
    measurement: Measurement | None
    certificate: Certificate | None
    papers: tuple[str, ...] = ()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, which is replaced atomically."""
        target = Path(path)
        with replacing(target) as stream:
            stream.write(self.html.encode())
        return target

    def __repr__(self) -> str:
        shown = [] if self.database is None else [f"{self.database.n_facts:,} facts"]
        shown += [] if self.layer is None else [f"a layer of {self.layer.parameters:,} parameters"]
        shown += [f"reproductions of {', '.join(self.papers)}"] if self.papers else []
        return f"ExplorerPage({', '.join(shown)}; {len(self.html) / 1e6:.1f} MB)"


def explore(
    given: Any = None,
    database: Database | None = None,
    *,
    layer: bool = True,
    title: str = "",
    tau: float = DEFAULT_TAU,
    budget: float = DEFAULT_BUDGET,
    reproductions: str | os.PathLike[str] | None = None,
) -> ExplorerPage:
    """Return the explorer page of a table or a layer: a single HTML file that works offline.

    The page computes the layer's answers, recall, margins and hallucinations itself, and recomputes them when a fact or
    a weight is changed. Certificates are made here, from the weights and facts that the page shows.

    Arguments:
        given: A database; or a layer, or a trained, constructed or loaded object that contains one; or None for a
            page of reproductions only.
        database: The facts of a layer; by default, those that it comes with.
        layer: Whether a database gets a layer in closed form, the smallest that recalls it. Tables of more than
            `MOST_CONSTRUCTED` facts get none.
        title: Title of the page.
        tau: Initial threshold of confident answers.
        budget: Time limit in seconds for the bounds on the ranks.
        reproductions: A folder of published reproductions to show as well.

    Raises:
        InputError: If the layer does not match the facts, its logits are not a sum over paths, the folder is not one
            of reproductions, or the page would be too large.

    >>> import factrank
    >>> page = factrank.explore(factrank.sample("astrid"), title="astrid")
    >>> page.layer.parameters, page.certificate.certified
    (80, True)
    """
    if given is None and reproductions is None:
        raise InputError("explore needs a database, a layer or a folder of reproductions")
    model: Any = None
    certificate: Certificate | None = None
    if isinstance(given, Database):
        if database is not None:
            raise InputError("explore takes one database; the second argument is for the facts of a layer")
        database = given
        if layer and 0 < database.n_facts <= MOST_CONSTRUCTED:
            made = construct(database)
            model, certificate = made.model, made.certificate
    elif given is not None:
        model, database = with_facts(given, database)
        explorer_payload(database, model, title=title)  # fails early if the page cannot show this layer
        certificate = verify(model, database) if database.n_facts else None
    measurement = None if database is None else measure(database, budget)
    gallery = None if reproductions is None else _gallery(Path(reproductions))
    payload = explorer_payload(database, model, measurement, certificate, title=title, tau=tau, gallery=gallery)
    papers = tuple(paper["name"] for paper in gallery["papers"]) if gallery else ()
    return ExplorerPage(build_explorer(payload), database, model, measurement, certificate, papers)


def _gallery(folder: Path) -> dict[str, Any]:
    from factrank.app.page.gallery import gallery_payload  # noqa: PLC0415 - loads the catalogue of studies

    return gallery_payload(folder)
