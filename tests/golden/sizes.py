"""Sizes: certified brackets with their methods and witnesses, ranks of layers and memorisers, work, assumptions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import factrank
from golden import doors
from golden.cases import Case, Cases, Plain, databases, plain
from golden.trained import TRAINED
from golden.training import given_data, with_fingerprint

LIMIT = 1.0
"""Expected seconds up to which a method runs."""

SAMPLES = ("elements", "countries")
MEASURED = ("astrid", "one fact", "two facts", "shared names", "constant", "w-state", "diagonal", "unit")
"""Tables that are so small that `measure` finishes every search."""


def cases() -> Cases:
    """The brackets of every table, and small functions of sizes."""
    tables = databases() | {name: factrank.sample(name) for name in SAMPLES}
    found = {f"brackets of {name}": Case(partial(_brackets, facts), name == "astrid") for name, facts in tables.items()}
    found |= {f"counts of {name}": Case(partial(_counts, facts), name == "sets") for name, facts in tables.items()}
    found |= {f"measure {name}": Case(partial(_measured, databases()[name])) for name in MEASURED}
    found["generators"] = Case(_generators, quick=True)
    found["layer ranks"] = Case(_layer_ranks, quick=True)
    found["memory limits"] = Case(_memory_limits, tolerance=1e-12)
    found["work"] = Case(_work, quick=True)
    found["assumptions"] = Case(_assumptions, tolerance=1e-9)
    return found


def _brackets(database: factrank.Database) -> Plain:
    return {name: _bracket(bounds) for name, bounds in doors.steady_brackets(database, LIMIT).items()}


def _bracket(bounds: Any) -> Plain:
    return {
        "lower": _bound(bounds.lower),
        "upper": _bound(bounds.upper),
        "estimate": bounds.estimate and bounds.estimate.to_dict(),
        "tried": [_bound(bound) for bound in bounds.tried],
        "skipped": [[skip.method, skip.reason] for skip in bounds.skipped],
    }


def _bound(bound: Any) -> Plain:
    return bound.to_dict() | {"witness": _witness(bound.witness)}


def _witness(witness: Any) -> Plain:
    """The number of terms of a decomposition; that there is one, of other witnesses."""
    if witness is None or not callable(witness):
        return witness is not None
    return {"terms": witness().n_terms}


def _counts(database: factrank.Database) -> Plain:
    return {
        "facts": database.fingerprint,
        "shape": list(database.shape),
        "measured": plain(factrank.measure(database, budget=0.0).to_dict()),
        "ranks": plain(doors.certified_ranks(database)),
    }


def _measured(database: factrank.Database) -> Plain:
    found = factrank.measure(database, budget=60.0)
    return plain(found.to_dict())


def _generators() -> Plain:
    return {
        "kinds": list(doors.GENERATORS.built_in),
        "facts": {name: one.fingerprint for name, one in databases().items()},
    }


def _layer_ranks() -> Plain:
    layer = {"d_model": 16, "n_heads": 4, "d_qk": 4, "d_vo": 2}
    shapes = [
        factrank.LayerShape(**layer),
        *(
            factrank.TransformerShape(**layer, attention=kind, positions=positions)
            for kind in ("softmax", "linear", "affine")
            for positions in (False, True)
        ),
    ]
    return [
        {"rank": _bracket(bounds.generic), "upper": _bound(bounds.upper), "flattenings": plain(bounds.flattenings)}
        for shape in shapes
        for sizes in ((60, 4, 20), (5, 3, 4), (8, 10, 12))
        for bounds in [doors.layer_rank_bounds(shape, *sizes)]
    ]


def _memory_limits() -> Plain:
    return [doors.memory_limit(d_model) for d_model in (2, 8, 64, 512)]


def _work() -> Plain:
    found = {}
    for name, plain_trial in TRAINED.items():
        trial = factrank.Trial.from_dict(with_fingerprint(plain_trial))
        own = [one for one in given_data().values() if one.fingerprint == getattr(trial.data, "fingerprint", None)]
        data = own[0] if own else trial.data.build()
        found[name] = [
            doors.stored_scalars(trial, data),
            doors.epoch_products(trial, data),
            doors.working_numbers(trial, data, in_lanes=True),
            doors.working_numbers(trial, data, in_lanes=False),
        ]
    return found


def _assumptions() -> Plain:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(6, 3, 5))
    broken = contexts.copy()
    broken[2, 2] = 2 * broken[2, 1]
    tokens = doors.TokenExamples("passage", "gpt2", "attention", n_examples=20, context_size=8).build()
    return {
        "sound": plain(doors.check_assumptions(contexts[:, 0], contexts, subsets=50)),
        "broken": plain(doors.check_assumptions(broken[:, 0], broken, subsets=50)),
        "tokens": plain(doors.check_assumptions(tokens.queries, tokens.contexts, subsets=50)),
        "fingerprint of tokens": tokens.fingerprint,
    }
