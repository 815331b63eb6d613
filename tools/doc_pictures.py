"""Draw the charts of docs/pictures, from fixed seeds or published tables; explorer_picture.py draws the explorer.

python tools/doc_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import altair
import polars

import factrank
from factrank import Hallucinations, LayerShape, TauRecall, Training

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
SHAPE = LayerShape(d_model=16, n_heads=2, d_qk=8, d_vo=8)
MODELS = {"smollm2-135m": "SmolLM2-135M", "gemma-3-270m": "Gemma-3-270M", "minilm": "MiniLM-L6"}
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


def atlas() -> None:
    """Draw the bits that layers of the atlas store, by the bits of the table and the number of heads."""
    cells = polars.read_parquet(ROOT / "reproductions" / "atlas" / "cells.parquet")
    layers = polars.col("recall_count")
    rows = (
        cells.filter(polars.col("part").eq("main") & polars.col("kind").eq("uniform"))
        .group_by("n_heads", "load")
        .agg((polars.col("held_mean") * layers).sum() / layers.sum(), layers=layers.sum())
        .filter(polars.col("layers") >= 100)
        .with_columns(polars.col("load") * 2**0.125)  # a cell is a quarter of an octave, named by its lower end
        .sort("n_heads", "load")
    )
    heads = {1: "1", 2: "2 to 3", 4: "4 to 7", 8: "8 to 15", 16: "16"}
    values = [{**row, "heads": heads[row["n_heads"]]} for row in rows.to_dicts()]
    x = altair.X("load:Q", title="bits of the table per parameter").scale(domain=[0, 4])
    y = altair.Y("held_mean:Q", title="stored bits per parameter").scale(domain=[0, 2.2])
    color = altair.Color("heads:O", title="heads", sort=list(heads.values())).scale(scheme="viridis")
    lines = (
        altair.Chart(altair.Data(values=values), width=460, height=240)
        .mark_line(clip=True)
        .encode(x=x, y=y, color=color)
    )
    everything = altair.Chart(altair.Data(values=[{"load": 0, "held_mean": 0}, {"load": 2.2, "held_mean": 2.2}]))
    chart = everything.mark_line(color="#888", strokeDash=[4, 4]).encode(x=x, y=y) + lines
    factrank.save_chart(chart, PICTURES / "atlas.svg")


def audit() -> None:
    """Draw the effective ranks of the two circuits of every audited head."""
    heads = polars.read_csv(ROOT / "reproductions" / "audit" / "heads.csv")
    heads = heads.filter(polars.col("fold").eq("norm") & polars.col("level").eq("head"))
    wide = heads.pivot("circuit", index=["model", "layer", "number"], values="effective_rank")
    panels = []
    for model, name in MODELS.items():
        own = wide.filter(polars.col("model") == model)
        ends = [{"QK": end, "OV": end} for end in (0, heads.filter(polars.col("model") == model)["rank"].max())]
        x = altair.X("OV:Q", title="effective rank of OV").scale(domainMax=ends[1]["OV"], nice=False)
        y = altair.Y("QK:Q", title="effective rank of QK").scale(domainMax=ends[1]["QK"], nice=False)
        dots = altair.Chart(altair.Data(values=own.to_dicts()), title=name, width=170, height=170)
        diagonal = altair.Chart(altair.Data(values=ends)).mark_line(color="#888", strokeDash=[4, 4])
        panels.append(dots.mark_circle(size=18, opacity=0.6).encode(x=x, y=y) + diagonal.encode(x=x, y=y))
    factrank.save_chart(altair.hconcat(*panels), PICTURES / "audit.svg")


if __name__ == "__main__":
    table()
    memorise()
    atlas()
    audit()
