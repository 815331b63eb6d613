"""Scenes: commands that run one after the other in a folder, and the files that are in it at the start.

In a command ~ is a space inside a word, and ROOT the folder of the project.
"""

from __future__ import annotations

import numpy as np

COMMANDS = (
    "",
    "measure",
    "train",
    "construct",
    "solve",
    "edit",
    "verify",
    "recall",
    "ranking",
    "examine",
    "ask",
    "explore",
    "assumptions",
    "audit",
    "extract",
    "samples",
    "generate",
    "convert",
    "split",
    "ls",
    "app",
    "study",
    "study new",
    "study list",
    "study show",
    "study run",
    "study report",
    "study publish",
    "study restore",
    "study export",
)

FILES = {
    "facts.csv": "key,query,value\nOslo,country,Norway\nLima,country,Peru\nOslo,river,Akerselva\n",
    "wide.csv": "city,country,river\nOslo,Norway,Akerselva\nLima,Peru,\n",
    "several.csv": "a,q,x\na,q,y\nb,q,x\n",
    "broken.csv": "key,query,value\nOslo,country\n",
    "changes.csv": "Oslo,country,Peru\nLima,country,\n",
    "broken.yaml": "name: tiny\ndata: {generator: uniform}\nmodle: {}\n",
    "tiny.yaml": """\
name: tiny
title: Does a wider value-output circuit hold more facts?
question: How does recall change with d_vo?
data: {generator: uniform, n_keys: 6, n_queries: 3, n_values: 5, seed: $seed}
model: {d_model: 4, n_heads: 1, d_qk: 2, d_vo: 2}
training: {epochs: 200}
seeds: 3
grid:
  model.d_vo: [1, 2]
quick: {seeds: 2, training.epochs: 50}
charts:
  - {name: recall, title: Recall by width, kind: lines, x: model.d_vo, y: recall}
claims:
  - name: rises
    statement: Recall rises with d_vo.
    quantity: {kind: slope, column: recall, against: model.d_vo}
    published: rises
    place: Figure 4
summaries:
  - name: means
    title: Mean recall by width
    quantities: {recall: {kind: mean, column: recall}}
    over: [model.d_vo]
""",
}


def ARRAYS() -> dict[str, np.ndarray]:  # noqa: N802 - like FILES, drawn when asked for
    """The vectors that are in the folder."""
    contexts = np.random.default_rng(0).normal(size=(6, 3, 5))
    contexts[2, 2] = 2 * contexts[2, 1]
    return {"contexts.npy": contexts, "vectors.npy": np.vander(np.linspace(-1, 1, 6), 4)}


SAMPLES = ("sample:astrid", "sample:elements", "sample:countries")
LAYER = "--d-model 4 --heads 1 --d-qk 2 --d-vo 2"

SCENES: dict[str, list[str]] = {
    "version": ["--version", "", "study"],
    "databases": [
        "samples",
        "generate uniform --keys 4 --queries 2 --values 3 --seed 1 -o uniform.csv",
        "generate boxes --box 2x1 --box 1x3 -o boxes.jsonl",
        "generate overlapping-boxes --keys 6 --queries 5 --rank 3 -o overlapping.csv",
        "convert uniform.csv uniform.tsv",
        "convert sample:astrid wide.csv --write-wide",
        "convert sample:elements elements.parquet",
        "convert facts.csv facts.nt",
        "measure uniform.tsv --budget 0",
        "measure facts.nt --budget 0",
        "measure elements.parquet --budget 0 --json",
    ],
    "measure": [
        *(f"measure {name} --budget 0" for name in SAMPLES),
        *(f"measure {name} --budget 0 --json" for name in SAMPLES),
        "measure sample:astrid",
        "measure sample:astrid --json",
        "measure sample:astrid --explain --budget 0",
        "measure facts.csv --explain",
        "measure wide.csv --wide --explain",
        "measure several.csv --no-header --multi --budget 0",
        "measure - --budget 0",
    ],
    "construct": [
        "construct sample:astrid -o astrid.safetensors",
        "construct sample:astrid --json --budget 0",
        "construct facts.csv -o facts.safetensors --precision bfloat16",
        "construct facts.csv --maximise margin --budget 0",
        "construct facts.csv --minimise bits --budget 0 --json",
        "construct facts.csv --only digits --budget 0",
        "construct facts.csv --share-tokens --budget 0",
        "construct several.csv --no-header --multi --budget 0",
        "verify astrid.safetensors",
        "verify astrid.safetensors --json",
        "verify facts.safetensors facts.csv",
        "verify facts.safetensors wide.csv --wide",
        "recall astrid.safetensors sample:astrid",
        "recall astrid.safetensors sample:astrid --json --tau 0.5",
        "ranking astrid.safetensors sample:astrid",
        "ask astrid.safetensors Astrid born_in",
        "ask astrid.safetensors Astrid currency --json",
        "ask astrid.safetensors Astird born_in",
        "edit astrid.safetensors --set Astrid born_in Dollar --delete Bernard born_in",
        "edit astrid.safetensors --set Nobody born_in Nowhere --json",
        "edit astrid.safetensors --set Astrid colour red",
        "edit facts.safetensors --from changes.csv --no-header",
        "verify astrid.safetensors",
        "verify facts.safetensors facts.csv",
    ],
    "abstain": [
        "construct facts.csv --abstain unknown --only parabola --budget 0 -o silent.safetensors",
        "construct facts.csv --tau 0.9 --only parabola --budget 0 --json",
        "verify silent.safetensors facts.csv",
        "ask silent.safetensors Lima river",
        "recall silent.safetensors facts.csv",
        "edit silent.safetensors --delete Oslo river",
    ],
    "construct samples": [
        "construct sample:elements --budget 0 -o elements.safetensors",
        "construct sample:countries --budget 0 -o countries.safetensors",
        "verify countries.safetensors",
        "edit countries.safetensors --set Norway capital Bergen",
        "ask countries.safetensors Norway capital",
        "recall elements.safetensors sample:elements",
    ],
    "train": [
        f"train sample:astrid {LAYER} -o layer.safetensors",
        f"train sample:astrid {LAYER} --seeds 2 --epochs 50 --json --stop never",
        f"train sample:astrid {LAYER} --seeds 2 --epochs 20 --engine lanes",
        "train facts.csv --epochs 30 --seeds 1 --batch-size 2 --weight-decay 0.1",
        "recall layer.safetensors sample:astrid",
        "recall layer.safetensors sample:astrid --json",
        "ask layer.safetensors Astrid currency",
        "ask layer.safetensors Astrid currency --json",
        "verify layer.safetensors sample:astrid",
        "verify layer.safetensors --json",
        "edit layer.safetensors --set Astrid born_in Dollar",
    ],
    "assumptions": [
        "assumptions contexts.npy",
        "assumptions contexts.npy --json --subsets 50",
        "assumptions vectors.npy --context-size 3",
        "assumptions random:bert --subsets 50",
        "assumptions random:gpt2 --stage positions --subsets 50 --examples 40",
        "assumptions random:vit --subsets 50 --examples 40 --json",
    ],
    "catalogue": [
        "study list",
        "study show wong2025",
        "study show nichani2025",
        "study show mahdavi2024",
        "study show tiny.yaml",
    ],
    "study": [
        "study run tiny.yaml --dry-run",
        "study run tiny.yaml --store store",
        "study run tiny.yaml --store store",
        "study report tiny.yaml --store store -o report.html",
        "study export trials.csv --store store",
        "study publish tiny.yaml published --quick --store store",
        "study publish tiny.yaml published --quick --check",
        "study restore tiny.yaml published --store other",
        "study run epochs-to-recall --dry-run",
        "study run artifacts --dry-run --full",
    ],
    "published wong2025": ["study publish wong2025 ROOT/reproductions/wong2025 --check"],
    "published nichani2025": ["study publish nichani2025 ROOT/reproductions/nichani2025 --check"],
    "published mahdavi2024": ["study publish mahdavi2024 ROOT/reproductions/mahdavi2024 --check"],
    "mistakes": [
        "nonsense",
        "measure",
        "measure missing.csv",
        "measure sample:astird",
        "measure broken.csv",
        "measure several.csv --no-header",
        "measure facts.csv --budget -1",
        "measure facts.csv --long key query colour",
        "generate uniform -o uniform.csv",
        "generate nonsense -o facts.csv",
        "convert facts.csv facts.xyz",
        "ask missing.safetensors a b",
        "verify facts.csv",
        "recall facts.csv sample:astrid",
        "construct several.csv --no-header --only nonsense",
        "train facts.csv --epochs -1",
        "train facts.csv --engine fast",
        "edit missing.safetensors --set a b c",
        "edit missing.safetensors",
        "assumptions missing.npy",
        "assumptions random:llama",
        "study show nonsense",
        "study show vo-against-kq",
        "study run broken.yaml",
        "study report tiny.yaml --store nowhere",
        "study report wong2025 -o report.html",
        "study publish wong2025 nowhere --check",
    ],
}

SLOW_TO_COMPILE = ("train", "construct", "abstain", "construct samples", "assumptions", "study")
"""Scenes that print numbers of compiled programs."""
