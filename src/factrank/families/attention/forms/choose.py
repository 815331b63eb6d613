"""Choosing: `construct` takes the best construction for a database, proves its recall and says what the others cost.

Every construction says without building whether it can hold the database in a precision and how large it would be. They
are built from best to worst until one is certified. A size may be an estimate from above: then those that might still
turn out smaller are built too. For the largest margin all that fit are built.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from factrank.certificates import Certificate, certify
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import Constructed, width_in_bits
from factrank.families.attention.forms.candidates import Candidate, places_of
from factrank.families.attention.forms.construction import Built, Construction, FormSearch
from factrank.families.attention.forms.registry import CONSTRUCTIONS
from factrank.families.attention.forms.shared_tokens import shared_token_model
from factrank.families.attention.proof import AttentionProver
from factrank.host import memory_room
from factrank.nn import Precision, dtype_of

Minimise = Literal["parameters", "heads", "d_model", "margin", "bits"]
"""What counts: stored scalars, heads, the width of the embedding, the bits of all weights; or the least margin, which
is made as large as possible."""

DEFAULT_PRECISION: Precision = "float32"
DEFAULT_BUDGET = 5.0

MAY_SHRINK = 2.0
"""An estimate of at most so many times the best size is worth building."""

MOST_FACTS_AS_SETS = 100_000
"""Larger tables with one value per (key, query) are not tried as sets, which would take seconds to size up."""

COPIES = 3
"""How often the weights are in memory while a layer is built and verified."""


@dataclass(frozen=True, eq=False)
class _Option:
    """A construction that fits, in a precision, with its place in the order."""

    form: Construction
    candidate: Candidate
    cost: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class _Finished:
    """An option that was built and verified."""

    built: Built
    certificate: Certificate
    candidate: Candidate
    cost: tuple[float, ...]


def construct(
    database: Database,
    precision: Precision | None = None,
    minimise: Minimise = "parameters",
    budget: float = DEFAULT_BUDGET,
    *,
    share_tokens: bool = False,
    only: Iterable[str] | None = None,
) -> Constructed:
    """The smallest layer that recalls every fact of a database, with the proof that it does.

    Arguments:
        database: the facts.
        precision: of the weights and of the arithmetic; float32 if not given, except that the fewest bits are then
            looked for in all precisions.
        minimise: what makes a layer the best. The margin is the one thing that is made as large as possible.
        budget: seconds to search, where a construction leaves a choice; checking the facts comes on top.
        share_tokens: a name that is both key and query has one embedding row (binary codes, as a `PairTransformer`).
        only: names of the constructions to choose from; all if not given.

    Returns:
        The layer with its certificate. Where no construction could be certified, the best of those that were built.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> found = construct(facts)
    >>> found.certified, found.certificate.arithmetic
    (True, 'exact integers')
    """
    if minimise not in get_args(Minimise):
        raise InputError(f"minimise must be one of {', '.join(get_args(Minimise))}; got {minimise!r}")
    search = FormSearch(seconds=budget)
    if not database.n_facts:
        raise InputError("the database has no facts, so there is nothing to hold")
    if share_tokens:
        return _with_shared_tokens(database, precision or DEFAULT_PRECISION, only)
    precisions = _precisions(precision, minimise)
    options, refused = _considered(database, precisions, minimise, _named(only, database))
    if not options:
        reasons = "".join(f"\n  {candidate.construction}: {candidate.reason}" for candidate in refused)
        raise InputError(f"no construction holds this database in {' or '.join(precisions)}:{reasons}")
    finished = _built(database, options, minimise, search)
    best = min(finished, key=lambda one: (not one.certificate.certified, one.cost))
    others = _runners_up(finished, best, options)
    return Constructed(
        model=best.built.layer,
        data=database,
        spec=best.built.layer.shape,
        form=best.built.construction,
        reason="the one asked for" if len(options) + len(refused) == 1 else _praise(best, others, minimise),
        editing=places_of(best.built.editing),
        certificate=best.certificate,
        runners_up=(*others, *refused),
    )


def _precisions(asked: Precision | None, minimise: Minimise) -> tuple[Precision, ...]:
    if asked is not None:
        dtype_of(asked)
        return (asked,)
    return ("bfloat16", "float32", "float64") if minimise == "bits" else (DEFAULT_PRECISION,)


def _named(only: Iterable[str] | None, database: Database) -> list[Construction]:
    """The constructions asked for, else all that make sense for the database."""
    if only is None:
        dear = database.functional and database.n_facts > MOST_FACTS_AS_SETS
        return [form for name, form in CONSTRUCTIONS.items() if not (dear and name == "set-valued")]
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in CONSTRUCTIONS:
            raise InputError(f"there is no construction {name!r}; there are {', '.join(CONSTRUCTIONS)}")
    if not names:
        raise InputError(f"name at least one construction; there are {', '.join(CONSTRUCTIONS)}")
    return [CONSTRUCTIONS[name] for name in dict.fromkeys(names)]


def _considered(
    database: Database, precisions: Sequence[Precision], minimise: Minimise, forms: Sequence[Construction]
) -> tuple[list[_Option], list[Candidate]]:
    """The options from best to worst, and the candidates that are refused, with the reason."""
    options, refused, room = [], [], memory_room()
    for precision in precisions:
        for form in forms:
            candidate = Candidate(form.name, precision)
            reason = form.refusal(database, precision)
            if reason is None:
                shape = form.shape(database, precision)
                parameters = shape.parameters(*database.shape)
                candidate = replace(candidate, shape=shape, parameters=parameters)
                needed = COPIES * parameters * dtype_of(precision).itemsize
                if needed <= room:
                    options.append(_Option(form, candidate, _cost(candidate, minimise)))
                    continue
                reason = f"{parameters:,} parameters take more memory than this machine has"
            refused.append(replace(candidate, reason=reason))
    return sorted(options, key=lambda option: option.cost), refused


def _cost(candidate: Candidate, minimise: Minimise) -> tuple[float, ...]:
    """What is to be small, then the number of parameters; ties go to the construction that is preferred."""
    shape, parameters = candidate.shape, candidate.parameters
    assert shape is not None and parameters is not None  # noqa: S101, PT018 - refused candidates have no cost
    margin = 0.0 if candidate.margin is None else candidate.margin
    first = {
        "parameters": parameters,
        "heads": shape.n_heads,
        "d_model": shape.d_model,
        "margin": -margin,
        "bits": parameters * width_in_bits(candidate.precision),
    }[minimise]
    return float(first), float(parameters)


def _built(database: Database, options: Sequence[_Option], minimise: Minimise, search: FormSearch) -> list[_Finished]:
    """What was built and verified: up to the first that is certified, and what may yet be better than it."""
    finished: list[_Finished] = []
    deadline = time.monotonic() + search.seconds
    for option in options:
        best = min((one.cost for one in finished if one.certificate.certified), default=None)
        if best is not None and minimise != "margin":
            left = deadline - time.monotonic()
            if not option.form.estimated or left <= 0 or option.cost[0] > MAY_SHRINK * best[0]:
                continue
        left = max(deadline - time.monotonic(), 0.0)
        built = option.form.build(database, option.candidate.precision, FormSearch(left, search.seed))
        shape = built.layer.shape
        smaller = replace(option.candidate, shape=shape, parameters=built.layer.parameters)
        if best is not None and minimise != "margin" and _cost(smaller, minimise) >= best:
            continue  # not worth a proof
        certificate = certify(AttentionProver(built.layer, database))
        candidate = replace(smaller, margin=certificate.margin)
        finished.append(_Finished(built, certificate, candidate, _cost(candidate, minimise)))
    return finished


def _runners_up(finished: Sequence[_Finished], best: _Finished, options: Sequence[_Option]) -> tuple[Candidate, ...]:
    """All options but the best, with what is wrong with them, from best to worst."""
    known = {(one.candidate.construction, one.candidate.precision): one for one in finished}
    others: list[tuple[tuple[float, ...], Candidate]] = []
    for option in options:
        one = known.get((option.candidate.construction, option.candidate.precision))
        if one is best:
            continue
        if one is None:
            others.append((option.cost, option.candidate))
        else:
            reason = "" if one.certificate.certified else f"not certified: {one.certificate.reason}"
            others.append((one.cost, replace(one.candidate, reason=reason)))
    return tuple(candidate for _, candidate in sorted(others, key=lambda other: other[0]))


def _praise(best: _Finished, others: Sequence[Candidate], minimise: Minimise) -> str:
    """Why the best is the best, in words."""
    if not best.certificate.certified:
        return "none could be certified"
    words = {"parameters": "fewest parameters", "heads": "fewest heads", "d_model": "least d_model"}
    words |= {"margin": "largest margin", "bits": "fewest bits of weights"}
    if not any(other.shape is not None for other in others):
        return "the only construction that fits"
    return words[minimise]


def _with_shared_tokens(database: Database, precision: Precision, only: Iterable[str] | None) -> Constructed:
    if only is not None and ([only] if isinstance(only, str) else list(only)) != ["binary"]:
        raise InputError("only binary codes are known for shared tokens")
    model = shared_token_model(database, precision)
    return Constructed(
        model=model,
        data=database,
        spec=model.shape,
        form="binary, shared tokens",
        reason="the only construction with shared tokens",
        certificate=certify(AttentionProver(model, database)),
    )
