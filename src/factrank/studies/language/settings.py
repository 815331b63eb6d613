"""Shared settings of the language studies: models, facts, training, column names.

Facts are a phone book: names of three words, ten random digits each, 33.2 bits a person, in a vocabulary small enough
that embeddings are few of the parameters. Models have d_qk + d_vo = 32 in every head, so all splits have the same
number of parameters. Scores are divided by sqrt(d_qk), initial weights are those of `init_language_model`, and training
is Adam in bfloat16 with 5 % warm-up and a cosine. An epoch is a step on 1,024 records.
"""

from __future__ import annotations

from dataclasses import dataclass

from factrank.experiments.specs import Curve, Training, generated
from factrank.experiments.study import Size, Source
from factrank.families.language import LanguageShape, Sentences

PAPER = "Wong 2025, Paying Attention to Facts: Quantifying the Knowledge Capacity of Attention Layers"
LINK = "https://arxiv.org/abs/2502.05076"
QUESTION = "Do rank-based capacity findings generalise to language models trained on diverse tasks?"


def source(place: str) -> Source:
    """Return the paper as a source, at one of its statements."""
    return Source(PAPER, place, LINK)


@dataclass(frozen=True)
class Scale:
    """Sizes of a study: the model without an MLP, the head, the facts, and how long they are trained."""

    d_model: int
    n_heads: int
    n_layers: int
    head: int
    names: int
    digits: int
    exposures: int
    batch_size: int
    precision: str

    def shape(self, d_qk: int, mlp: str = "none") -> LanguageShape:
        """Return a model with this split.

        mlp: "none"; "equal total", half of the heads and as many parameters in the MLP; "equal attention", all heads
        and the same MLP.
        """
        heads = self.n_heads // 2 if mlp == "equal total" else self.n_heads
        width = 0 if mlp == "none" else round(2 * self.head * (self.n_heads // 2) / 3)
        return LanguageShape(self.d_model, heads, d_qk, self.head - d_qk, self.n_layers, width)

    @property
    def parameters(self) -> int:
        """Parameters of the model without an MLP, with the vocabulary of the phone book."""
        return self.shape(2).parameters(1 + 3 * self.names + 10)

    def people(self, load: int) -> int:
        """Return the number of people whose digits are `load` bits per parameter, rounded to 100 or to 1."""
        exact = load * self.parameters / (self.digits * 3.321928094887362)
        return 100 * round(exact / 100) if exact > 1000 else max(1, round(exact))

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
            precision=self.precision,  # type: ignore[arg-type]
            schedule="cosine",
            warm_up=0.05,
            frozen=frozen,
        )


SCALES: dict[Size, Scale] = {
    "quick": Scale(24, 2, 1, 8, names=8, digits=4, exposures=60, batch_size=64, precision="float32"),
    "full": Scale(192, 8, 4, 32, names=40, digits=10, exposures=100, batch_size=1024, precision="bfloat16"),
}
"""`full` has 0.42 M parameters."""
LARGE: dict[Size, Scale] = {
    "quick": Scale(32, 2, 1, 8, names=8, digits=4, exposures=60, batch_size=64, precision="float32"),
    "full": Scale(320, 10, 7, 32, names=48, digits=10, exposures=100, batch_size=1024, precision="bfloat16"),
}
"""`full` has 1.48 M parameters."""

SPLITS: dict[Size, tuple[int, ...]] = {"quick": (2, 6), "full": (2, 4, 8, 16, 24, 28, 30)}
"""Values of d_qk; d_vo is the rest of the head."""
FEW_SPLITS: dict[Size, tuple[int, ...]] = {"quick": (2, 6), "full": (4, 16, 28)}

RATES: dict[Size, tuple[float, ...]] = {"quick": (3e-3, 1e-2, 3e-2), "full": (1e-3, 3e-3, 1e-2)}
RATE = 3e-3
"""Of studies that do not tune it."""
SEEDS = (0, 1, 2)
TUNING_SEEDS = (100,)
COUNTED = (("seed", SEEDS),)
"""Rows that claims and charts use: not the tuning seeds."""


def fractions_of(steps: int) -> Curve:
    """Return the epochs at which curves are recorded: 10, 20, 40, 60, 80 and 100 % of the exposures."""
    return Curve(tuple(max(1, steps * percent // 100) for percent in (10, 20, 40, 60, 80, 100)))


D_QK, D_VO, MLP_WIDTH, N_HEADS = "model.d_qk", "model.d_vo", "model.mlp_width", "model.n_heads"
N_PEOPLE = "data.n_people"
STORED, RECALLED = "stored_bits_per_parameter", "bits_per_parameter"
STORED_INNER = "stored_bits_per_inner_parameter"
TITLES = {N_PEOPLE: "people", MLP_WIDTH: "width of the MLP"}
