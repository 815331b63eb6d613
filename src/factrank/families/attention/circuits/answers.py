"""Answer: what a layer says to one (key, query), judged by the facts that it was saved with.

It is a fact where the database has it, an error where the database has something else, an artifact where it says
nothing. Ties are wrong: where a value that is no fact has the largest logit too, the answer is an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from jaxtyping import Float

from factrank.databases import Vocabulary
from factrank.errors import InputError
from factrank.families.attention.circuits.attribution import attribute
from factrank.families.attention.circuits.layer_parts import has_parts
from factrank.families.attention.layer_files import SavedLayer, Verdict, verdict
from factrank.readouts import DEFAULT_TAU, logits_at, require_threshold, softmax_at

MOST_VALUES = 5
"""How many of the most probable values an answer lists."""

MOST_COMPARED = 20_000
"""Names that are compared letter by letter when a close one is looked for: half a second."""


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


def answer(saved: SavedLayer, key: str, query: str, tau: float = DEFAULT_TAU) -> Answer:
    """What a layer answers to the names of a key and a query, judged by the database it was saved with."""
    require_threshold(tau)
    keys, queries, values = saved.database.vocabularies
    at = _code("key", key, keys, "query", queries), _code("query", query, queries, "key", keys)
    pair = np.array([at[0]], dtype=np.int32), np.array([at[1]], dtype=np.int32)
    logits, probabilities = logits_at(saved.layer, *pair)[0], softmax_at(saved.layer, *pair)[0]
    if not np.isfinite(probabilities).all():
        raise InputError("the logits of the layer at this (key, query) are not numbers, as after a diverged training")
    facts = saved.database.fiber(key, query)
    order = np.argsort(-logits, kind="stable")[:MOST_VALUES]
    found = int(order[0])
    competitor = _competitor(logits, found, frozenset(values.index(fact) for fact in facts))
    margin = float("inf") if competitor is None else float(logits[found] - logits[competitor])
    judged = verdict(saved, *at, found)
    if judged == "fact" and margin == 0 and competitor is not None and values[competitor] not in facts:
        judged = "error"
    paths = attribute(saved.layer, *at, found, competitor) if has_parts(saved.layer) else None
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


def _code(kind: str, name: str, vocabulary: Vocabulary, other_kind: str, other: Vocabulary) -> int:
    """The code of a name, or an error with the names that are close to it."""
    if not isinstance(name, str):
        raise InputError(f"a {kind} is asked for by its name; got {name!r}")
    if name in vocabulary:
        return vocabulary.index(name)
    if name in other:
        raise InputError(f"{name!r} is a {other_kind} of this layer, not a {kind}: the order is key, query")
    close = close_names(name, vocabulary)
    shown = ", ".join(
        repr(known if len(known) <= 60 else f"{known[:57]}...") for known in close or list(vocabulary[:3])
    )
    hint = f"did you mean {shown}?" if close else f"it knows {len(vocabulary):,}, such as {shown}"
    raise InputError(f"{name!r} is not a {kind} that this layer knows; {hint}")


def close_names(name: str, vocabulary: Vocabulary) -> list[str]:
    """At most three names that are spelt alike, upper and lower case aside.

    In a large vocabulary only some names are compared, first those that begin alike and are about as long.

    >>> close_names("zurich", Vocabulary(["Zürich", "Oslo", "Lima"]))
    ['Zürich']
    """
    wanted = name.casefold()
    known = {known.casefold(): known for known in vocabulary}
    likely = sorted(known, key=lambda other: (other[:1] != wanted[:1], abs(len(other) - len(wanted))))
    return [known[match] for match in get_close_matches(wanted, likely[:MOST_COMPARED], n=3, cutoff=0.6)]
