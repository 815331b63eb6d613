"""Memories, factual recall and memorisers in closed form, with what is proved of them, and proofs of changed facts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import factrank
from golden import doors
from golden.cases import Case, Cases, Plain, digest_of, plain, refusal_or, weights_of

FORMS = ("outer product", "least squares", "two-sided", "logistic")
PRECISIONS = ("float64", "float32", "bfloat16")

FORWARD = 1e-5
"""Forward passes in float32 may add in another order, and margins are differences of their sums."""

SOLVED = 1e-7
"""What is solved for is as exact as its condition number, about 1e6, leaves it in float64."""


def cases() -> Cases:
    """One case per form and kind of model."""
    found: dict[str, Case] = {}
    for form in FORMS:
        found[f"linear memory {form}"] = Case(partial(_memories, form, None), form == "two-sided", FORWARD)
        found[f"mlp memory {form}"] = Case(partial(_memories, form, 24), tolerance=FORWARD)
    for form in FORMS:
        found[f"factual recall {form}"] = Case(partial(_recall, form, 0), tolerance=FORWARD)
        found[f"factual recall mlp {form}"] = Case(partial(_recall, form, 64), tolerance=FORWARD)
    found["smallest factual recall"] = Case(_smallest, tolerance=FORWARD)
    for name, options in MEMORISERS.items():
        found[f"memoriser {name}"] = Case(partial(_solved, **options), name == "real", SOLVED)
    return found


# -------------------------------------------------------------------- memories


def _memories(form: str, width: int | None) -> Plain:
    facts = factrank.generate("associations", n_inputs=12, n_outputs=7, kind="random", seed=0)
    others = factrank.generate("associations", n_inputs=12, n_outputs=7, kind="random", seed=1)
    found: dict[str, Plain] = {}
    for d_model in (4, 16):
        for precision in PRECISIONS:
            shape = factrank.MemoryShape(d_model=d_model, width=width)
            made = doors.construct_memory(facts, shape, form=form, seed=2, precision=precision)
            found[f"d_model {d_model} in {precision}"] = {
                "certificate": _certificate(made.certificate),
                "weights": digest_of(made.model),
                "other facts": _certificate(doors.verify(made.model, others)),
            }
    return found


# -------------------------------------------------------------------- factual recall


def _recall(form: str, mlp_width: int) -> Plain:
    facts = factrank.generate("answer-sets", n_keys=5, n_queries=3, answers_per_query=3, seed=0)
    others = factrank.generate("answer-sets", n_keys=5, n_queries=3, answers_per_query=3, seed=1)
    found: dict[str, Plain] = {}
    for heads, reading in ((1, "together"), (2, "apart"), (4, None)):
        for precision in PRECISIONS:
            shape = doors.FactualRecallShape(24, heads, 1, 8, mlp_width=mlp_width, length=8, n_noise=6)
            make = partial(_recalled, facts, others, shape, form=form, reading=reading, precision=precision, seed=1)
            found[f"{heads} heads {reading} in {precision}"] = refusal_or(make)
    return found


def _recalled(facts: Any, others: Any, shape: Any, **options: Any) -> Plain:
    made = doors.construct_recall(facts, shape, **options)
    return {
        "reading": made["reading"],
        "weights": digest_of(made.model),
        "certificate": _certificate(made.certificate),
        "other facts": _certificate(doors.verify(made.model, others, length=shape.length)),
        "longer": _certificate(doors.verify(made.model, facts, length=12, contexts=2, seed=5)),
    }


def _smallest() -> Plain:
    facts = factrank.generate("answer-sets", n_keys=3, n_queries=2, answers_per_query=2, seed=0)
    found = doors.smallest_recall(facts, lambda size: doors.FactualRecallShape(16, 1, 1, size), most=16)
    return {"size": found.size, "failed": found.failed, "certificate": _certificate(found.found.certificate)}


# -------------------------------------------------------------------- memorisers

MEMORISERS: dict[str, dict[str, Any]] = {
    "real": {"n_examples": 15, "n_contexts": 1},
    "beyond the rank": {"n_examples": 16, "n_contexts": 1},
    "own contexts": {"n_examples": 20},
    "classes": {"n_examples": 15, "n_contexts": 1, "n_classes": 4},
    "in float32": {"n_examples": 10, "n_contexts": 1, "n_classes": 4, "precision": "float32"},
    "plain": {"n_examples": 10, "n_contexts": 2, "embedded": False, "positions": False, "scaled_by": "d_qk"},
    "wide values": {"n_examples": 15, "n_contexts": 1, "n_classes": 3, "d_vo": 3},
    "ridge": {"n_examples": 12, "n_contexts": 1, "ridge": 1e-2, "logit_std": 1.0},
    "vectors": {"vectors": True},
}


def _solved(
    *,
    n_examples: int = 1,
    n_contexts: int | None = None,
    n_classes: int | None = None,
    vectors: bool = False,
    **more: Any,
) -> Plain:
    options = {name: more.pop(name) for name in ("precision", "ridge", "logit_std") if name in more}
    shape = factrank.MemoriserShape(n_heads=2, d_model=16, d_qk=4, **more)
    examples: Any = factrank.RandomExamples(n_examples, 8, 16, n_classes=n_classes, n_contexts=n_contexts, seed=1)
    if vectors:
        rng = np.random.default_rng(0)
        examples = factrank.VectorExamples.of(rng.random((9, 6)), rng.random((9, 4, 6)), rng.random(9))
    made = doors.solve(examples, shape, **options)
    return {
        "fit": [made["fit"].rank, made["fit"].residual < 1e-6],
        "predicted": plain(made["predicted"]),
        "advice": [bool(made["advice"]), len(made["advice"])],
        "examples": examples.fingerprint,
        "certificate": _without_weights(made.certificate),
        "in float64": _without_weights(doors.verify(made.model, examples, precision="float64")),
        "parts": {name: part["type"] for name, part in weights_of(made.model).items()},
    }


def _without_weights(certificate: Any) -> Plain:
    """Without what follows from the last bits of the solved weights; the facts of a memoriser are its examples."""
    found = _certificate(certificate)
    found["examples"] = found.pop("facts")
    return {name: value for name, value in found.items() if name != "weights"}


def _certificate(certificate: Any) -> Plain:
    """Without the method, which is a running error bound, or none, in all of these."""
    found = plain(certificate.to_dict())
    assert found.pop("arithmetic") in ("none", "running error bound")
    return found
