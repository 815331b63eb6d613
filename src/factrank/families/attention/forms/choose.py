"""Choose the best closed form for a database, build it, prove its recall, and list the alternatives.

Every form reports, without building, whether it can store the database in a precision and how large the layer would be.
Forms are built from best to worst until one is certified. If a size is an upper estimate, forms that may turn out
smaller are built too. To maximise the margin, every form that fits is built.

`logits` searches for its terms, which takes the whole budget and may fail. It is considered for tables with several
values for a (key, query) if parameters are minimised, and otherwise on demand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from factrank.certificates import Abstention, Certificate, ConfidenceClaim
from factrank.databases import Database
from factrank.errors import InputError, SearchError
from factrank.experiments.models import Constructed, width_in_bits
from factrank.families.attention.forms.building import certified_claim, claim_for, completed, with_reserved
from factrank.families.attention.forms.candidates import Candidate, places_of
from factrank.families.attention.forms.construction import Built, Construction, FormSearch
from factrank.families.attention.forms.registry import CONSTRUCTIONS
from factrank.families.attention.forms.shared_tokens import shared_token_model
from factrank.host import memory_room
from factrank.nn import SIGNIFICAND, Precision, dtype_of
from factrank.notebook_progress import ProgressLine

Minimise = Literal["parameters", "heads", "d_model", "margin", "bits"]
"""Objective of `construct`: stored scalars, heads, embedding width, bits of all weights; the margin is maximised."""

ONE = {"heads": "head", "d_model": "coordinate"}
"""Objectives for which `construct` checks other precisions, with the noun for one unit."""

DEFAULT_PRECISION: Precision = "float32"
DEFAULT_BUDGET = 5.0

PRAISE: dict[Minimise, str] = {
    "parameters": "fewest parameters",
    "heads": "fewest heads",
    "d_model": "least d_model",
    "margin": "largest margin",
    "bits": "fewest bits of weights",
}

MAY_SHRINK = 2.0
"""An estimated size is worth building if it is at most this multiple of the best size."""

MOST_FACTS_AS_SETS = 100_000
"""Functional tables above this size are not tried as sets, which would take seconds to size."""

SEARCHED = "logits"
"""The form whose terms are searched for."""

SEARCH_SHARE = 0.8
"""Fraction of the remaining time for a form that may turn out smaller, if others follow."""

COPIES = 3
"""Copies of the weights in memory while a layer is built and verified."""


@dataclass(frozen=True, eq=False)
class _Asked:
    """The facts, the table that forms have to store, and the claim that the certificate should contain."""

    facts: Database
    table: Database
    claim: ConfidenceClaim | None


@dataclass(frozen=True, eq=False)
class _Option:
    """A form that fits, with its sort key, and the layer with its certificate once it is built and verified."""

    form: Construction
    candidate: Candidate
    cost: tuple[float, ...]
    result: tuple[Built, Certificate] | None = None


def construct_by_formula(  # noqa: PLR0913 - one argument per question
    database: Database,
    precision: Precision | None = None,
    minimise: Minimise | None = None,
    budget: float = DEFAULT_BUDGET,
    *,
    maximise: Literal["margin"] | None = None,
    share_tokens: bool = False,
    only: Iterable[str] | None = None,
    tau: float | None = None,
    abstain: Abstention | None = None,
    with_search: bool = False,
    report: Callable[[str], None] | None = None,
) -> Constructed:
    """Build the best closed form for a database, and prove that it recalls every fact.

    It takes the arguments of `construct`, in the room `searching`, and `with_search`: consider `logits` for functional
    tables too. If the layer abstains, `details["plain"]` is the size of the layer that does not.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> construct_by_formula(facts, maximise="margin").reason
    'largest margin'
    """
    aim = _objective(minimise, maximise)
    search = FormSearch(seconds=budget)
    if not database.n_facts:
        raise InputError("the database has no facts")
    claim = claim_for(database, tau, abstain)
    if share_tokens:
        return _with_shared_tokens(database, precision or DEFAULT_PRECISION, only, claim)
    plain, database = database, with_reserved(database, claim)
    precisions = _precisions(precision, aim)
    with ProgressLine("constructing", wanted=report is None) as line:
        tell = report or line.update
        table = completed(database, claim)
        forms = _named(only, table, aim, with_search=with_search)
        options, refused = _considered(table, precisions, aim, forms, tell)
        if not options:
            reasons = "".join(f"\n  {candidate.construction}: {candidate.reason}" for candidate in refused)
            raise InputError(f"no construction holds this database in {' or '.join(precisions)}:{reasons}")
        options, failed = _built(_Asked(database, table, claim), options, aim, search, tell)
    refused = [*refused, *failed]
    if not options:
        raise SearchError("; ".join(f"{candidate.construction}: {candidate.reason}" for candidate in failed))
    results = [(option, *option.result) for option in options if option.result is not None]
    best, built, certificate = min(results, key=lambda found: (not found[2].certified, found[0].cost))
    others = sorted((option for option in options if option is not best), key=lambda option: option.cost)
    reason = "none could be certified"
    if certificate.certified:
        reason = PRAISE[aim] if others else "the only construction that fits"
    return Constructed(
        model=built.layer,
        data=database,
        spec=built.layer.shape,
        form=built.construction,
        reason="the one asked for" if len(options) + len(refused) == 1 else reason,
        editing=places_of(built.editing),
        certificate=certificate,
        runners_up=(*(option.candidate for option in others), *refused),
        details={
            "advice": _advice(table, best, refused, aim),
            **({} if abstain is None else {"plain": _without_abstention(plain, certificate, aim, search, only)}),
        },
    )


def _without_abstention(
    database: Database, certificate: Certificate, aim: Minimise, search: FormSearch, only: Iterable[str] | None
) -> dict[str, Any]:
    """Return the best layer for the same facts and threshold that does not abstain."""
    tau = None if certificate.confidence is None else certificate.confidence.claim.tau
    best = {"maximise": aim} if aim == "margin" else {"minimise": aim}
    found = construct_by_formula(
        database, certificate.precision, budget=search.seconds, only=only, tau=tau, **cast("Any", best)
    )
    return {"construction": found.form, "parameters": found.parameters, "certified": found.certified}


def _objective(minimise: str | None, maximise: str | None) -> Minimise:
    if minimise is not None and maximise is not None:
        raise InputError("give minimise or maximise, not both")
    if maximise not in {None, "margin"}:
        raise InputError(f"only the margin can be maximised; got maximise={maximise!r}")
    if minimise not in {None, *get_args(Minimise)}:
        aims = ", ".join(name for name in get_args(Minimise) if name != "margin")
        raise InputError(f'minimise must be one of {aims}, or give maximise="margin"; got {minimise!r}')
    return cast("Minimise", maximise or minimise or "parameters")


def _precisions(asked: Precision | None, minimise: Minimise) -> tuple[Precision, ...]:
    if asked is not None:
        dtype_of(asked)
        return (asked,)
    return ("bfloat16", "float32", "float64") if minimise == "bits" else (DEFAULT_PRECISION,)


def _named(only: Iterable[str] | None, database: Database, aim: Minimise, *, with_search: bool) -> list[Construction]:
    if only is None:
        expensive = database.functional and database.n_facts > MOST_FACTS_AS_SETS
        searched = aim == "parameters" and (with_search or not database.functional)
        left_out = {"set-valued"} if expensive else set()
        left_out |= set() if searched else {SEARCHED}
        return [form for name, form in CONSTRUCTIONS.items() if name not in left_out]
    names = [only] if isinstance(only, str) else list(only)
    for name in names:
        if name not in CONSTRUCTIONS:
            raise InputError(f"there is no construction {name!r}; there are {', '.join(CONSTRUCTIONS)}")
    if not names:
        raise InputError(f"name at least one construction; there are {', '.join(CONSTRUCTIONS)}")
    return [CONSTRUCTIONS[name] for name in dict.fromkeys(names)]


def _considered(
    database: Database,
    precisions: Sequence[Precision],
    minimise: Minimise,
    forms: Sequence[Construction],
    tell: Callable[[str], None],
) -> tuple[list[_Option], list[Candidate]]:
    """Return the options from best to worst, and the refused candidates with their reasons."""
    options, refused, room = [], [], memory_room()
    for precision in precisions:
        for form in forms:
            tell(f"sizing {form.name}")
            candidate = _sized(form, database, precision, room)
            if candidate.reason:
                refused.append(candidate)
            else:
                options.append(_Option(form, candidate, _cost(candidate, minimise)))
    return sorted(options, key=lambda option: option.cost), refused


def _sized(form: Construction, database: Database, precision: Precision, room: int) -> Candidate:
    reason = form.refusal(database, precision)
    if reason is not None:
        return Candidate(form.name, precision, reason=reason or "refused")
    shape = form.shape(database, precision)
    parameters = shape.parameters(*database.shape)
    if COPIES * parameters * dtype_of(precision).itemsize > room:
        reason = f"{parameters:,} parameters in {precision} take more memory than this machine has"
    return Candidate(form.name, precision, shape, parameters, reason=reason or "")


def _advice(database: Database, best: _Option, refused: Sequence[Candidate], aim: Minimise) -> tuple[str, ...]:
    """Describe the best form that another precision allows and that would be smaller than the chosen one."""
    if aim not in ONE:
        return ()
    room, here = memory_room(), best.candidate.precision
    there = [precision for precision in sorted(SIGNIFICAND, key=width_in_bits) if precision != here]
    sized = [
        _sized(CONSTRUCTIONS[candidate.construction], database, precision, room)
        for precision in there
        for candidate in refused
    ]
    costs = [(_cost(candidate, aim), candidate) for candidate in sized if not candidate.reason]
    cost, other = min(costs, key=lambda pair: pair[0], default=(best.cost, None))
    if other is None or cost[0] >= best.cost[0]:
        return ()
    n, unit = int(cost[0]), ONE[aim] + "s" * (cost[0] > 1)
    return (
        f"{other.construction} would need only {n:,} {unit} in {other.precision} ({int(best.cost[0]):,} in {here})",
    )


def _cost(candidate: Candidate, minimise: Minimise) -> tuple[float, ...]:
    """Return the objective, then the number of parameters; the order of the registry breaks ties."""
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


def _built(
    asked: _Asked, options: Sequence[_Option], minimise: Minimise, search: FormSearch, tell: Callable[[str], None]
) -> tuple[list[_Option], list[Candidate]]:
    """Build and verify options up to the first certified one, and later ones if they may turn out better.

    Returns:
        The options, and those whose search found nothing.
    """
    seen: list[_Option] = []
    failed: list[Candidate] = []
    deadline = time.monotonic() + search.seconds
    for option in options:
        seen.append(option)
        last = option is options[-1]
        best = min((one.cost for one in seen if one.result is not None and one.result[1].certified), default=None)
        if best is not None and minimise != "margin":
            left = deadline - time.monotonic()
            if not option.form.estimated or left <= 0 or option.cost[0] > MAY_SHRINK * best[0]:
                continue
        left = max(deadline - time.monotonic(), 0.0)
        seconds = SEARCH_SHARE * left if option.form.estimated and not last else left
        tell(f"building {option.candidate.construction}")
        try:
            built = option.form.build(asked.table, option.candidate.precision, FormSearch(seconds, search.seed))
        except SearchError as error:
            failed.append(Candidate(option.form.name, option.candidate.precision, reason=str(error)))
            seen.pop()
            continue
        smaller = replace(option.candidate, shape=built.layer.shape, parameters=built.layer.parameters)
        if best is not None and minimise != "margin" and _cost(smaller, minimise) >= best:
            continue  # too large to be worth a proof
        tell(f"proving {option.candidate.construction}")
        built, found = _certified(built, asked)
        reason = "" if found.certified else f"not certified: {found.reason}"
        candidate = replace(smaller, margin=found.margin, reason=reason)
        seen[-1] = _Option(option.form, candidate, _cost(candidate, minimise), (built, found))
    return seen, failed


def _certified(built: Built, asked: _Asked) -> tuple[Built, Certificate]:
    """Certify a layer; if its logits are scaled for a claim, the places of facts record by how much."""
    layer, exponent, found = certified_claim(built.layer, asked.facts, asked.claim)
    if not exponent:
        return built, found
    editing = {**built.editing, "exponent": exponent} if built.editing else {}
    return Built(layer, built.construction, editing), found


def _with_shared_tokens(
    database: Database, precision: Precision, only: Iterable[str] | None, claim: ConfidenceClaim | None
) -> Constructed:
    if only is not None and ([only] if isinstance(only, str) else list(only)) != ["binary"]:
        raise InputError("shared tokens support only the construction 'binary'")
    database = with_reserved(database, claim)
    model, _, certificate = certified_claim(shared_token_model(completed(database, claim), precision), database, claim)
    return Constructed(
        model=model,
        data=database,
        spec=model.shape,
        form="binary, shared tokens",
        reason="the only construction with shared tokens",
        certificate=certificate,
    )
