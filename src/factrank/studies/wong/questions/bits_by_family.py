"""Bits by family: attention layers, linear and MLP memories and factual recall under one accounting.

Every model stores n (log2 M - loss / ln 2) bits of its n facts, where M is the number of values that a query can have:
all values of a random table, all outputs of a memory, and the D answers of one relation in factual recall (so that
knowing the answers of a relation, but not the subject, counts nothing). They are divided by two numbers of parameters:
the weights between embeddings, and these with all embeddings and unembeddings, trained or not.

Nothing is trained for this study alone: attention layers are those of `stored-bits`; memories (d = 16; 32 hidden
units) and transformers (d = 32, 4 and 8 heads of size 8) are trials of the report on Nichani et al., which stop when
99 % or all facts are recalled. Of each family and seed the model with the most bits per parameter counts.
"""

from __future__ import annotations

from math import log

from factrank.experiments.specs import Trial
from factrank.experiments.statistics import Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.memory import MemoryShape
from factrank.studies.nichani import attention_against_mlp
from factrank.studies.nichani.memories.linear_memory import TRAINING as LINEAR_TRAINING
from factrank.studies.nichani.settings import MLP_TRAINING, memory_trial
from factrank.studies.nichani.settings import SEEDS as MEMORY_SEEDS
from factrank.studies.wong.questions import stored_bits
from factrank.studies.wong.settings import source

D_MEMORY, HIDDEN = 16, 32
LINEAR_FACTS: dict[Size, tuple[int, ...]] = {"quick": (19,), "full": (19, 38, 45, 54)}
MLP_FACTS: dict[Size, tuple[int, ...]] = {"quick": (90,), "full": (90, 181, 215, 256, 271, 287)}
TRANSFORMERS: dict[Size, tuple[tuple[int, int], ...]] = {
    "quick": ((4, 24),),
    "full": ((4, 48), (4, 56), (4, 64), (8, 24), (8, 32), (8, 40)),
}
"""Heads and MLP width, near the shapes with the most bits per parameter."""


def trials(size: Size) -> list[Trial]:
    """Returns trials of `stored-bits`, linear-memory, mlp-memory and attention-against-mlp."""
    linear = [
        memory_trial(n_facts, MemoryShape(D_MEMORY), seed, LINEAR_TRAINING)
        for n_facts in LINEAR_FACTS[size]
        for seed in MEMORY_SEEDS[size]
    ]
    mlp = [
        memory_trial(n_facts, MemoryShape(D_MEMORY, width=HIDDEN), seed, MLP_TRAINING[size])
        for n_facts in MLP_FACTS[size]
        for seed in MEMORY_SEEDS[size]
    ]
    transformers = {attention_against_mlp.transformer(size, *shape) for shape in TRANSFORMERS[size]}
    recall = [trial for trial in attention_against_mlp.trials(size) if trial.model in transformers]
    return [*stored_bits.trials(size), *linear, *mlp, *recall]


KIND, D, M, H, HEAD = "model.kind", "model.d_model", "model.width", "model.n_heads", "model.d_qk"
N_IN, ANSWERS, WIDTH = "data.n_inputs", "data.answers_per_query", "model.mlp_width"
SUBJECTS, RELATIONS = "data.n_keys", "data.n_queries"

MEMORY_BITS = f"{N_IN} * (log({N_IN}) - loss) / {log(2):.6f}"
RECALL_BITS = f"{SUBJECTS} * {RELATIONS} * (log({ANSWERS}) - loss) / {log(2):.6f}"
LINEAR_WEIGHTS, MLP_WEIGHTS, EMBEDDED = f"{D} * {D}", f"2 * {D} * {M}", f"2 * {N_IN} * {D}"
RECALL_WEIGHTS = f"4 * {H} * {HEAD} * {D} + 2 * {WIDTH} * {D}"
RECALL_TOKENS = f"2 * ({SUBJECTS} + {RELATIONS}) + 1 + {ANSWERS} * {RELATIONS}"
"""Subjects, relations, as many noise tokens, the end of the sequence, and the answers."""

ATTENTION: Where = ((KIND, "attention"),)
LINEAR: Where = ((KIND, "memory"), ("data.n_inputs", LINEAR_FACTS["full"]))
MLP: Where = ((KIND, "memory"), (M, HIDDEN))
RECALL: Where = ((KIND, "sequence"),)


def _most(bits: str, parameters: str, where: Where) -> Quantity:
    """Returns bits per parameter of the best model of each seed."""
    return Quantity("greatest", f"{bits} / ({parameters})", where=where)


FAMILIES = {
    "attention": (stored_bits.STORED, stored_bits.CIRCUITS, stored_bits.ALL_PARAMETERS, ATTENTION),
    "linear memory": (MEMORY_BITS, LINEAR_WEIGHTS, f"{LINEAR_WEIGHTS} + {EMBEDDED}", LINEAR),
    "MLP memory": (MEMORY_BITS, MLP_WEIGHTS, f"{MLP_WEIGHTS} + {EMBEDDED}", MLP),
    "factual recall": (RECALL_BITS, RECALL_WEIGHTS, f"{RECALL_WEIGHTS} + ({RECALL_TOKENS}) * {D}", RECALL),
}
"""Bits, weights between embeddings, all parameters, and rows of each family."""


LANGUAGE_MODELS = (
    ReferenceLine("facts in language models (Allen-Zhu and Li): 2", "2"),
    ReferenceLine("random text (Morris et al.): 3.6", "3.6"),
)
"""Published numbers, which count embeddings."""


def _summary(name: str, title: str, *, embeddings: bool) -> Summary:
    return Summary(
        name,
        title,
        tuple(
            (family, _most(bits, everything if embeddings else weights, where))
            for family, (bits, weights, everything, where) in FAMILIES.items()
        ),
        over=(),
        x="quantity",
        x_title="family",
        y_title="bits stored per parameter",
        log_y=True,
        references=LANGUAGE_MODELS if embeddings else (),
    )


CHARTS = (
    Chart(
        "attention-by-heads",
        "Bits stored per parameter of attention layers, embeddings included, by number of heads and learning rate",
        "lines",
        x=H,
        y=stored_bits.PER_PARAMETER,
        colour=stored_bits.LEARNING_RATE,
        where=ATTENTION,
        y_title="bits stored per parameter",
        references=LANGUAGE_MODELS,
    ),
)
SUMMARIES = (
    _summary("with-embeddings", "Most bits stored per parameter, embeddings included", embeddings=True),
    _summary("without-embeddings", "Most bits stored per parameter that is not an embedding", embeddings=False),
)

BITS_BY_FAMILY = Study(
    name="bits-by-family",
    title="Bits by family: four kinds of model under one accounting",
    source=source("next checks of a summary"),
    question="Counted in one way, how many bits per parameter do attention layers, linear memories, MLP memories and "
    "factual-recall transformers store?",
    method="A model stores n (log2 M - loss / ln 2) bits of n facts with M possible values per query. We divide by the "
    "weights between embeddings, and by all parameters, embeddings included, for attention layers trained for 20,000 "
    "epochs and for memories and transformers of the report on Nichani et al., and keep the best model of each family "
    "and seed.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
)
