"""`construct`: the smallest certified layer of what was tried, by closed forms, by training, or by both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from factrank.certificates import Abstention
from factrank.databases import Database
from factrank.errors import FactrankError, InputError, SearchError
from factrank.experiments.models import Constructed
from factrank.families.attention.forms import Candidate, construct_by_formula
from factrank.families.attention.forms.building import claim_for, with_reserved
from factrank.families.attention.searching.search_folder import FORM, TriedSize
from factrank.nn import Precision, stored_scalars

if TYPE_CHECKING:
    from factrank.families.attention.searching.trained_search import TrainedSearch

Method = Literal["formula", "trained", "any"]
"""Closed forms; trained layers; or the smaller of both."""

FORMULA_SECONDS, TRAINED_SECONDS = 5.0, 60.0
"""Budgets if none is given."""

FORMULA_SHARE = 0.25
"""Fraction of the budget for closed forms, if layers are trained too."""


def construct(  # noqa: PLR0913 - one argument per question
    database: Database,
    precision: Precision | None = None,
    minimise: Any = None,
    budget: float | None = None,
    *,
    method: Method = "formula",
    maximise: Literal["margin"] | None = None,
    share_tokens: bool = False,
    only: Iterable[str] | None = None,
    tau: float | None = None,
    abstain: Abstention | None = None,
    folder: str | os.PathLike[str] | None = None,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
    minimize: Any = None,
    maximize: Literal["margin"] | None = None,
) -> Constructed:
    """Find a small layer that recalls every fact of a database, and prove that it does.

    Closed forms take seconds. Layers with searched terms (`logits`, for tables with several values for a (key, query),
    or on demand) and trained layers are much smaller if facts have structure, and are edited by solving rows again. The
    result is the smallest of what was tried.

    Arguments:
        database: the facts.
        precision: type of the weights and of the arithmetic. Defaults to float32; with `minimise="bits"`, all
            precisions are tried.
        minimise: "parameters" (the default), "heads", "d_model" or "bits". For heads and d_model,
            `details["advice"]` mentions a smaller layer that only another precision allows.
        budget: seconds to search, by default 5 for closed forms that leave a choice, and 60 for training.
        method: "formula" for closed forms, "trained" for trained layers, "any" for the smaller of both.
        maximise: "margin", instead of `minimise`: the closed form with the largest margin, for which every form that
            fits is built.
        share_tokens: give a name that is both key and query a single embedding row (binary codes, as a
            `PairTransformer`).
        only: names of the closed forms to choose from; all if not given.
        tau: also prove that every fact has this probability under softmax (several values of a (key, query) together).
            The logits are multiplied by a power of two as far as that needs.
        abstain: also prove that the layer is not confident where the table has no fact: "unknown" reserves a value
            that has at least the probability `tau` (0.95 if not given) on every (key, query) without a fact; "quiet"
            gives no value that probability there (closed forms only).
        folder: folder in which a search by training is kept, so that it can be resumed after a kill or with more time.
            It is removed when no smaller size is left to try.
        seed: seed of the initial weights of trained layers.
        report: receives lines about the progress.
        minimize: same as `minimise`.
        maximize: same as `maximise`.

    Returns:
        The layer and its certificate. If no closed form could be certified, the best one built.

    Raises:
        InputError: the database has no facts, or nothing can store it; the message lists the reasons.
        SearchError: training found no layer in the budget.

    >>> found = construct(Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")]))
    >>> found.certified, found.certificate.arithmetic
    (True, 'exact integers')
    """
    if method not in get_args(Method):
        raise InputError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}")
    formula: dict[str, Any] = {"minimise": minimise or minimize, "maximise": maximise or maximize, "only": only}
    formula |= {"share_tokens": share_tokens, "tau": tau, "abstain": abstain}
    if method == "formula":
        return construct_by_formula(
            database, precision, budget=FORMULA_SECONDS if budget is None else budget, report=report, **formula
        )
    _require_trainable(database, method, formula, budget)
    by_formula = _by_formula(database, precision, formula | {"report": report}, budget) if method == "any" else None
    kept = None if folder is None else Path(folder)
    share = 1 - FORMULA_SHARE if method == "any" else 1.0
    seconds = share * (TRAINED_SECONDS if budget is None else budget)
    search = _by_training(database, precision or "float32", formula, by_formula, seconds, (kept, seed, report))
    return _smaller(with_reserved(database, claim_for(database, tau, abstain)), by_formula, search)


def _by_training(
    database: Database,
    precision: Precision,
    formula: dict[str, Any],
    by_formula: Constructed | None,
    seconds: float,
    how: tuple[Path | None, int, Callable[[str], None] | None],
) -> TrainedSearch:
    from factrank.families.attention.searching.trained_search import search_trained, usual_rounds  # noqa: PLC0415

    claim = claim_for(database, formula["tau"], formula["abstain"])
    folder, seed, report = how
    return search_trained(
        with_reserved(database, claim),
        precision,
        claim,
        seconds=seconds,
        below=float(by_formula.parameters) if by_formula is not None and by_formula.certified else inf,
        folder=folder,
        rounds=usual_rounds(seed),
        report=report,
    )


def _require_trainable(database: Database, method: Method, formula: dict[str, Any], budget: float | None) -> None:
    if not database.n_facts:
        raise InputError("the database has no facts")
    if budget is not None and not 0 <= budget < inf:
        raise InputError(f"the search time must be a finite number of seconds, at least 0; got {budget}")
    if formula["minimise"] not in {None, "parameters"} or formula["maximise"] is not None or formula["share_tokens"]:
        raise InputError(f"method {method!r} minimises parameters: other aims and shared tokens are for closed forms")
    if method == "trained" and formula["only"] is not None:
        raise InputError("only chooses among closed forms, which method 'trained' does not try")


def _by_formula(
    database: Database, precision: Precision | None, formula: dict[str, Any], budget: float | None
) -> Constructed | None:
    """Return the best closed form; None if none can store the table, which training may still do."""
    seconds = FORMULA_SHARE * (TRAINED_SECONDS if budget is None else budget)
    try:
        return construct_by_formula(database, precision, budget=seconds, with_search=True, **formula)
    except FactrankError:
        if formula["only"] is not None:
            raise
        return None


def _smaller(facts: Database, by_formula: Constructed | None, search: TrainedSearch) -> Constructed:
    """Return the smaller of both, with the other among the alternatives."""
    trained = () if search.refusal else _alternatives(search)
    if search.layer is None or search.certificate is None:
        if by_formula is None:
            kind = InputError if search.refusal else SearchError
            raise kind(f"no trained layer could be certified: {_why_none(search)}")
        refused = Candidate(FORM, by_formula.precision, reason=_why_none(search))
        return replace(by_formula, runners_up=(*by_formula.runners_up, *(trained or (refused,))))
    if by_formula is not None and by_formula.certified and by_formula.parameters <= stored_scalars(search.layer):
        return replace(by_formula, runners_up=(*by_formula.runners_up, *trained))  # a kept search may be larger
    own = () if by_formula is None else (_as_candidate(by_formula), *by_formula.runners_up)
    return Constructed(
        model=search.layer,
        data=facts,
        spec=search.layer.shape,
        form=FORM,
        reason="fewest parameters of what was tried",
        certificate=search.certificate,
        runners_up=(*own, *trained),
        details={"advice": () if search.exhausted else ("the budget ended the search: more time may find fewer",)},
    )


def _as_candidate(found: Constructed) -> Candidate:
    margin, reason = found.certificate.margin, "" if found.certified else f"not certified: {found.certificate.reason}"
    return Candidate(found.form, found.precision, found.spec, found.parameters, margin, reason)


def _alternatives(search: TrainedSearch) -> tuple[Candidate, ...]:
    """Return the largest size that failed below the best layer, as the next that one would want."""
    best = inf if search.layer is None else search.layer.parameters
    failed = [probe for probe in search.probes if not probe.certified and probe.parameters < best]
    if not failed:
        return ()
    last = max(failed, key=lambda probe: probe.parameters)
    return (Candidate(FORM, "float32", last.shape, last.parameters, reason=_why_failed(last)),)


def _why_failed(probe: TriedSize) -> str:
    return f"{probe.wrong:,} pairs wrong after {probe.steps:,} steps" if probe.wrong else "not certified"


def _why_none(search: TrainedSearch) -> str:
    if search.refusal:
        return search.refusal
    if not search.probes:
        return "the budget ended before one was trained" if not search.exhausted else "no smaller size to try"
    return f"{len(search.probes)} sizes were tried; the largest: {_why_failed(max(search.probes, key=_parameters))}"


def _parameters(probe: TriedSize) -> int:
    return probe.parameters
