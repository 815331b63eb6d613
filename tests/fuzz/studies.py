"""Hostile studies: YAML with any entry changed, and YAML that is none."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from random import Random

from ruamel.yaml import YAML

from fuzz.hostile import changed_bytes, changed_plain, written

STUDY = {
    "name": "width",
    "title": "Does a wider value-output circuit hold more facts?",
    "question": "How does recall change with d_vo?",
    "data": {"generator": "uniform", "n_keys": 20, "n_queries": 10, "n_values": 20, "seed": "$seed"},
    "model": {"d_model": 8, "n_heads": 1, "d_qk": 2, "d_vo": 2},
    "training": {"epochs": 20, "learning_rate": 0.01},
    "measures": {"tau_recall": {"taus": [0.5, 0.95]}, "curve": {"epochs": [0, 10]}, "hallucinations": True},
    "start": "drawn",
    "seeds": 2,
    "grid": {"model.d_vo": [1, 2, 4]},
    "quick": {"seeds": 1, "training.epochs": 10},
    "charts": [{"name": "recall", "title": "Recall", "kind": "lines", "x": "model.d_vo", "y": "recall"}],
    "claims": [
        {
            "name": "rises",
            "statement": "Recall rises with d_vo.",
            "quantity": {"kind": "slope", "column": "recall", "against": "model.d_vo"},
            "published": "rises",
            "place": "Figure 4",
        }
    ],
    "summaries": [
        {
            "name": "means",
            "title": "Mean recall",
            "quantities": {"recall": {"kind": "mean", "column": "recall"}},
            "over": ["model.d_vo"],
        }
    ],
}
DATA = [
    {"file": "facts.csv", "header": False},
    {"file": "facts.csv", "delimiter": ";", "missing": ["NA"]},
    {"sample": "astrid"},
    {"generator": "zipf", "n_keys": 5, "n_queries": 2, "n_values": 5, "exponent": 1.0, "n_facts": 4, "seed": 0},
]
MEMORY = {
    "data": {"generator": "associations", "n_inputs": 6, "n_outputs": 6, "key_exponent": 0.5, "seed": "$seed"},
    "model": {"kind": "memory", "d_model": 4},
    "measures": {"frequency_groups": {"groups": 2}},
    "start": "zero",
    "grid": {"start": ["drawn", "two-sided"]},
}
TEXTS = [
    b"a: &a [*a]",
    b"!!python/object/apply:os.system [ls]",
    b"? [1]\n: 2",
    b"a: 1\na: 2",
    b"- " * 2_000,
    b"{" * 500,
]


def make(random: Random, folder: Path) -> list[str]:
    """A study, and a command that reads it."""
    (folder / "facts.csv").write_text("a,q,1\nb,q,2\n")
    other = random.choice([{"data": random.choice(DATA)}, MEMORY])
    plain = {**STUDY, **other} if random.random() < 0.4 else STUDY
    for _ in range(random.choice([1, 1, 2, 3])):
        plain = changed_plain(random, plain)
    yaml, stream = YAML(typ="safe", pure=True), StringIO()
    yaml.allow_unicode = random.random() < 0.5
    yaml.dump(plain, stream)
    content = written(stream.getvalue())
    draw = random.random()
    if draw < 0.15:
        content = changed_bytes(random, content)
    elif draw < 0.2:
        content = random.choice(TEXTS)
    path = folder / "study.yaml"
    path.write_bytes(content)
    if random.random() < 0.5:
        return ["study", "show", str(path)]
    return ["study", "run", str(path), "--dry-run", "--store", str(folder / "store")]
