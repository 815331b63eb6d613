"""The files that `factrank study new` writes: studies that run as they are, with comments for whoever changes them."""

from __future__ import annotations

YAML = """\
# A study: its trials, charts and claims. Nothing in this file is executed.
#
#   factrank study run {file} --dry-run    how many trials, how long
#   factrank study run {file}              the quick size
#   factrank study run {file} --full       the full size

name: {name}
title: Does a wider value-output circuit hold more facts?
question: How does recall change with d_vo?

# The facts: a generator with its arguments (factrank ls generators), a file of yours ({{file: facts.csv}}),
# or a sample ({{sample: astrid}}). $seed is the seed of the trial.
data: {{generator: uniform, n_keys: 20, n_queries: 5, n_values: 20, seed: $seed}}

# The sizes of the attention layer. Other models have a kind (factrank ls families).
model: {{d_model: 8, n_heads: 1, d_qk: 2, d_vo: 2}}

training: {{epochs: 2000, learning_rate: 1e-2}}

# The trials: every combination of these values, with every seed.
grid:
  model.d_vo: [1, 2, 4, 8]
seeds: 10

# What is different in the quick size.
quick: {{seeds: 3, training.epochs: 200}}

# Charts and claims name columns of the results: settings such as model.d_vo, and what was measured, such as recall,
# margin or epochs.
charts:
  - {{name: recall, title: Recall by width, kind: lines, x: model.d_vo, y: recall}}

# A claim is a sentence that the trials confirm or refute. `published` is rises, falls, a number, or null if nothing
# comparable was published.
claims:
  - name: rises
    statement: Recall rises with d_vo.
    quantity: {{kind: slope, column: recall, against: model.d_vo}}
    published: rises
"""

PYTHON = '''\
"""A study: its trials, charts and claims.

    factrank study run --python {file} --dry-run    how many trials, how long
    factrank study run --python {file}              the quick size; this runs the file
    factrank study run --python {file} --full       the full size
"""

from random import Random

from factrank import Chart, Claim, LayerShape, Quantity, Study, Training, Trial, generated, generator


@generator
def fair_dice(n_players: int, n_rolls: int, sides: int, seed: int):
    """A generator of your own; `factrank ls generators` lists the others."""
    dice = Random(seed)
    return [
        (f"player {{player}}", f"roll {{roll}}", dice.randint(1, sides))
        for player in range(n_players)
        for roll in range(n_rolls)
    ]


def trials(size):
    """The trials of a size, "quick" or "full". The results of a trial are kept: it never runs twice."""
    n_seeds, epochs = (3, 200) if size == "quick" else (10, 2000)
    return [
        Trial(
            generated("fair-dice", n_players=20, n_rolls=5, sides=20, seed=seed),
            LayerShape(d_model=8, n_heads=1, d_qk=2, d_vo=d_vo),
            Training(epochs=epochs),
            seed=seed,
        )
        for d_vo in (1, 2, 4, 8)
        for seed in range(n_seeds)
    ]


# Charts and claims name columns of the results: settings such as model.d_vo, and what was measured, such as recall,
# margin or epochs. A claim is a sentence that the trials confirm or refute.
STUDY = Study(
    name="{name}",
    title="Does a wider value-output circuit hold more facts?",
    source=None,
    question="How does recall change with d_vo?",
    method="Layers are trained on rolls of dice.",
    trials=trials,
    charts=(Chart("recall", "Recall by width", "lines", x="model.d_vo", y="recall"),),
    claims=(
        Claim("rises", "Recall rises with d_vo.", Quantity("slope", "recall", "model.d_vo"), published="rises"),
    ),
)
'''

TEMPLATES = {".yaml": YAML, ".yml": YAML, ".py": PYTHON}
"""The templates by the suffix of the file; {name} is the name of the study and {file} that of the file."""
