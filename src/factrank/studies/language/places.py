"""Where the facts are: attention, MLP and embeddings, each frozen before training or removed after it.

Our choices: the model with an MLP at equal total parameters and equal widths, 2 bits per parameter, learning rate
0.003, 4 seeds. A frozen part keeps its random weights, and bits stored are compared with the model that is trained in
full.
"""

from __future__ import annotations

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Claim, Quantity, Summary
from factrank.experiments.study import Size, Study
from factrank.families.language import PartsRemoved
from factrank.studies.language.settings import LARGE, RATE, SEEDS, SMALL, STORED, StudyGrid, source
from factrank.studies.parts import mean_difference

LOAD = 2
FROZEN: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "attention": ("w_k", "w_o", "w_q", "w_v"),
    "queries and keys": ("w_k", "w_q"),
    "values and outputs": ("w_o", "w_v"),
    "MLP": ("w_down", "w_gate", "w_up"),
    "embeddings": ("embedding",),
}


def _frozen(name: str) -> tuple[tuple[str, str], ...]:
    text = "[" + ",".join(f'"{part}"' for part in sorted(FROZEN[name])) + "]"
    return (("training.frozen", text),)


def _by_part(name: str, title: str, column: str, y_title: str) -> Summary:
    means = tuple((part, Quantity("mean", column, where=_frozen(part))) for part in FROZEN)
    return Summary(name, title, means, over=(), x_title="part that is not trained", y_title=y_title)


def _cost(name: str) -> Claim:
    return Claim(
        f"cost of freezing {name}",
        f"How many bits per parameter are lost if training leaves out the {name}?",
        mean_difference(STORED, _frozen("nothing"), _frozen(name)),
        None,
        place="our open questions",
        note="Bits stored per parameter with everything trained minus those with this part frozen.",
        extension=True,
    )


CLAIMS = (
    Claim(
        "values and outputs hold more than queries and keys",
        "Freezing values and outputs loses more bits than freezing queries and keys.",
        mean_difference(STORED, _frozen("queries and keys"), _frozen("values and outputs")),
        "greater",
        place="our open questions",
        note="Bits stored with frozen queries and keys minus those with frozen values and outputs.",
        extension=True,
    ),
    *(_cost(name) for name in FROZEN if name != "nothing"),
)


def places_study(grid: StudyGrid) -> Study:
    """Return the study on one grid."""

    def trials(size: Size) -> list[Trial]:
        """Returns one trial per frozen part and seed."""
        scale = grid.sizes[size].scale
        n_people = scale.people(LOAD)
        steps, shape = scale.steps(n_people), scale.shape(scale.head // 2, "equal total")
        return [
            Trial(scale.facts(n_people, seed), shape, scale.training(steps, RATE, frozen), PartsRemoved(), seed=seed)
            for frozen in FROZEN.values()
            for seed in SEEDS
        ]

    return Study(
        name=f"language-places{grid.suffix}",
        title=f"Where language models keep facts, {grid.of_parameters()}",
        source=source("open questions"),
        question="How much of a phone book do attention, MLP and embeddings of a small language model store?",
        method="We train a decoder with an MLP on a phone book of 2 bits per parameter, with one part frozen at its "
        "random weights, and measure bits stored. In trained models we remove the attention or the MLP of each layer "
        "and measure recall.",
        trials=trials,
        charts=(),
        summaries=(
            _by_part(
                "stored", "Bits stored per parameter, by the part that is not trained", STORED, "bits per parameter"
            ),
            _by_part(
                "without-mlp",
                "Recall without the first MLP, by the part that is not trained",
                "recall_without_mlp_1",
                "recall",
            ),
        ),
        claims=CLAIMS,
    )


LANGUAGE_PLACES_SMALL, LANGUAGE_PLACES = places_study(SMALL), places_study(LARGE)
