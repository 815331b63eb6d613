"""Answer: what a layer says to one (key, query), judged by the facts that it was saved with.

It is a fact where the database has it, an error where the database has something else, an artifact where it says
nothing. Ties are wrong: where a value that is no fact has the largest logit too, the answer is an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.circuits.attribution import attribute
from factrank.families.attention.circuits.layer_parts import has_parts
from factrank.families.attention.layer_files import Verdict, verdict
from factrank.readouts import DEFAULT_TAU, AnyModel, code_of, logits_at, require_threshold, softmax_at, with_facts

MOST_VALUES = 5
"""How many of the most probable values an answer lists."""


@dataclass(frozen=True)
class Answer:
    """What a layer answers to one (key, query), and what the database it was trained on says.

    Arguments:
        key, query: the question.
        answer: the value with the largest logit, the first of equal ones.
        probability: its probability under softmax.
        margin: its logit minus the largest other; infinite where the layer knows one value only.
        competitor: the value with the largest other logit; of several that tie with the answer one that is no fact.
        tau: the probability from which an answer is confident.
        verdict: a fact, an error or an artifact; a tie between a fact and a value that is none is an error.
        facts: the values that the database has there.
        top: the most probable values with their probabilities.
        direct: what the direct path contributes to the margin; None where the model has no such parts.
        heads: what each head contributes.
    """

    key: str
    query: str
    answer: str
    probability: float
    margin: float
    competitor: str | None
    tau: float
    verdict: Verdict
    facts: tuple[str, ...]
    top: tuple[tuple[str, float], ...]
    direct: float | None
    heads: tuple[float, ...] | None

    @property
    def confident(self) -> bool:
        """Whether the probability reaches tau."""
        return self.probability >= self.tau

    @property
    def tie(self) -> bool:
        """Whether another value has the same logit."""
        return self.margin == 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain = asdict(self)
        top = [{"value": value, "probability": share} for value, share in self.top]
        contributions = None if self.heads is None else {"direct": self.direct, "heads": list(self.heads)}
        rest = {name: item for name, item in plain.items() if name not in ("top", "direct", "heads")}
        return {**rest, "confident": self.confident, "top": top, "contributions": contributions}


def answer(
    given: AnyModel,
    key: str | int,
    query: str | int,
    tau: float = DEFAULT_TAU,
    *,
    database: Database | None = None,
) -> Answer:
    """What a model answers to a key and a query, by name or code, judged by a database.

    Arguments:
        given: a layer, or something trained, constructed or loaded that has one.
        key: the key that is asked about.
        query: what is asked about it.
        tau: the probability from which the answer is confident.
        database: the facts that judge the answer, if not those that came with the model.
    """
    require_threshold(tau)
    model, database = with_facts(given, database)
    at = code_of("key", key, model, database), code_of("query", query, model, database)
    keys, queries, values = database.vocabularies
    key, query = keys[at[0]], queries[at[1]]
    pair = np.array([at[0]], dtype=np.int32), np.array([at[1]], dtype=np.int32)
    logits, probabilities = logits_at(model, *pair)[0], softmax_at(model, *pair)[0]
    if not np.isfinite(probabilities).all():
        raise InputError("the logits of the layer at this (key, query) are not numbers, as after a diverged training")
    facts = database.fiber(key, query)
    order = np.argsort(-logits, kind="stable")[:MOST_VALUES]
    found = int(order[0])
    competitor = _competitor(logits, found, frozenset(values.index(fact) for fact in facts))
    margin = float("inf") if competitor is None else float(logits[found] - logits[competitor])
    judged = verdict(database, *at, found)
    if judged == "fact" and margin == 0 and competitor is not None and values[competitor] not in facts:
        judged = "error"
    paths = attribute(model, *at, found, competitor) if has_parts(model) else None
    return Answer(
        key=key,
        query=query,
        answer=values[found],
        probability=float(probabilities[found]),
        margin=margin,
        competitor=None if competitor is None else values[competitor],
        tau=tau,
        verdict=judged,
        facts=facts,
        top=tuple((values[int(value)], float(probabilities[value])) for value in order),
        direct=None if paths is None else paths.direct,
        heads=None if paths is None else paths.heads,
    )


def _competitor(logits: Float[np.ndarray, " values"], found: int, facts: frozenset[int]) -> int | None:
    """The value with the largest other logit; of several that tie with the answer one that is no fact, if any."""
    others = logits.copy()
    others[found] = -np.inf
    if len(others) == 1:
        return None
    tied = np.flatnonzero(others == logits[found])
    return next((int(value) for value in tied if int(value) not in facts), int(others.argmax()))
