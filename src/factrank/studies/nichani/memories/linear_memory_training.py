"""Why d^2 / (N log N) of linear memories changes with d: learning rate, number of steps and precision, one by one.

Figure 1 (left) of the paper shows a line N log N = d^2 / 1.3. With the authors' training (Adam with learning rate 1000,
4,096 steps, tf32 products) our constant rises from 0.9 at d = 8 to 1.5 at d = 181 (study linear-memory), whereas
learning rate 10, 8,192 steps and full float32 together store more (study linear-memory-limit). Which of the three is
responsible? We run a factorial design at d = 64 and 128: every combination of the two rates, step counts and precisions
at 99 % recall, otherwise as in linear-memory, which shares the trials of one of the eight combinations.

The whole study is our extension. With three seeds we measure differences and judge no number. The design was fixed
before the runs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from factrank.experiments.capacity import CapacitySearch
from factrank.experiments.specs import Training, TrainingPrecision
from factrank.experiments.statistics import Claim, Quantity, Summary, Value, Where
from factrank.experiments.study import Chart, Size, Study, no_trials
from factrank.families.memory import MemoryShape
from factrank.studies.nichani.memories.linear_memory import CONSTANT, GUESS, TRAINING
from factrank.studies.nichani.settings import (
    D_MODEL,
    FEW_SEEDS,
    LINEAR_TITLES,
    memory_search,
    n_with,
    on_a_rung,
    source,
)

WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (8,), "full": (64, 128)}
RATES: tuple[float, ...] = (1000.0, 10.0)
STEPS: tuple[int, ...] = (4096, 8192)
PRECISIONS: tuple[TrainingPrecision, ...] = ("tf32", "float32")
"""The authors' setting first, then the alternative."""
RATE, STEP, PRECISION = "training.learning_rate", "training.epochs", "training.precision"


def training(rate: float, steps: int, precision: TrainingPrecision) -> Training:
    """Returns the training of linear-memory with these changes."""
    return Training(
        epochs=steps,
        learning_rate=rate,
        stop=TRAINING.stop,
        stop_at=TRAINING.stop_at,
        check_every=TRAINING.check_every,
        precision=precision,
    )


def searches(size: Size) -> list[CapacitySearch]:
    """Returns one search per width, combination and seed; in the quick size for the first and last combination only."""
    combinations = list(product(RATES, STEPS, PRECISIONS))
    chosen = combinations if size == "full" else [combinations[0], combinations[-1]]
    return [
        named(memory_search(MemoryShape(d_model), seed, training(*combination), guess), combination)
        for d_model, guess in ((one, on_a_rung(n_with(GUESS * one**2))) for one in WIDTHS[size])
        for combination in chosen
        for seed in FEW_SEEDS
    ]


def named(search: CapacitySearch, combination: tuple[float, int, TrainingPrecision]) -> CapacitySearch:
    """Returns the search under a name that tells it from those with other training."""
    return replace(search, name=f"{', '.join(map(str, combination))}, {search.name}")


def _effect(name: str, statement: str, column: str, values: tuple[Value, ...], d_model: int) -> Claim:
    first, second = values

    def mean(value: Value, minus: Quantity | None = None) -> Quantity:
        where: Where = ((D_MODEL, d_model), (column, value))
        others = tuple(one for one in (RATE, STEP, PRECISION) if one != column)
        return Quantity("mean", CONSTANT, within=others, where=where, minus=minus)

    return Claim(
        f"{name} at d = {d_model}",
        f"At d = {d_model}, {statement}.",
        mean(second, mean(first)),
        None,
        place="cf. Figure 1 (left)",
        note="Mean over the four combinations of the other two settings. A smaller constant means more facts. Full "
        "size only.",
        extension=True,
        data="searches",
    )


CHARTS = (
    Chart(
        "constant",
        "d² / (N log N) by learning rate, steps and precision",
        "points",
        x=D_MODEL,
        y=CONSTANT,
        colour=RATE,
        facet=PRECISION,
        y_title="d² / (N log N)",
        data="searches",
    ),
)

SUMMARIES = tuple(
    Summary(
        f"constant-{d_model}",
        f"d² / (N log N) at d = {d_model} by learning rate, steps and precision (published: 1.3)",
        (("d² / (N log N)", Quantity("mean", CONSTANT, where=((D_MODEL, d_model),))),),
        over=(RATE, STEP, PRECISION),
        data="searches",
    )
    for d_model in (*WIDTHS["quick"], *WIDTHS["full"])
)

EFFECTS: dict[str, tuple[str, str, tuple[Value, ...]]] = {
    "the learning rate": ("by how much 10 in the place of 1000 changes d² / (N log N)", RATE, RATES),
    "the steps": ("by how much 8,192 steps in the place of 4,096 change d² / (N log N)", STEP, STEPS),
    "the precision": ("by how much float32 in the place of tf32 changes d² / (N log N)", PRECISION, PRECISIONS),
}
CLAIMS = tuple(_effect(name, *effect, d_model) for d_model in WIDTHS["full"] for name, effect in EFFECTS.items())

LINEAR_MEMORY_TRAINING = Study(
    name="linear-memory-training",
    title="Linear memories: learning rate, steps and precision",
    source=source("Figure 1 (left)"),
    question="The constant of N log N = d² / 1.3 changes with d. Is that due to the learning rate, the number of "
    "steps or the precision of training?",
    method="As in linear-memory, for every combination of learning rate (1000 or 10), number of steps (4,096 or "
    "8,192) and precision of products (tf32 or float32).",
    trials=no_trials,
    searches=searches,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=LINEAR_TITLES,
)
