"""Solved memorisers: certified exactly up to the predicted rank; and what their certificates refuse."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.certificates.arithmetic import ARITHMETIC
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.memoriser.examples.example_vectors import stored
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.families.memoriser.memoriser import Memoriser, draw_memoriser, memoriser_of, sinusoids
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.ranks.label_ranks import memoriser_capacity
from factrank.families.memoriser.solving.memoriser_fit import features_of
from factrank.families.memoriser.solving.memoriser_proof import OutputProver, ProvedOutputs, leads, plain_memoriser
from factrank.families.memoriser.solving.memoriser_solve import solve, started_memoriser

PLAIN = MemoriserShape(n_heads=3, d_model=6, d_qk=4, embedded=False, positions=False)
FULL = MemoriserShape(n_heads=3, d_model=6, d_qk=4, d_vo=2)
CASES = [(PLAIN, 6, 1), (PLAIN, 6, None), (PLAIN, 6, 2), (FULL, 6, 1), (FULL, 6, None), (FULL, 4, 1), (FULL, 4, 5)]
"""Shape, d_input, contexts; contexts have 4 tokens."""


def examples_at(shape: MemoriserShape, d_input: int, n_contexts: int | None, more: int = 0, n_classes=None):
    """As many examples as can be memorised, and some more."""
    rng = np.random.default_rng(1)
    total = more + memoriser_capacity(shape, context_size=4, d_input=d_input, n_contexts=n_contexts)
    queries, contexts = rng.random((total, d_input)), rng.random((n_contexts or total, 4, d_input))
    labels = rng.random(total) if n_classes is None else rng.integers(n_classes, size=total)
    numbers = np.arange(total) % len(contexts)
    return VectorExamples.of(queries, contexts, labels, context_of=numbers, n_classes=n_classes)


def slow_outputs(model: Memoriser, examples: VectorExamples, real: type = np.float64) -> np.ndarray:
    """Straight from the definition, token by token, in the order that textbooks have."""
    weights = {
        name: np.asarray(part).astype(real)
        for name, part in vars(model).items()
        if name != "shape" and part is not None
    }
    places = sinusoids(examples.context_size + 1, model.shape.d_model) * model.shape.positions
    rows = []
    for query, number in zip(examples.queries.astype(real), examples.context_of, strict=True):
        tokens = np.concatenate([query[None], examples.contexts[number].astype(real)])
        if model.shape.embedded:
            tokens = tokens @ weights["embedding"] + weights["embedding_bias"]
        tokens = tokens + places.astype(real)
        stream = np.zeros(model.shape.d_model, real)
        for head in range(model.shape.n_heads):
            scores = (tokens[1:] @ weights["w_k"][head]) @ (tokens[0] @ weights["w_q"][head])
            scores = scores / real(model.shape.score_divisor)
            raised = np.exp(scores - scores.max())
            stream = stream + (raised / raised.sum()) @ tokens[1:] @ weights["w_v"][head] @ weights["w_o"][head]
        rows.append(stream @ weights["decoder"] + weights["decoder_bias"])
    return np.array(rows)


@pytest.mark.parametrize(("shape", "d_input", "n_contexts"), CASES)
def test_certified_at_the_predicted_number_and_refused_beyond(shape, d_input, n_contexts) -> None:
    examples = examples_at(shape, d_input, n_contexts)
    solved = solve(examples, shape)
    assert solved.certified, solved.certificate.reason
    assert solved["fit"].rank == solved["predicted"].rank == examples.n_examples
    assert solved["fit"].residual < 1e-9
    errors = np.abs(slow_outputs(solved.model, examples)[:, 0] - examples.labels)
    assert errors.max() <= solved.certificate["proved_error"] < 1e-5
    closer = verify(solved.model, examples, tolerance=0.9 * solved.certificate["proved_error"])
    assert (closer.certified, closer.recall) == (False, 1.0)  # right, but not in every order of evaluation
    assert closer.reason.endswith("labels are not proved to be recalled")
    beyond = solve(examples_at(shape, d_input, n_contexts, more=1), shape)
    assert not beyond.certified
    assert beyond["fit"].rank == beyond["predicted"].rank == examples.n_examples
    assert beyond["fit"].condition < 1e12  # of the part that is not 0
    assert "labels are not recalled" in beyond.certificate.reason
    assert any("more than the rank" in advice for advice in beyond["advice"])


@pytest.fixture(scope="module")
def classes() -> VectorExamples:
    return examples_at(FULL, 6, None, n_classes=7)


@pytest.fixture(scope="module")
def solved(classes: VectorExamples):
    return solve(classes, FULL)


@pytest.mark.optimised
def test_classes_are_strict_winners_with_values_of_width_one(classes, solved) -> None:
    logits = slow_outputs(solved.model, classes)
    others = logits.copy()
    others[np.arange(len(others)), classes.labels] = -np.inf
    margins = logits[np.arange(len(logits)), classes.labels] - others.max(axis=1)
    assert solved.certified
    assert margins.min() >= solved.certificate.proved_margin > 15.99
    narrow = solve(classes, replace(FULL, d_vo=1))
    assert narrow.certified
    assert verify(narrow.model, classes).to_dict()["recalled"] == classes.n_examples


def changed(model: Memoriser, name: str, change) -> Memoriser:
    return eqx.tree_at(lambda held: getattr(held, name), model, change(np.array(getattr(model, name))))


def test_a_tampered_weight_is_refused(classes, solved) -> None:
    def tampered(weights):
        weights[1, 2, 0] += 1.0
        return weights

    found = verify(changed(solved.model, "w_v", tampered), classes)
    assert not found.certified
    assert found.weights != solved.certificate.weights
    assert "classes are not recalled" in found.reason


def test_a_swapped_label_is_refused(classes, solved) -> None:
    assert verify(solved.model, classes).certified
    labels = classes.labels.copy()
    labels[3] = (labels[3] + 1) % 7
    found = verify(solved.model, replace(classes, labels=labels))
    assert (found.certified, found.recalled, found.worst) == (False, classes.n_examples - 1, 3)
    assert found.proved_margin < 0
    assert found.database != solved.certificate.database


@pytest.mark.parametrize(("value", "reason"), [(np.nan, "not a number"), (np.inf, "infinite"), (1e306, "overflow")])
def test_weights_that_prove_nothing_are_refused(classes, solved, value: float, reason: str) -> None:
    def spoiled(weights):
        weights[0, 0, 1] = value  # of values that no head writes
        return weights

    found = verify(changed(solved.model, "w_v", spoiled), classes)
    assert not found.certified
    assert found.proved_margin == -np.inf
    assert found.margin == -np.inf or np.isfinite(value)
    assert reason in found.reason


def test_large_scores_leave_nothing_proved(classes, solved) -> None:
    found = verify(changed(solved.model, "w_q", lambda weights: weights * 1e13), classes)
    assert not found.certified
    assert "not proved" in found.reason


def test_float32_weights_are_proved_in_float64(classes) -> None:
    model = started_memoriser(FULL, classes, rng=np.random.default_rng(0))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(model)} == {"float32"}
    wide, own = verify(model, classes, precision="float64"), verify(model, classes)
    assert wide.certified
    assert (own.recall, own.precision) == (1.0, "float32")
    assert own.proved_margin < wide.proved_margin
    with pytest.raises(InputError, match="represents them exactly"):
        verify(model, classes, precision="bfloat16")


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.booleans(), st.booleans(), st.integers(1, 3))
def test_bounds_hold_for_other_orders_of_evaluation(seed: int, embedded: bool, positions: bool, d_vo: int) -> None:
    shape = MemoriserShape(2, 5, 3, d_vo, embedded=embedded, positions=positions)
    rng = np.random.default_rng(seed)
    vectors = VectorExamples.of(
        rng.normal(size=(6, 5)).astype(np.float32),
        rng.normal(size=(2, 3, 5)).astype(np.float32),
        rng.random(6),
        context_of=np.arange(6) % 2,
    )
    model = draw_memoriser(shape, 5, 1, rng=rng)
    prover = OutputProver(plain_memoriser(model, 3, np.dtype(np.float32)), ARITHMETIC["float32"])
    proved = prover.proved(vectors)
    assert len(proved.outputs) == 6
    single = slow_outputs(model, vectors, np.float32).astype(np.float64)
    assert (np.abs(single - proved.outputs) <= proved.errors).all()
    assert (proved.errors < 1e-2).all()
    # A relative change of any weight by the unit roundoff is within the bound too: a rounding could be that.
    for name in ("w_q", "w_k", "w_v", "w_o", "decoder"):
        part = np.asarray(getattr(model, name)).astype(np.float64)
        moved = plain_memoriser(model, 3, np.dtype(np.float32))._replace(
            **{name: part * (1 + 2.0**-24 * rng.choice([-1, 1], part.shape))}
        )
        shifted = OutputProver(moved, ARITHMETIC["float64"]).proved(vectors)
        assert (np.abs(shifted.outputs - proved.outputs) <= proved.errors).all()


@pytest.mark.parametrize("where", ["scores", "values"])
def test_the_bound_grows_with_what_cancels(where: str) -> None:
    rng = np.random.default_rng(0)
    queries, contexts = rng.random((40, 2)).astype(np.float32) + 1, rng.random((40, 3, 2)).astype(np.float32)
    contexts[:, :, 0] = 1.0  # all tokens share it: scores are q (common + x), values common + x
    vectors = VectorExamples.of(queries, contexts, rng.random(40))

    def outputs(common: float):
        in_scores, in_values = (common, 0.0) if where == "scores" else (0.0, common)
        columns = {"w_q": [1.0, 0.0], "w_k": [in_scores, 1.0], "w_v": [in_values, 1.0], "decoder": [1.0, 0.0]}
        parts = {name: np.array(column, np.float32).reshape(1, 2, 1) for name, column in columns.items()}
        parts |= {"w_o": np.eye(1, 2, dtype=np.float32)[None], "decoder": parts["decoder"][0]}
        parts["decoder_bias"] = np.array([-in_values], np.float32)
        model = memoriser_of(MemoriserShape(1, 2, 1, embedded=False, positions=False), parts)
        prover = OutputProver(plain_memoriser(model, 3, np.dtype(np.float32)), ARITHMETIC["float32"])
        return prover.proved(vectors), slow_outputs(model, vectors, np.float32)

    (small, _), (large, computed) = outputs(1.0), outputs(1e5)
    errors = np.abs(computed - large.outputs)
    assert (errors <= large.errors).all()
    assert errors.max() > 10 * small.errors.max()


def test_a_lead_is_what_errors_leave() -> None:
    proved = ProvedOutputs(np.array([[3.0, 1.0, 2.0]] * 2), np.array([[0.5, 0.125, 0.25]] * 2))
    assert leads(proved, np.array([0, 1])).tolist() == [0.25, -2.625]


def test_positions_are_those_of_the_precision() -> None:
    model = draw_memoriser(FULL, 6, 1, rng=np.random.default_rng(0))
    places = plain_memoriser(model, 9, np.dtype(np.float32)).positions
    assert (places == sinusoids(10, 6).astype(np.float32)).all()
    assert not (places == sinusoids(10, 6)).all()


def test_small_blocks_answer_as_one(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    examples = VectorExamples.of(rng.random((130, 6)), rng.random((130, 4, 6)), rng.integers(3, size=130))
    model = draw_memoriser(FULL, 6, 3, rng=rng, dtype="float64")
    whole = verify(model, examples)
    logits = slow_outputs(model, examples)
    right = logits[np.arange(130), examples.labels] > np.where(np.eye(3)[examples.labels], -np.inf, logits).max(axis=1)
    assert whole.recalled == right.sum()
    monkeypatch.setattr("factrank.certificates.blocks.BLOCK_CELLS", 1)
    parts = verify(model, examples)
    assert (parts.recalled, parts.worst, parts.reason) == (whole.recalled, whole.worst, whole.reason)
    np.testing.assert_allclose([parts.margin, parts.proved_margin], [whole.margin, whole.proved_margin], rtol=1e-6)


def test_features_in_small_blocks_are_what_heads_read(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    examples = VectorExamples.of(rng.random((130, 6)), rng.random((1, 4, 6)), rng.random(130))
    model = draw_memoriser(FULL, 6, 1, rng=rng, dtype="float64")
    monkeypatch.setattr("factrank.certificates.blocks.BLOCK_CELLS", 1)
    with jax.enable_x64(True):
        features = np.asarray(features_of(model, examples, np.dtype(np.float64)))
    values = np.concatenate([(model.w_v @ model.w_o @ model.decoder).ravel(), model.decoder_bias])
    np.testing.assert_allclose(features @ values, slow_outputs(model, examples)[:, 0], rtol=1e-9)


def test_random_examples_are_solved_as_their_arrays_are() -> None:
    examples = RandomExamples(13, 4, 6, n_classes=3, n_contexts=2)
    drawn, given = solve(examples, PLAIN), solve(stored(examples), PLAIN)
    assert drawn.certified
    assert drawn.certificate.weights == given.certificate.weights
    assert drawn.certificate.database == examples.fingerprint


def test_narrow_heads_and_flat_scores_are_advised_against() -> None:
    shape = MemoriserShape(n_heads=3, d_model=12, d_qk=1, embedded=False, positions=False)
    rng = np.random.default_rng(0)
    examples = VectorExamples.of(rng.random((31, 12)), rng.random((11, 12)), rng.random(31))
    flat = solve(examples, shape, logit_std=0.1)
    assert flat["predicted"].rank == 31
    assert not flat.certified
    assert any("d_qk >= 4" in advice for advice in flat["advice"])
    assert any("take about 2" in advice for advice in flat["advice"])


def test_ridge_shrinks_the_values_and_leaves_a_residual() -> None:
    examples = examples_at(PLAIN, 6, 1)
    exact, shrunk = (solve(examples, PLAIN, ridge=ridge) for ridge in (0.0, 1e-2))
    assert np.linalg.norm(shrunk["fit"].solution) < np.linalg.norm(exact["fit"].solution)
    assert exact["fit"].residual < 1e-9 < 1e-3 < shrunk["fit"].residual
    assert not shrunk.certified


def test_equal_tokens_and_equal_queries_are_solved_as_far_as_they_go() -> None:
    rng = np.random.default_rng(0)
    contexts = np.repeat(rng.normal(size=(9, 1, 6)), 4, axis=1) * (1 + 1e-16 * rng.normal(size=(9, 4, 6)))
    solved = solve(VectorExamples.of(np.ones((9, 6)), contexts, rng.random(9)), PLAIN)
    assert solved["fit"].rank == 7  # equal tokens, but for rounding: heads are useless
    assert np.abs(solved.model.w_q).max() < 10
    assert any("rank 7 of 9" in advice for advice in solved["advice"])
    same = VectorExamples.of(np.ones((19, 6)), rng.normal(size=(19, 4, 6)), rng.random(19))
    assert solve(same, PLAIN).certified


@pytest.mark.parametrize(
    ("shape", "precision", "vectors", "labels"),
    [
        (FULL, "float64", 1e200, 1.0),
        (FULL, "float64", 1.7e308, 1.0),
        (PLAIN, "float64", 1e200, 1.0),
        (FULL, "float64", 1e-200, 1.0),
        (PLAIN, "float64", 1e-200, 1.0),
        (FULL, "float32", 1e60, 1.0),
        (PLAIN, "float32", 1e25, 1.0),
        (FULL, "float64", 1.0, 1e300),
        (FULL, "float32", 1.0, 1e60),
    ],
)
def test_sizes_out_of_range_are_named(shape, precision, vectors: float, labels: float) -> None:
    examples = examples_at(shape, 6, 1)
    scaled = VectorExamples.of(vectors * examples.queries, vectors * examples.contexts, labels * examples.labels)
    what = "vectors" if labels == 1 else "labels"
    with pytest.raises(InputError, match=f"the {what} are too large or too small to solve for in {precision}; scale"):
        solve(scaled, shape, precision=precision)


def test_labels_beyond_the_tolerance_are_advised_against() -> None:
    examples = examples_at(PLAIN, 6, 1)
    large = replace(examples, labels=1e14 * examples.labels)
    [advice] = solve(large, PLAIN)["advice"]
    assert advice.endswith("by rounding alone, more than the tolerance 0.0001: scale the labels, or allow more")
    assert solve(large, PLAIN, tolerance=1e8).certified


def test_refuses_what_it_cannot_solve(classes, solved) -> None:
    with pytest.raises(InputError, match="logit_std must be a positive number"):
        solve(classes, FULL, logit_std=0.0)
    with pytest.raises(InputError, match="ridge must be 0 or a positive number; got -1"):
        solve(classes, FULL, ridge=-1.0)
    with pytest.raises(InputError, match="d_model = 6 dimensions"):
        solve(RandomExamples(5, 4, 8), PLAIN)
    with pytest.raises(InputError, match="too many for a dense solve"):
        solve(RandomExamples(10**6, 4, 64), MemoriserShape())
    with pytest.raises(InputError, match="and 7 outputs, but the examples need 4 and 1"):
        verify(solved.model, RandomExamples(5, 4, 4))
    with pytest.raises(InputError, match="tolerance of real labels"):
        verify(solved.model, classes, tolerance=0.0)
