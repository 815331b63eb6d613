"""Shared settings of the Nichani 2025 studies: source, training of memories, capacity searches.

Settings follow the authors' public scripts where we know them, with two differences. Both ends of every capacity
interval were run, and a size is judged by its final state over all its facts; the scripts bisect down to a size that
they never run and take the best of all checkpoints. Memories are trained with tf32 products, the default of JAX, the
authors' library, on GPUs that support it; recall is always measured in full float32.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor, log2

from scipy.special import lambertw

from factrank.experiments.capacity import CapacitySearch, Criterion
from factrank.experiments.specs import DRAWN, Training, Trial, generated
from factrank.experiments.study import Size, Source
from factrank.families.memory import MemoryShape

PAPER = "Nichani, Lee, Bietti 2025, Understanding Factual Recall in Transformers via Associative Memories"
LINK = "https://arxiv.org/abs/2412.06538"


def source(figure: str) -> Source:
    """Returns the paper as a source, at one of its figures or statements."""
    return Source(PAPER, figure, LINK)


SEEDS: dict[Size, range] = {"quick": range(3), "full": range(12)}
FEW_SEEDS = range(3)
"""For the largest shapes of the full size, which claims about numbers exclude."""

MOST_RIGHT = 0.99
"""The fraction of facts that the authors require."""
MOST_FACTS = Criterion("recall", MOST_RIGHT)

# ---------------------------------------------------------------- columns and what they are called

D_MODEL, WIDTH, START = "model.d_model", "model.width", "start"
FACTS, N_LOG_N = "lower", "lower * log_lower"
"""The largest size that met the criterion, alone and times its natural logarithm."""
PRODUCT, RATIO = f"{WIDTH} * {D_MODEL}", f"{WIDTH} / {D_MODEL}"
"""m d and m / d of MLP memories."""
LINEAR_TITLES = {FACTS: "facts N", D_MODEL: "embedding width d"}
MLP_TITLES = {FACTS: "facts N", PRODUCT: "hidden units × embedding width, m d"}
"""Axis titles for linear and MLP memories, in the notation of the paper."""


# ---------------------------------------------------------------- memories

_MLP = Training(epochs=32_768, learning_rate=0.03, stop="recall", stop_at=MOST_RIGHT, check_every=256, precision="tf32")
MLP_TRAINING: dict[Size, Training] = {"quick": replace(_MLP, epochs=8_192), "full": _MLP}
"""As in the authors' script, with a quarter of the steps in the quick size."""


def memory_trial(
    n_inputs: int, shape: MemoryShape, seed: int, training: Training, n_outputs: int | None = None, start: str = DRAWN
) -> Trial:
    """Returns a trial of a memory: an injection into as many outputs, or a random function into `n_outputs`."""
    kind = "injective" if n_outputs is None else "random"
    facts = generated("associations", n_inputs=n_inputs, n_outputs=n_outputs or n_inputs, kind=kind, seed=seed)
    return Trial(facts, shape, training, start=start, seed=seed)


def memory_search(
    shape: MemoryShape,
    seed: int,
    training: Training,
    guess: int,
    *,
    n_outputs: int | None = None,
    criterion: Criterion = MOST_FACTS,
    start: str = DRAWN,
) -> CapacitySearch:
    """Returns the search for the largest N of a memory, to about 6 %; each N and seed has new embeddings and facts."""
    width = "" if shape.width is None else f", m {shape.width}"
    form = "" if training.epochs else f"{start}, "
    return CapacitySearch(
        f"{form}d {shape.d_model}{width}, seed {seed}",
        lambda size: [memory_trial(size, shape, seed, training, n_outputs, start)],
        guess=guess,
        criterion=criterion,
        probes=3,
        resolution=1.06,
    )


def on_a_rung(size: float) -> int:
    """Returns the largest power of 2^(1/4) up to this size, rounded, so that searches compile few different shapes.

    >>> [on_a_rung(size) for size in (8.0, 9.4, 9.6, 100.0)]
    [8, 8, 10, 91]
    """
    return max(2, round(2 ** (floor(4 * log2(max(size, 2)) + 1e-9) / 4)))


def n_with(n_log_n: float) -> float:
    """Returns the N with this N log N (natural logarithm).

    >>> round(n_with(100 * 4.60517), 3)
    100.0
    """
    return float(n_log_n / lambertw(n_log_n).real)
