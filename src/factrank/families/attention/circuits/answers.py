"""Answers of a layer to a single (key, query), compared with the facts that were saved with it.

An answer is a fact if the database contains it, an error if the database has another value, and a hallucination if it
has none. A tie is wrong: if a value that is not a fact has the same logit, the answer is an error. A layer that
abstains has a reserved value (`construct(..., abstain="unknown")`): answering it is an abstention if there is no fact,
else an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.databases import Database
from factrank.display import Drawn
from factrank.errors import InputError
from factrank.families.attention.circuits.attribution import attribute
from factrank.families.attention.circuits.layer_parts import has_parts
from factrank.families.attention.layer_files import Verdict, verdict
from factrank.foreign_text import shown_name
from factrank.readouts import DEFAULT_TAU, AnyModel, code_of, logits_at, require_threshold, softmax_at, with_facts

MOST_VALUES = 5
"""Number of most probable values that an answer lists."""


@dataclass(frozen=True)
class Answer(Drawn):
    """Answer of a layer to one (key, query), with the facts that its database has there.

    Arguments:
        key, query: the question.
        answer: the value with the largest logit, the first one if several tie.
        probability: its probability under softmax.
        margin: its logit minus the largest other logit; infinite if the layer has only one value.
        competitor: the value with the largest other logit; if several tie with the answer, a non-fact.
        tau: the probability above which an answer is confident.
        verdict: "fact", "error", "hallucination" or, if the layer answers the value that it reserves for pairs without
            a fact, "abstention"; a tie between a fact and a non-fact is an error.
        facts: the values in the database.
        top: the most probable values with their probabilities.
        direct: contribution of the direct path to the margin; None if the model does not decompose into paths.
        heads: contribution of each head.
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

    def __repr__(self) -> str:
        asked = f"({shown_name(self.key)}, {shown_name(self.query)}) -> {shown_name(self.answer)}"
        return f"Answer({asked}: {self.verdict}, probability {self.probability:.3f}, margin {self.margin:.3g})"

    @property
    def confident(self) -> bool:
        """Return whether the probability is at least tau."""
        return self.probability >= self.tau

    @property
    def tie(self) -> bool:
        """Return whether another value has the same logit."""
        return self.margin == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
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
    """Return the answer of a model to a key and a query, with its verdict.

    Arguments:
        given: a layer, or a trained, constructed or loaded object that contains one.
        key: a name or code.
        query: a name or code.
        tau: the probability above which the answer is confident.
        database: the facts to compare with; defaults to the facts of `given`.

    Raises:
        InputError: a name is unknown, or the logits are not finite.

    >>> from factrank import construct
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> found = answer(construct(facts), "Lima", "country")
    >>> found.answer, found.verdict
    ('Peru', 'fact')
    """
    require_threshold(tau)
    model, database = with_facts(given, database)
    at = code_of("key", key, model, database), code_of("query", query, model, database)
    keys, queries, values = database.vocabularies
    key, query = keys[at[0]], queries[at[1]]
    pair = np.array([at[0]], dtype=np.int32), np.array([at[1]], dtype=np.int32)
    logits, probabilities = logits_at(model, *pair)[0], softmax_at(model, *pair)[0]
    if not np.isfinite(probabilities).all():
        raise InputError("the logits at this (key, query) are NaN or infinite, as after diverged training")
    facts = database.fiber(key, query)
    order = np.argsort(-logits, kind="stable")[:MOST_VALUES]
    found = int(order[0])
    competitor = _competitor(logits, found, frozenset(values.index(fact) for fact in facts))
    margin = float("inf") if competitor is None else float(logits[found] - logits[competitor])
    reserved = getattr(given, "reserved", None)
    judged = verdict(database, *at, found)
    if judged == "hallucination" and values[found] == reserved and margin > 0:
        judged = "abstention"
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
    """Return the value with the largest other logit, or a non-fact that ties with the answer if there is one."""
    others = logits.copy()
    others[found] = -np.inf
    if len(others) == 1:
        return None
    tied = np.flatnonzero(others == logits[found])
    return next((int(value) for value in tied if int(value) not in facts), int(others.argmax()))
