"""Draw the charts of docs/pictures from fixed seeds; `tools/explorer_picture.py` draws the picture of the explorer.

python tools/doc_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import altair

import factrank
from factrank import Hallucinations, LayerShape, TauRecall, Training

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SHAPE = LayerShape(d_model=16, n_heads=2, d_qk=8, d_vo=8)
EPOCHS = (5, 10, 20, 30, 40, 60, 80, 100, 140, 180, 240, 320, 400)


def table() -> None:
    """Draw the table of sample:astrid."""
    factrank.save_chart(factrank.sample("astrid").plot().properties(title=""), PICTURES / "astrid-table.svg")


def memorise() -> None:
    """Draw recall and hallucinations of a layer that learns sample:elements, by epoch."""
    facts = factrank.sample("elements")
    missing = facts.n_keys * facts.n_queries - facts.n_facts
    rows = []
    for epoch in EPOCHS:
        trained = factrank.train(facts, SHAPE, Training(epochs=epoch), measures=(TauRecall((0.95,)), Hallucinations()))
        found = trained.metrics
        shares = {
            "facts recalled": found["recall"],
            "facts with probability 0.95": found["recall_0.95"],
            "hallucinations, of the missing entries": found["hallucinations_0.95"] / missing,
        }
        rows += [{"epoch": epoch, "what": what, "fraction": share} for what, share in shares.items()]
    chart = (
        altair.Chart(altair.Data(values=rows), width=460, height=220)
        .mark_line(point=True)
        .encode(
            x=altair.X("epoch:Q", scale=altair.Scale(type="log")),
            y=altair.Y("fraction:Q", scale=altair.Scale(domain=[0, 1])),
            color=altair.Color("what:N", title=None, sort=None, legend=altair.Legend(orient="bottom", labelLimit=300)),
        )
    )
    factrank.save_chart(chart, PICTURES / "memorise.svg")


if __name__ == "__main__":
    table()
    memorise()
