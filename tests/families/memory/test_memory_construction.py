"""Memories in closed form: what each form can hold, that it is what it says, and certificates."""

from functools import cache
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from factrank.databases.database import Database
from factrank.databases.generators.association_tables import associations
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.memory.associative_memory import LinearMemory, MlpMemory, unit_rows
from factrank.families.memory.memory_construction import construct_memory
from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn.associative_matrices import _Problem, closed_form, least_squares, logistic, outer_product, two_sided
from factrank.readouts.recall_report import recall

FORMS = ("outer product", "least squares", "two-sided", "logistic")
HELD = {16: (14, 23, 27, 65), 32: (32, 55, 64, 192)}
"""The most facts, one output each, that are all right in at least half of the seeds (theory of the four forms)."""


def random_problem(seed, n_inputs, n_outputs, d_model):
    rng = np.random.default_rng(seed)
    values = rng.permutation(n_inputs) if n_inputs == n_outputs else rng.integers(0, n_outputs, n_inputs)
    return unit_rows(rng, n_inputs, d_model), unit_rows(rng, n_outputs, d_model), values


def share_right(matrix, problem):
    features, outputs, values = problem
    logits = features @ matrix @ outputs.T
    own = logits[np.arange(len(values)), values]
    return ((logits >= own[:, None]).sum(axis=1) == 1).mean()


@cache
def share_of_seeds(form, d_model, n_facts, n_seeds=6):
    problems = [random_problem(seed, n_facts, n_facts, d_model) for seed in range(n_seeds)]
    return np.mean([share_right(closed_form(form, *problem), problem) == 1 for problem in problems])


# -------------------------------------------------------------------- forms


@pytest.mark.parametrize("d_model", HELD)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_holds_what_it_should(form, d_model):
    held = HELD[d_model][FORMS.index(form)]
    assert share_of_seeds(form, d_model, round(0.8 * held)) >= 0.5
    assert share_of_seeds(form, d_model, round(1.3 * held)) < 0.5


@pytest.mark.parametrize("d_model", [64, 128])
def test_hebb_holds_n_log_n_of_an_eighth_of_the_weights(d_model):
    sizes = [next(n for n in range(2, 9999) if n * log(n) > share * d_model**2) for share in (0.085, 0.165)]
    assert share_of_seeds("outer product", d_model, sizes[0]) >= 0.5
    assert share_of_seeds("outer product", d_model, sizes[1]) < 0.5


@given(seed=st.integers(0, 10**6), n_inputs=st.integers(1, 40), n_outputs=st.integers(1, 40), width=st.integers(0, 12))
@settings(max_examples=30)
def test_logistic_separates_what_any_form_separates(seed, n_inputs, n_outputs, width):
    embeddings, outputs, values = random_problem(seed, n_inputs, n_outputs, 6)
    rng = np.random.default_rng(seed)
    features = np.maximum(embeddings @ rng.standard_normal((6, width)), 0) if width else embeddings
    problem = features, outputs, values
    others = [share_right(closed_form(form, *problem, centred=width > 0), problem) == 1 for form in FORMS[:3]]
    found = logistic(*problem)
    assert found.separates == (share_right(found.matrix, problem) == 1)
    assert found.separates or not any(others)


def test_forms_solve_what_they_say():
    features, outputs, values = random_problem(0, 30, 12, 8)
    indicator = np.eye(12)[values]
    np.testing.assert_allclose(
        outer_product(features, outputs, values),
        sum(np.outer(x, outputs[value]) for x, value in zip(features, values, strict=True)),
    )
    centred = outer_product(features + 5, outputs, values, centred=True)
    np.testing.assert_allclose(centred, (features - features.mean(axis=0)).T @ outputs[values], atol=1e-12)
    one_sided = features @ least_squares(features, outputs, values) - outputs[values]
    np.testing.assert_allclose(features.T @ one_sided, 0, atol=1e-12)
    both = features @ two_sided(features, outputs, values) @ outputs.T - indicator
    np.testing.assert_allclose(features.T @ both @ outputs, 0, atol=1e-12)
    exact = least_squares(features[:8], outputs, values[:8])
    np.testing.assert_allclose(features[:8] @ exact, outputs[values[:8]], atol=1e-10)


def test_logistic_descends_the_cross_entropy():
    features, outputs, values = random_problem(1, 9, 5, 3)
    problem, at = _Problem(features, outputs, values), np.random.default_rng(0).standard_normal(9)
    logits = features @ at.reshape(3, 3) @ outputs.T
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert problem(at)[0] == pytest.approx(-np.log(probabilities[np.arange(9), values]).mean())
    assert check_grad(lambda x: problem(x)[0], lambda x: problem(x)[1], at) < 1e-6
    stuck = logistic(features[[0, 0]], outputs, np.array([0, 1]), steps=50)  # one input with two outputs
    assert not stuck.separates
    assert stuck.margin <= 0


# -------------------------------------------------------------------- memories and certificates


@pytest.mark.parametrize("width", [None, 40])
def test_constructed_memories_are_certified_where_they_recall(width):
    facts = associations(20, 20, kind="injective", seed=3)
    found = construct_memory(facts, MemoryShape(16, width=width), form="two-sided", seed=1)
    certificate = found.certificate
    assert found.certified
    assert 0 < certificate.proved_margin <= certificate.margin < certificate.proved_margin + 1e-3
    assert certificate["bits"] == pytest.approx(20 * np.log2(20))
    stored = MemoryShape(16, width).memory_parameters
    assert certificate["bits_per_parameter"] == pytest.approx(certificate["bits"] / stored)
    assert certificate.to_dict()["bits_per_parameter"] == certificate["bits_per_parameter"]
    assert recall(found.model, facts).recall == 1  # readouts take a memory for what it is
    np.testing.assert_allclose(np.linalg.norm(found.model.inputs, axis=1), 1, rtol=1e-6)


@pytest.mark.optimised
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("width", [None, 24])
def test_proofs_hold_in_other_orders_of_evaluation(width, precision):
    facts = associations(12, 7, kind="random", seed=0)
    model = construct_memory(facts, MemoryShape(8, width=width), form="logistic", precision=precision).model
    proved = verify(model, facts).proved_margin
    keys, _, values = facts.triples.T
    rng, rows = np.random.default_rng(0), np.arange(len(keys))
    for _ in range(20):
        order = rng.permutation(8)
        first, outputs = model.inputs[:, order], model.outputs
        if isinstance(model, LinearMemory):
            logits = first @ (model.weights[order] @ outputs.T) if order[0] % 2 else first @ model.weights[order]
            logits = logits if order[0] % 2 else logits @ outputs.T
        else:
            units = rng.permutation(24)
            hidden = np.maximum(first @ model.w_in[order][:, units], 0)
            logits = hidden @ (model.w_out[units] @ outputs.T)
        logits = logits.astype(np.float64)[keys]
        own = logits[rows, values].copy()
        logits[rows, values] = -inf
        assert (own - logits.max(axis=1)).min() >= proved


def test_what_is_not_certified_says_why():
    facts = associations(60, 60, kind="injective", seed=0)
    few = construct_memory(facts, MemoryShape(8), form="outer product").certificate
    assert not few.certified
    assert few.recalled < 60
    assert "of 60 facts are not recalled" in few.reason
    small = associations(4, 4, kind="injective", seed=0)
    model = construct_memory(small, MemoryShape(8), form="least squares").model
    for factor, reason in ((np.nan, "not a number"), (1e36, "overflow")):
        weights = (model.weights * factor).astype(np.float32)
        found = verify(LinearMemory(model.inputs, model.outputs, weights), small)
        assert reason in found.reason
        assert found.proved_margin == -inf
    assert verify(model, small).weights != found.weights


def test_small_and_wrong_databases():
    one = construct_memory(Database.from_facts([("Oslo", "f", "Norway")]), MemoryShape(3))
    assert one.certified
    assert one.certificate.margin == inf
    assert one.certificate["bits"] == 0
    shape, pair = MemoryShape(3), [("Oslo", "f", "Norway"), ("Oslo", "g", "Europe")]
    with pytest.raises(InputError, match="one query"):
        construct_memory(Database.from_facts(pair), shape)
    with pytest.raises(InputError, match="form must be one of"):
        construct_memory(one.data, shape, form="guess")
    with pytest.raises(InputError, match="1 inputs and 1 outputs"):
        verify(one.model, associations(2, 2, kind="injective", seed=0))
    mixed = MlpMemory(np.ones((1, 2), np.float32), np.ones((1, 2)), np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(InputError, match="same precision"):
        verify(mixed, one.data)
