"""The decoder against a forward pass written in PyTorch, and its loss over the vocabulary against the plain formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.language import vocabulary_loss
from factrank.families.language.language_model import draw_language_model, init_language_model
from factrank.families.language.language_shape import EMBEDDINGS, LanguageShape
from factrank.families.language.vocabulary_loss import embedded, next_tokens, total_cross_entropy
from factrank.nn import to_arrays

torch = pytest.importorskip("torch")

SHAPES = {
    "rope, swiglu, tied": LanguageShape(12, 3, 4, 6, n_layers=2, mlp_width=10),
    "learned, attention alone, free": LanguageShape(8, 2, 3, 5, n_layers=2, positions="learned", tied=False, context=9),
}


def plain_logits(shape, parts, tokens):
    """The logits of one sequence in PyTorch, in float64, head by head."""
    part = {name: torch.from_numpy(np.asarray(array, np.float64)) for name, array in parts.items()}
    length = len(tokens)
    x = part["embedding"][torch.tensor(tokens)]
    if shape.positions == "learned":
        x = x + part["positions"][:length]

    def normed(stream, gain):
        return gain * stream / torch.sqrt((stream**2).mean(-1, keepdim=True) + 1e-6)

    def turned(vectors):
        if shape.positions == "learned":
            return vectors
        half = shape.d_qk // 2
        angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        pairs = torch.complex(vectors[:, :half], vectors[:, half:]) * torch.exp(1j * angle.to(torch.float64))
        return torch.cat([pairs.real, pairs.imag], dim=1)

    mask = torch.full((length, length), -torch.inf).triu(1)
    for layer in range(shape.n_layers):
        at = normed(x, part["attention_norm"][layer])
        for head in range(shape.n_heads):
            q, k = (turned(at @ part[name][layer, head]) for name in ("w_q", "w_k"))
            weights = torch.softmax(q @ k.T / shape.d_qk**0.5 + mask, dim=1)
            x = x + weights @ (at @ part["w_v"][layer, head]) @ part["w_o"][layer, head]
        if shape.mlp_width:
            at = normed(x, part["mlp_norm"][layer])
            hidden = torch.nn.functional.silu(at @ part["w_gate"][layer]) * (at @ part["w_up"][layer])
            x = x + hidden @ part["w_down"][layer]
    return (normed(x, part["final_norm"]) @ part.get("unembedding", part["embedding"]).T).numpy()


def unlike_ones(model):
    """The model with gains that differ from 1."""
    rng = np.random.default_rng(5)
    return jax.tree.map(lambda leaf: leaf * jnp.asarray(rng.uniform(0.5, 2, leaf.shape), leaf.dtype), model)


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_those_of_a_plain_forward_pass(name):
    shape, tokens = SHAPES[name], np.random.default_rng(0).integers(7, size=9)
    model = unlike_ones(init_language_model(shape, 7, key=1))
    np.testing.assert_allclose(model(tokens), plain_logits(shape, to_arrays(model), tokens), atol=1e-5)
    assert model.parameters == shape.parameters(7)
    inner = {part: array.size for part, array in to_arrays(model).items() if part not in EMBEDDINGS}
    assert shape.inner_parameters == sum(inner.values())


def test_a_removed_part_adds_nothing():
    shape, tokens = SHAPES["rope, swiglu, tied"], jnp.arange(6)[None]
    model = init_language_model(shape, 7, key=1)
    without = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf.at[1].set(0) if "w_down" in str(path) else leaf, model
    )
    np.testing.assert_allclose(model.states(tokens, [("mlp", 1)]), without.states(tokens), atol=1e-6)


def test_scores_are_scaled_through_the_queries():
    shape = SHAPES["learned, attention alone, free"]
    model = init_language_model(shape, 7, key=1)
    parts = to_arrays(model)
    doubled = to_arrays(model.scaled_scores(2.0))
    np.testing.assert_array_equal(doubled.pop("w_q"), 2 * parts.pop("w_q"))
    assert all(np.array_equal(doubled[name], parts[name]) for name in parts)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"d_qk": 3}, "d_qk must be even with rotary positions"),
        ({"mlp_width": -1}, "mlp_width"),
        ({"n_layers": 0}, "n_layers"),
        ({"rope_base": 1.0}, "rope_base must be above 1"),
    ],
)
def test_impossible_shapes_are_refused(sizes, message):
    with pytest.raises(InputError, match=message):
        LanguageShape(**{"d_model": 8, "n_heads": 1, "d_qk": 4, "d_vo": 4} | sizes)


def test_the_same_seed_gives_the_same_weights():
    shape = SHAPES["rope, swiglu, tied"]
    first, again = (draw_language_model(shape, 7, rng=np.random.default_rng(3)) for _ in range(2))
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(again)))


# -------------------------------------------------------------------- the loss


@pytest.fixture
def rows():
    rng = np.random.default_rng(2)
    states, outputs = (rng.standard_normal(size).astype(np.float32) for size in ((11, 4), (6, 4)))
    targets, weights = rng.integers(6, size=11).astype(np.int32), rng.uniform(0, 2, 11).astype(np.float32)
    return tuple(map(jnp.asarray, (states, outputs, targets, weights)))


@pytest.mark.parametrize("most", [6, 25, 10**6])  # a row, four rows and all rows at a time
def test_the_chunked_loss_and_its_gradients_are_those_of_the_formula(rows, most, monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", most)
    states, outputs, targets, weights = rows

    def plain(states, outputs):
        logits = states @ outputs.T
        return (weights * (jax.nn.logsumexp(logits, axis=1) - logits[np.arange(11), targets])).sum()

    def chunked(states, outputs):
        return 3 * total_cross_entropy(states, outputs, targets, weights)

    loss, slopes = jax.value_and_grad(chunked, argnums=(0, 1))(states, outputs)
    expected, expected_slopes = jax.value_and_grad(plain, argnums=(0, 1))(states, outputs)
    np.testing.assert_allclose(loss, 3 * expected, rtol=1e-5)
    np.testing.assert_allclose(total_cross_entropy(states, outputs, targets, weights), expected, rtol=1e-5)
    for found, wanted in zip(slopes, expected_slopes, strict=True):
        np.testing.assert_allclose(found, 3 * wanted, atol=1e-5)


@pytest.mark.parametrize("most", [12, 10**6])
def test_the_gradient_of_embeddings_is_that_of_looking_them_up(rows, most, monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", most)
    states, outputs, tokens, _ = rows

    def loss(embedding, look_up):
        return (states * look_up(embedding, tokens) ** 2).sum()

    expected = jax.grad(loss)(outputs, lambda embedding, at: embedding[at])
    found = jax.grad(loss)(outputs, embedded)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    text = str(jax.make_jaxpr(jax.grad(lambda embedding: loss(embedding, embedded)))(outputs))
    assert "scatter" not in text


def test_no_array_holds_the_logits_of_a_batch(rows, monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", 12)
    text = str(jax.make_jaxpr(jax.grad(total_cross_entropy, argnums=(0, 1)))(*rows))
    assert "f32[2,6]" in text
    assert "f32[11,6]" not in text
    assert "f32[12,6]" not in text


def test_predictions_are_right_if_no_other_logit_is_as_large(rows):
    states, outputs, targets, _ = rows
    outputs = jnp.concatenate([outputs, outputs[:1]])  # two equal tokens: a tie
    logits = states @ outputs.T
    found = next_tokens(states, outputs, targets)
    own = logits[np.arange(11), targets]
    others = np.where(np.arange(7) == targets[:, None], -np.inf, logits).max(axis=1)
    np.testing.assert_allclose(found.margins, own - others, atol=1e-5)
    np.testing.assert_array_equal(found.right, found.margins > 0)
    assert not found.right[targets == 0].any()
    np.testing.assert_allclose(found.losses, np.logaddexp.reduce(logits, axis=1) - own, rtol=1e-5)
