"""Shared settings of the language studies: models, facts, training, column names.

Facts are a phone book: names of three words, ten random digits each, 33.2 bits a person, in a vocabulary small enough
that embeddings are few of the parameters. All splits d_qk + d_vo of a head have the same number of parameters. Scores
are divided by sqrt(d_qk), initial weights are those of `init_language_model`, and training is Adam with 5 % warm-up and
a cosine. An epoch is a step on one batch of records.

Every study exists on two grids: `SMALL`, models of 28,544 parameters, which one core trains in about two hours, and
`LARGE`, models of 0.35 million parameters for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from factrank.experiments.specs import Curve, Training, TrainingPrecision, generated
from factrank.experiments.statistics import Quantity, Where
from factrank.experiments.study import Size, Source
from factrank.families.language import SAMPLE_TEXT, InContextRecall, LanguageShape, Sentences, TextFile
from factrank.studies.parts import mean_difference

PAPER = "Wong 2025, Paying Attention to Facts: Quantifying the Knowledge Capacity of Attention Layers"
LINK = "https://arxiv.org/abs/2502.05076"
QUESTION = "Do rank-based capacity findings generalise to language models trained on diverse tasks?"
HARM = "Reducing d_head,qk may harm tasks requiring complex attention patterns."


def source(place: str) -> Source:
    """Return the paper as a source, at one of its statements."""
    return Source(PAPER, place, LINK)


D_QK, D_VO, MLP_WIDTH, N_HEADS, N_LAYERS = (
    "model.d_qk",
    "model.d_vo",
    "model.mlp_width",
    "model.n_heads",
    "model.n_layers",
)
HEADS_PER_LAYER = f"{N_HEADS} / {N_LAYERS}"
"""Tells a deeper model from the others."""
EQUAL_WIDTHS = (f"{D_QK} - {D_VO}", 0)
"""Rows of models in which both widths are half of the head."""
N_PEOPLE = "data.n_people"
STORED, RECALLED = "stored_bits_per_parameter", "bits_per_parameter"
STORED_INNER = "stored_bits_per_inner_parameter"

SEEDS = (0, 1, 2, 3)
"""Four, because bundles of lanes have a power of two: a fourth seed costs nothing."""
TUNING_SEEDS = (100,)
COUNTED = (("seed", SEEDS),)
"""Rows that claims and charts use: not the tuning seeds."""
RATE = 3e-3
"""Of studies that do not tune it."""

VARIANTS = ("none", "equal total", "equal attention", "deeper")
"""Models of a scale: without an MLP; half of the heads and as many parameters in an MLP; all heads and the same MLP;
half of the heads in twice as many layers."""


@dataclass(frozen=True)
class Scale:
    """Sizes of a model without an MLP, its facts, and how long they are trained."""

    d_model: int
    n_heads: int
    n_layers: int
    head: int
    names: int
    digits: int
    exposures: int
    batch_size: int
    precision: TrainingPrecision

    def shape(self, d_qk: int, variant: str = "none", d_vo: int | None = None) -> LanguageShape:
        """Return a model with this split, one of `VARIANTS`; `d_vo` is the rest of the head if it is not given."""
        half = self.n_heads // 2
        heads = half if variant in ("equal total", "deeper") else self.n_heads
        layers = 2 * self.n_layers if variant == "deeper" else self.n_layers
        width = self.mlp_width if variant.startswith("equal") else 0
        return LanguageShape(self.d_model, heads, d_qk, self.head - d_qk if d_vo is None else d_vo, layers, width)

    @property
    def mlp_width(self) -> int:
        """Width of an MLP with as many parameters as half of the heads, a multiple of 8 if it is wide."""
        exact = 2 * self.head * (self.n_heads // 2) / 3
        return 8 * round(exact / 8) if exact > 24 else round(exact)

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary of the phone book."""
        return 1 + 3 * self.names + 10

    @property
    def parameters(self) -> int:
        """Parameters of the model without an MLP, with the vocabulary of the phone book."""
        return self.shape(2).parameters(self.n_tokens)

    def people(self, load: int) -> int:
        """Return the number of people whose digits are `load` bits per parameter, rounded to 100 if there are many."""
        exact = load * self.parameters / (self.digits * 3.321928094887362)
        return 100 * round(exact / 100) if exact > 5000 else max(1, round(exact))

    def facts(self, n_people: int, seed: int) -> Sentences:
        """Return a phone book as bare digits after each name."""
        sizes = {"n_people": n_people, "digits": self.digits, "n_names": self.names, "n_last": self.names}
        return Sentences(generated("phonebook", **sizes, seed=seed), templates=0)

    def steps(self, n_people: int, exposures: int | None = None) -> int:
        """Return the number of steps in which each person is seen `exposures` times on average."""
        return max(4, round(n_people * (exposures or self.exposures) / self.batch_size))

    def training(self, steps: int, rate: float, frozen: tuple[str, ...] = ()) -> Training:
        """Return how the models of a study are trained."""
        return Training(
            learning_rate=rate,
            epochs=steps,
            batch_size=self.batch_size,
            precision=self.precision,
            schedule="cosine",
            warm_up=0.05,
            frozen=frozen,
        )


@dataclass(frozen=True)
class Mixture:
    """Mixtures of facts with something else: the batch, the numbers of steps, and the fractions of the other.

    `narrowed` are widths d_qk at which d_vo keeps half of the head, in the mixture with the middle fraction.
    """

    batch_size: int
    steps: int
    text_steps: int
    splits: tuple[int, ...]
    narrowed: tuple[int, ...]
    fractions: tuple[float, ...]
    recall: InContextRecall
    text: TextFile


@dataclass(frozen=True)
class StudySizes:
    """Sizes of all studies at one size: quick or full."""

    scale: Scale
    confirming: Scale
    splits: tuple[int, ...]
    few_splits: tuple[int, ...]
    loads: dict[str, tuple[int, ...]]
    rates: tuple[float, ...]
    confirming_load: int
    more_exposures: int
    confirming_seeds: tuple[int, ...]
    mixture: Mixture

    @property
    def common_loads(self) -> tuple[int, ...]:
        """Loads at which all models of the study of splits are trained."""
        return tuple(sorted(set.intersection(*map(set, self.loads.values()))))


@dataclass(frozen=True)
class StudyGrid:
    """Sizes of all studies on one kind of machine, and the suffix of their names."""

    suffix: str
    sizes: dict[Size, StudySizes]

    @property
    def full(self) -> StudySizes:
        """Sizes of a full run."""
        return self.sizes["full"]

    def of(self, variant: str) -> Where:
        """Return the rows that count of one variant, at all sizes."""
        shapes = [sizes.scale.shape(2, variant) for sizes in self.sizes.values()]
        widths = tuple(sorted({shape.mlp_width for shape in shapes}))
        ratios = tuple(sorted({shape.n_heads / shape.n_layers for shape in shapes}))
        return ((MLP_WIDTH, widths), (HEADS_PER_LAYER, ratios), *COUNTED)

    def of_parameters(self, *, confirming: bool = False) -> str:
        """Describe the number of parameters of the full models."""
        scale = self.full.confirming if confirming else self.full.scale
        exact = scale.parameters
        return f"{exact / 1e6:.2f} million parameters" if exact > 200_000 else f"{exact:,} parameters"


KJV = TextFile("kjv.txt", "cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d", n_tokens=384, length=64)
"""The King James Version, whose copyright has expired, in the folder of the run, as the Debian package `bible-kjv` 4.38
prints it: bible -f Ge1:1-Re22:21 > kjv.txt"""


def _quick(pairs: tuple[int, ...], variants: tuple[str, ...] = VARIANTS) -> StudySizes:
    """Return sizes that take seconds, with the numbers of pairs and the variants that claims name."""
    return StudySizes(
        scale=Scale(24, 2, 1, 8, names=8, digits=4, exposures=60, batch_size=64, precision="float32"),
        confirming=Scale(32, 2, 1, 8, names=8, digits=4, exposures=60, batch_size=64, precision="float32"),
        splits=(2, 4, 6),
        few_splits=(2, 6),
        loads=dict.fromkeys(variants, (2,)),
        rates=(1e-3, 3e-3, 1e-2, 3e-2),
        confirming_load=2,
        more_exposures=120,
        confirming_seeds=SEEDS,
        mixture=Mixture(
            batch_size=16,
            steps=100,
            text_steps=60,
            splits=(2, 4, 6),
            narrowed=(2,),
            fractions=(0.5,),
            recall=InContextRecall(pairs=pairs, n_keys=pairs[-1], n_values=8, sequences=16),
            text=SAMPLE_TEXT,
        ),
    )


SMALL = StudyGrid(
    "-small",
    {
        "quick": _quick((2, 4, 6, 8)),
        "full": StudySizes(
            scale=Scale(64, 4, 2, 24, names=16, digits=10, exposures=100, batch_size=64, precision="float32"),
            confirming=Scale(96, 8, 4, 24, names=40, digits=10, exposures=100, batch_size=256, precision="float32"),
            splits=(2, 6, 12, 18, 22),
            few_splits=(4, 12, 20),
            loads={"none": (1, 2, 4), **dict.fromkeys(VARIANTS[1:], (2,))},
            rates=(1e-3, 2e-3, 4e-3, 8e-3),
            confirming_load=1,
            more_exposures=1000,
            confirming_seeds=(0, 1, 2),
            mixture=Mixture(
                batch_size=64,
                steps=2500,
                text_steps=1000,
                splits=(2, 6, 12, 22),
                narrowed=(2, 6),
                fractions=(0.25, 0.5, 0.75),
                recall=InContextRecall(pairs=(2, 4, 6, 8), n_keys=16, n_values=16, sequences=256),
                text=KJV,
            ),
        ),
    },
)
"""Two cores: models of 28,544 parameters, confirmed with 160,512."""

LARGE = StudyGrid(
    "",
    {
        "quick": _quick((2, 4, 8, 16), ("none", "equal total")),
        "full": StudySizes(
            scale=Scale(128, 10, 4, 32, names=40, digits=10, exposures=100, batch_size=1024, precision="bfloat16"),
            confirming=Scale(256, 10, 8, 32, names=48, digits=10, exposures=100, batch_size=1024, precision="bfloat16"),
            splits=(2, 8, 16, 24, 30),
            few_splits=(4, 16, 28),
            loads={"none": (1, 2), "equal total": (1,)},
            rates=(1e-3, 2e-3, 4e-3, 8e-3),
            confirming_load=1,
            more_exposures=1000,
            confirming_seeds=(0, 1, 2),
            mixture=Mixture(
                batch_size=256,
                steps=4000,
                text_steps=2500,
                splits=(2, 4, 8, 16, 30),
                narrowed=(2, 4, 8),
                fractions=(0.25, 0.5, 0.75),
                recall=InContextRecall(pairs=(2, 4, 8, 16), n_keys=64, n_values=64, sequences=256),
                text=replace(KJV, n_tokens=1024),
            ),
        ),
    },
)
"""One GPU: models of 0.35 million parameters in bfloat16, confirmed with 1.35 million."""


def mixed_shapes(sizes: StudySizes) -> list[tuple[float, LanguageShape]]:
    """Return the fractions and models of a study of mixtures: every split, then models whose d_qk alone is narrower."""
    scale, mixture = of_mixture(sizes), sizes.mixture
    splits = [(fraction, scale.shape(d_qk)) for fraction in mixture.fractions for d_qk in mixture.splits]
    middle, half = sorted(mixture.fractions)[len(mixture.fractions) // 2], scale.head // 2
    return splits + [(middle, scale.shape(d_qk, d_vo=half)) for d_qk in mixture.narrowed]


def equal_parameters(grid: StudyGrid) -> Where:
    """Return the rows of a study of mixtures in which d_qk + d_vo is the whole head."""
    return ((f"{D_QK} + {D_VO}", tuple(sorted({sizes.scale.head for sizes in grid.sizes.values()}))),)


def narrowed_alone(grid: StudyGrid, fraction: str) -> Where:
    """Return the rows of a study of mixtures in which d_vo is half of the head, with the middle fraction."""
    halves = {sizes.scale.head // 2 for sizes in grid.sizes.values()}
    return ((D_VO, tuple(sorted(halves))), (fraction, 0.5))


def cost_of_narrowing(grid: StudyGrid, column: str, fraction: str) -> Quantity:
    """Return a column with d_qk of half a head minus the same with d_qk = 2, at the same d_vo."""
    rows = narrowed_alone(grid, fraction)
    return mean_difference(column, (*rows, EQUAL_WIDTHS), (*rows, (D_QK, 2)))


def fractions_of(steps: int) -> Curve:
    """Return the epochs at which curves are recorded: 10, 20, 40, 60, 80 and 100 % of the exposures."""
    return Curve(tuple(max(1, steps * percent // 100) for percent in (10, 20, 40, 60, 80, 100)))


def of_mixture(sizes: StudySizes) -> Scale:
    """Return the scale of the models that are trained on mixtures."""
    return replace(sizes.scale, batch_size=sizes.mixture.batch_size)
