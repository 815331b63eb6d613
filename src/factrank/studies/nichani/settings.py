"""What the studies of this paper share: where they come from, how memories are trained, how capacities are searched.

Settings are those of the authors' public scripts where we know them. What we do otherwise in all of them: every size
that bounds a capacity was run, and a size counts by its last state, over all of its facts (the scripts bisect down to a
size that they never run, and take the best of all checkpoints). Memories are trained with products in tf32, which is
what JAX, the authors' library, does by default on GPUs that have it; recall is always measured in full float32.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor, log2

from scipy.special import lambertw

from factrank.experiments.capacity import CapacitySearch, Criterion
from factrank.experiments.specs import Training, Trial, generated
from factrank.experiments.study import Size, Source
from factrank.families.memory import MemoryShape

PAPER = "Nichani, Lee, Bietti 2025, Understanding Factual Recall in Transformers via Associative Memories"
LINK = "https://arxiv.org/abs/2412.06538"


def source(figure: str) -> Source:
    """The paper, at one of its figures or statements."""
    return Source(PAPER, figure, LINK)


SEEDS: dict[Size, range] = {"quick": range(3), "full": range(12)}
FEW_SEEDS = range(3)
"""For the largest sizes of the full size, which claims about numbers leave out."""

MOST_RIGHT = 0.99
"""The share of facts that the authors ask for."""
MOST_FACTS = Criterion("recall", MOST_RIGHT)

# ---------------------------------------------------------------- columns and what they are called

D_MODEL, WIDTH, START = "model.d_model", "model.width", "model.start"
FACTS, N_LOG_N = "lower", "lower * log_lower"
"""The largest size that met the criterion, and with its natural logarithm."""
PRODUCT, RATIO = f"{WIDTH} * {D_MODEL}", f"{WIDTH} / {D_MODEL}"
"""m d and m / d of MLP memories."""
LINEAR_TITLES = {FACTS: "facts N", D_MODEL: "embedding width d"}
MLP_TITLES = {FACTS: "facts N", PRODUCT: "hidden units × embedding width, m d"}
"""What axes call columns of linear and of MLP memories, in the notation of the paper."""


# ---------------------------------------------------------------- memories

_MLP = Training(epochs=32_768, learning_rate=0.03, stop="recall", stop_at=MOST_RIGHT, check_every=256, precision="tf32")
MLP_TRAINING: dict[Size, Training] = {"quick": replace(_MLP, epochs=8_192), "full": _MLP}
"""As in the authors' script; a quarter of the steps in the quick size."""


def memory_trial(
    n_inputs: int, shape: MemoryShape, seed: int, training: Training, n_outputs: int | None = None
) -> Trial:
    """A memory and its facts: an injection into as many outputs, or a random function into `n_outputs`."""
    kind = "injective" if n_outputs is None else "random"
    facts = generated("associations", n_inputs=n_inputs, n_outputs=n_outputs or n_inputs, kind=kind, seed=seed)
    return Trial(facts, shape, training, seed=seed)


def memory_search(
    shape: MemoryShape,
    seed: int,
    training: Training,
    guess: int,
    *,
    n_outputs: int | None = None,
    criterion: Criterion = MOST_FACTS,
) -> CapacitySearch:
    """The largest N of a memory of this shape, to 6 % or so; new embeddings and facts for every N and seed."""
    width = "" if shape.width is None else f", m {shape.width}"
    start = "" if training.epochs else f"{shape.start}, "
    return CapacitySearch(
        f"{start}d {shape.d_model}{width}, seed {seed}",
        lambda size: [memory_trial(size, shape, seed, training, n_outputs)],
        guess=guess,
        criterion=criterion,
        probes=3,
        resolution=1.06,
    )


def on_a_rung(size: float) -> int:
    """The greatest power of 2^(1/4) up to this size, rounded: searches from there meet few shapes to be compiled.

    >>> [on_a_rung(size) for size in (8.0, 9.4, 9.6, 100.0)]
    [8, 8, 10, 91]
    """
    return max(2, round(2 ** (floor(4 * log2(max(size, 2)) + 1e-9) / 4)))


def n_with(n_log_n: float) -> float:
    """The N whose N log N (natural logarithm) is this.

    >>> round(n_with(100 * 4.60517), 3)
    100.0
    """
    return float(n_log_n / lambertw(n_log_n).real)
