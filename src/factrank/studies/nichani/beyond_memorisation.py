"""Beyond memorisation: does moving parameters from query-key to value-output hurt in-context copying?

An open question of Wong 2025 (arXiv 2502.05076), who finds that at a constant number of parameters a wider value-output
circuit stores more facts: does that extend beyond memorisation? Here a transformer learns facts and a copying task
together. A copying sequence contains one token of every group and ends with a cue that names a group; the answer is the
token of that group. The tokens vary from sequence to sequence, so the answer cannot be memorised, and the cue decides
which token to read, so query-key circuits must match cues with groups.

Our choices: d = 32, 4 heads with d_qk + d_vo = 16 and no MLP, so facts can only be stored in attention; S = R = 20 with
8 answers; 8 groups of 8 tokens; half of each batch copies, or, as a control, none of it. Adam with learning rate 0.003,
8,192 steps of 1,024 sequences; all trials run to the end.
"""

from __future__ import annotations

from factrank.experiments.specs import Training, Trial
from factrank.experiments.statistics import Claim, Direction, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size, Study
from factrank.families.factual_recall import FactSequences, FactualRecallShape
from factrank.studies.nichani.factual_recall_settings import BATCH, D_VO, PRECISION, RECALL, TITLES, facts
from factrank.studies.nichani.settings import SEEDS, source

D, HEADS, TOTAL, GROUPS, GROUP_SIZE = 32, 4, 16, 8, 8
SIDE: dict[Size, int] = {"quick": 12, "full": 20}
WIDTHS: dict[Size, tuple[int, ...]] = {"quick": (2, 8, 15), "full": (1, 2, 4, 8, 12, 14, 15)}
SHARES = (0.0, 0.5)
STEPS: dict[Size, int] = {"quick": 1024, "full": 8192}


def trials(size: Size) -> list[Trial]:
    """Returns one trial per d_vo (with d_qk = 16 - d_vo) and seed, with and without copying."""
    side = SIDE[size]
    return [
        Trial(
            FactSequences(facts(side, side, seed), copy_fraction=fraction),
            FactualRecallShape(D, HEADS, d_qk=TOTAL - d_vo, d_vo=d_vo, copy_groups=GROUPS, copy_size=GROUP_SIZE),
            Training(epochs=STEPS[size], learning_rate=0.003, batch_size=BATCH[size], precision=PRECISION[size]),
            seed=seed,
        )
        for fraction in SHARES
        for d_vo in WIDTHS[size]
        for seed in SEEDS[size]
    ]


SHARE, COPYING = "data.copy_fraction", "copying"
COPIES: Where = ((SHARE, 0.5),)
ONLY_FACTS: Where = ((SHARE, 0.0),)
EVEN, WIDEST = 8, 15
"""The even split, and d_qk = 1."""
VO_TITLE = "value-output width d_vo (d_qk = 16 - d_vo)"


def _at(column: str, d_vo: int, share: Where = COPIES, minus: Quantity | None = None) -> Quantity:
    return Quantity("mean", column, where=(*share, (D_VO, d_vo)), minus=minus)


def _ours(name: str, statement: str, quantity: Quantity, published: Direction | None, note: str) -> Claim:
    return Claim(name, statement, quantity, published, place="open questions of Wong 2025", note=note, extension=True)


CHARTS = tuple(
    Chart(name, title, "lines", x=D_VO, y=column, colour=SHARE, where=where, x_title=VO_TITLE, y_title=y_title)
    for name, title, column, where, y_title in (
        ("facts-by-width", "Facts at constant parameters", RECALL, (), "fraction of facts answered correctly"),
        ("copying-by-width", "Copying at constant parameters", COPYING, COPIES, "fraction copied correctly"),
    )
)

SUMMARIES = (
    Summary(
        "facts-and-copying",
        "Facts and copying at constant parameters, learnt together",
        (
            ("facts", Quantity("mean", RECALL, where=COPIES)),
            ("copying", Quantity("mean", COPYING, where=COPIES)),
            ("facts without copying", Quantity("mean", RECALL, where=ONLY_FACTS)),
        ),
        over=(D_VO,),
        x_title=VO_TITLE,
        y_title="fraction answered correctly",
    ),
)

CLAIMS = (
    _ours(
        "more facts without copying",
        "Moving parameters to value-output raises recall where only facts are learnt.",
        _at(RECALL, EVEN, ONLY_FACTS, _at(RECALL, 2, ONLY_FACTS)),
        "greater",
        "Recall at d_vo = 8 minus that at d_vo = 2, in transformers that read sequences.",
    ),
    _ours(
        "more facts with copying",
        "Moving parameters to value-output raises recall of facts also where copying is learnt beside them.",
        _at(RECALL, EVEN, minus=_at(RECALL, 2)),
        "greater",
        "Recall at d_vo = 8 minus that at d_vo = 2.",
    ),
    _ours(
        "copying suffers",
        "With d_qk = 1 copying is worse than with an even split.",
        _at(COPYING, WIDEST, minus=_at(COPYING, EVEN)),
        "less",
        "Fraction copied at d_vo = 15 minus that at d_vo = 8.",
    ),
    _ours(
        "facts with d_qk = 1",
        "How many more facts are held with d_qk = 1 than with an even split, where copying is learnt beside them.",
        _at(RECALL, WIDEST, minus=_at(RECALL, EVEN)),
        None,
        "Recall at d_vo = 15 minus that at d_vo = 8; nothing is published.",
    ),
    _ours(
        "best width for facts",
        "The d_vo at which most facts are held, where copying is learnt beside them.",
        Quantity("best", RECALL, D_VO, where=COPIES),
        None,
        "Among the widths that were run; nothing is published.",
    ),
    _ours(
        "best width for copying",
        "The d_vo at which copying is best.",
        Quantity("best", COPYING, D_VO, where=COPIES),
        None,
        "Among the widths that were run; the median of equally good ones. Nothing is published.",
    ),
    _ours(
        "what copying costs",
        "How many facts are lost to copying at an even split.",
        _at(RECALL, EVEN, minus=_at(RECALL, EVEN, ONLY_FACTS)),
        None,
        "Recall with copying minus recall without, at d_vo = 8, where half of the sequences no longer contain facts.",
    ),
)

BEYOND_MEMORISATION = Study(
    name="beyond-memorisation",
    title="Beyond memorisation: facts and copying together",
    source=source("an open question of Wong 2025, on the task of this paper"),
    question="Moving parameters from query-key to value-output stores more facts. Does it hurt a task that needs "
    "routing, in-context copying?",
    method="We train transformers with 4 heads and d_qk + d_vo = 16 on facts and copying, half of each batch, and on "
    "facts alone. Facts are tested in 4 contexts each; copying is measured on every token of every group.",
    trials=trials,
    charts=CHARTS,
    summaries=SUMMARIES,
    claims=CLAIMS,
    titles=TITLES,
)
