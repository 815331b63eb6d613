"""The smallest certified layers of public knowledge graphs: closed forms against trained layers, in one run.

Nations, Kinships and UMLS are read from PyKEEN, installed or as a folder of `NAME/{train,valid,test}.txt`. Every layer
is checked by code of its own, on every fact and every pair: in float32 and float64, each in three orders of summation.

    python benchmarks/certified_graphs.py FOLDER --budget 60 [--graph NAME] [--layer logits]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import factrank
from factrank import Constructed, Database, FactrankError

GRAPHS = {
    "nations": ("Nations", (0, 1, 2), 9_000),
    "umls": ("UMLS", (0, 1, 2), 17_000),
    "kinships": ("Kinships, (head, tail)", (0, 2, 1), 12_000),
}
"""Folder, name, which columns of a triple are key, query and value, and the size that the layer should reach."""

TAU = 0.95


def facts_of(folder: Path, columns: tuple[int, int, int]) -> Database:
    """Return all triples of a graph, of all its parts."""
    lines = {line for part in ("train", "valid", "test") for line in (folder / f"{part}.txt").read_text().splitlines()}
    rows = sorted(line.split("\t") for line in lines if line)
    return Database.from_facts([tuple(row[at] for at in columns) for row in rows], multi=True)


def logits_of(layer: Any, kind: type) -> Iterator[np.ndarray]:
    """Yield the logits of every pair: head by head; all heads at once; heads from the last, unembedded one by one."""
    parts = {name: np.asarray(getattr(layer, name)).astype(kind) for name in ("w_q", "w_k", "w_v", "w_o")}
    embedding, unembedding = (np.asarray(part).astype(kind) for part in (layer.embedding, layer.unembedding))
    keys, queries = embedding[: layer.n_keys], embedding[layer.n_keys :]
    scale = kind(1 / np.sqrt(parts["w_q"].shape[2]))
    outputs, weights = [], []
    for w_q, w_k, w_v, w_o in zip(*parts.values(), strict=True):
        at = (queries @ w_q) * scale
        difference = (keys @ w_k) @ at.T - ((queries @ w_k) * at).sum(axis=1)
        with np.errstate(over="ignore"):
            weights.append((1 / (1 + np.exp(-difference)))[..., None])
        outputs.append((keys @ w_v @ w_o, queries @ w_v @ w_o))
    heads = [w * at_key[:, None] + (1 - w) * at_query for w, (at_key, at_query) in zip(weights, outputs, strict=True)]
    stream = np.repeat(queries[None], len(keys), axis=0)
    for head in heads:
        stream = stream + head
    yield stream @ unembedding
    yield (np.stack([*heads, np.broadcast_to(queries, stream.shape)]).sum(axis=0)) @ unembedding
    total = np.zeros((*stream.shape[:2], unembedding.shape[1]), dtype=kind)
    for head in reversed(heads):
        total = total + head[..., ::-1] @ unembedding[::-1]
    yield total + queries @ unembedding


def checked(found: Constructed) -> str:
    """Check every fact and every other pair by code of its own; returns what is wrong, or an empty string."""
    table, claim = found.data, found.certificate.confidence
    belongs = np.zeros(table.shape, dtype=bool)
    belongs[tuple(table.triples.T)] = True
    has_fact = belongs.any(axis=2)
    if found.reserved is not None:
        belongs[~has_fact, table.values.index(found.reserved)] = True
        has_fact[:] = True
    for kind in (np.float32, np.float64):
        for number, logits in enumerate(logits_of(found.model, kind)):
            lead = np.where(belongs, logits, np.inf).min(axis=2) - np.where(belongs, -np.inf, logits).max(axis=2)
            n_wrong = int((has_fact & ~(lead > 0)).sum())
            if n_wrong:
                return f"{n_wrong} pairs wrong in {kind.__name__}, order {number}"
            if claim is not None:
                powers = np.exp(logits - logits.max(axis=2, keepdims=True))
                mass = (np.where(belongs, powers, 0).sum(axis=2) / powers.sum(axis=2))[has_fact].min()
                if mass < claim.claim.tau:
                    return f"probability {mass} in {kind.__name__}, order {number}"
    return ""


def main() -> None:
    """Print one line for every layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder of the graphs; by default those of an installed pykeen")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of search for each layer")
    parser.add_argument("--layer", action="append", help="only layers whose description begins with this")
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="only this graph")
    given = parser.parse_args()
    installed = importlib.util.find_spec("pykeen") if given.folder is None else None
    if given.folder is None and (installed is None or installed.origin is None):
        parser.error("name the folder of the graphs, or install pykeen")
    folder = Path(given.folder) if given.folder else Path(str(installed.origin)).parent / "datasets"  # type: ignore[union-attr]
    asked: dict[str, dict[str, Any]] = {
        "without search": {"budget": 0.0},
        "closed form, 5 s": {},
        "logits": {"only": "logits", "budget": given.budget},
        f"logits, tau {TAU}": {"only": "logits", "budget": given.budget, "tau": TAU},
        f"logits, abstains, tau {TAU}": {"only": "logits", "budget": given.budget, "abstain": "unknown"},
        "trained": {"method": "trained", "budget": given.budget},
        f"trained, tau {TAU}": {"method": "trained", "budget": given.budget, "tau": TAU},
        f"trained, abstains, tau {TAU}": {"method": "trained", "budget": given.budget, "abstain": "unknown"},
    }
    print(f"{'graph':24}{'layer':30}{'parameters':>11}{'least margin':>14}{'proved p':>10}{'seconds':>9}  check")
    for name in given.graph or GRAPHS:
        title, columns, aim = GRAPHS[name]
        table = facts_of(folder / name, columns)
        for words, options in asked.items():
            if given.layer and not words.startswith(tuple(given.layer)):
                continue
            started = time.perf_counter()
            try:
                found = factrank.construct(table, **options)
            except FactrankError as error:
                print(f"{title:24}{words:30} {error}", flush=True)
                continue
            seconds = time.perf_counter() - started
            claim = found.certificate.confidence
            proved = "" if claim is None else f"{claim.proved_probability:.4f}"
            wrong = checked(found) or ("certified" if found.certified else f"NOT CERTIFIED {found.certificate.reason}")
            searched = "trained" in words or "logits" in words
            if searched and "abstains" not in words and found.parameters > aim:
                wrong += f", MORE THAN {aim:,}"
            print(
                f"{title:24}{words:30}{found.parameters:11,}{found.certificate.margin:14.3g}{proved:>10}{seconds:9.1f}"
                f"  {wrong}",
                flush=True,
            )


if __name__ == "__main__":
    main()
