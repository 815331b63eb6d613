"""`from_torch`: imported logits are those of the model, nothing is dropped, and everything else is refused."""

import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import factrank
from factrank.bridges.pytorch import from_torch
from factrank.bridges.self_check import layer_logits
from factrank.bridges.tensor_roles import Wiring
from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError, InputWarning
from one_layer_models import N_KEYS, N_QUERIES, N_VALUES, longhand, state_of

SIZES = (N_KEYS, N_QUERIES, N_VALUES)
TWO = Wiring(n_heads=2)
FACTS = Database(
    np.array([(0, 0, 0), (1, 0, 1), (2, 1, 2), (3, 2, 3), (3, 1, 4)]),
    *(Vocabulary(f"{axis}{code}" for code in range(n)) for axis, n in zip("kqv", SIZES, strict=True)),
)


def tensor_of(layer):
    """The layer's own forward pass, in its precision."""
    with jax.enable_x64(layer.w_q.dtype == "float64"), jax.default_matmul_precision("highest"):
        return np.asarray(layer.tensor()).astype(np.float64)


def equal(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(mine, theirs) for mine, theirs in leaves)


def worst(layer, logits):
    return np.abs(tensor_of(layer) - logits).max() / np.abs(logits).max()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.booleans())
@settings(max_examples=5)
def test_imported_logits_are_those_of_the_longhand_forward_pass(seed, d_model, n_heads, d_head, residual):
    wiring = Wiring(n_heads=n_heads, residual=residual)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        state = state_of(seed, d_model=d_model, n_heads=n_heads, d_head=d_head, dtype=dtype)
        layer = from_torch(state, FACTS, wiring=wiring)
        expected = longhand(state, n_heads, residual=residual)
        pairs = (codes.ravel() for codes in np.indices((N_KEYS, N_QUERIES)))
        found = layer_logits(layer, *pairs).reshape(expected.shape)
        # Relative to the largest logit of a model whose terms may cancel.
        assert np.abs(found - expected).max() <= tolerance * max(1.0, np.abs(expected).max()) * 10


def test_the_layers_own_forward_pass_gives_the_logits():
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        state = state_of(1, dtype=dtype)
        layer = from_torch(state, FACTS, wiring=TWO)
        assert layer.w_q.dtype == dtype
        assert layer.shape.d_model == 6 + 1
        assert worst(layer, longhand(state, 2)) <= tolerance


def test_weights_are_copied_bit_for_bit_next_to_the_constant_dimension():
    state = state_of()
    layer = from_torch(state, FACTS, wiring=TWO)
    first = state["emb.weight"][:N_KEYS] + state["pos_emb.weight"][0]
    assert (np.asarray(layer.embedding)[:N_KEYS, :6] == first).all()
    assert (np.asarray(layer.embedding)[:, 6] == 1).all()
    assert (np.asarray(layer.w_k)[1, :6] == state["attn.k_proj.weight"][3:].T).all()
    assert (np.asarray(layer.w_k)[1, 6] == state["attn.k_proj.bias"][3:]).all()
    assert (np.asarray(layer.w_o)[0, :, :6] == state["attn.o_proj.weight"].T[:3]).all()
    assert not np.asarray(layer.w_o)[:, :, 6].any()


def test_a_model_without_biases_needs_no_further_dimension():
    state = {name: part for name, part in state_of().items() if not name.endswith("bias")}
    layer = from_torch(state, FACTS, wiring=TWO)
    assert layer.shape.d_model == 6
    zeros = {name: 0 * part for name, part in state_of().items() if name.endswith("bias")}
    assert worst(layer, longhand(state | zeros, 2)) <= 1e-5


def test_dropping_a_bias_would_change_the_logits_and_is_refused():
    state = state_of()
    with pytest.raises(InputError, match=r"the role of 'attn\.b' is unknown, and dropping a tensor would change"):
        from_torch(state | {"attn.b": state["attn.q_proj.bias"]}, FACTS, wiring=TWO)
    for name in (name for name in state if name.endswith("bias")):
        without = {other: part for other, part in state.items() if other != name}
        zeroed = state | {name: 0 * state[name]}
        shift = np.abs(longhand(zeroed, 2) - longhand(state, 2)).max()
        assert shift <= 1e-12 if "k_proj" in name else shift > 1e-3  # the softmax cancels b_K
        assert equal(from_torch(without, FACTS, wiring=TWO), from_torch(zeroed, FACTS, wiring=TWO))


def other_layouts():
    """The same model in fused, transposed and stacked layouts, and with other names."""
    state = state_of(3)
    rest = {name: part for name, part in state.items() if "attn" not in name}
    fused = {
        "attention.in_proj_weight": np.concatenate([state[f"attn.{one}_proj.weight"] for one in "qkv"]),
        "attention.in_proj_bias": np.concatenate([state[f"attn.{one}_proj.bias"] for one in "qkv"]),
        "attention.out_proj.weight": state["attn.o_proj.weight"],
        "attention.out_proj.bias": state["attn.o_proj.bias"],
    }
    stacked = {
        **{f"attn.w_{one}": state[f"attn.{one}_proj.weight"].reshape(2, 3, 6).transpose(0, 2, 1) for one in "qkv"},
        **{f"attn.{one}.bias": state[f"attn.{one}_proj.bias"].reshape(2, 3) for one in "qkv"},
        "attn.w_o": state["attn.o_proj.weight"].T.reshape(2, 3, 6),
        "attn.o.bias": state["attn.o_proj.bias"],
    }
    transposed = {name: part.T if "proj.weight" in name else part for name, part in state.items()}
    matrix = Wiring(n_heads=2, layout={f"{one}_weight": "matrix" for one in "qkvo"})
    alone = rest | {"pos_emb.weight": rest["pos_emb.weight"][None]}
    tables = {name: part for name, part in rest.items() if name != "emb.weight"}
    split = {"key_emb.weight": state["emb.weight"][:N_KEYS], "query_emb.weight": state["emb.weight"][N_KEYS:]}
    renamed = {f"x{number}": part for number, part in enumerate(state.values())}
    roles = [
        "token_embedding",
        "position_embedding",
        *(f"{one}_{kind}" for kind in ("weight", "bias") for one in "qkv"),
    ]
    names = dict(zip((*roles, "o_weight", "o_bias", "unembedding", "unembedding_bias"), renamed, strict=True))
    return state, {
        "fused": (rest | fused, TWO, None),
        "stacked": (rest | stacked, None, None),
        "transposed": (transposed, matrix, None),
        "positions with a batch axis": (alone | fused, TWO, None),
        "two tables": (tables | split | fused, TWO, None),
        "names": (renamed | {"mask": np.tri(3, dtype=bool)}, TWO, names | {"ignored": ["mask"]}),
    }


@pytest.mark.parametrize("layout", other_layouts()[1])
def test_every_layout_gives_the_same_layer(layout):
    state, layouts = other_layouts()
    given, wiring, names = layouts[layout]
    layer = from_torch(given, FACTS, wiring=wiring, names=names)
    expected = from_torch(state, FACTS, wiring=TWO)
    assert equal(layer, expected)


def test_bfloat16_is_kept():
    state = {name: part.astype(jax.numpy.bfloat16) for name, part in state_of(4).items()}
    layer = from_torch(state, FACTS, wiring=TWO)
    assert layer.w_q.dtype == jax.numpy.bfloat16
    pairs = [codes.ravel() for codes in np.indices((N_KEYS, N_QUERIES))]
    expected = longhand(state, 2)
    found = layer_logits(layer, *pairs).reshape(expected.shape)
    assert np.abs(found - expected).max() <= 0.02 * np.abs(expected).max()  # b_O U + b_U and x + p are rounded
    mixed = from_torch(state | {"head.bias": state_of(4)["head.bias"]}, FACTS, wiring=TWO)
    assert mixed.w_q.dtype == "float32"


def test_another_scale_is_folded_into_the_queries():
    state = state_of(4, dtype="float64")
    scaled = {name: part / (2.0 if ".q_proj" in name else 1) for name, part in state.items()}
    layer = from_torch(state, FACTS, wiring=Wiring(n_heads=2, scale=2 * 3**0.5))
    assert worst(layer, longhand(scaled, 2)) <= 1e-12


# ---------------------------------------------------------------- tokens


def with_rows(state, keys, queries, values, n_tokens=20):
    """The same model with its tokens scattered over a vocabulary of inputs and outputs."""
    embedding, head, bias = np.full((n_tokens, 6), 9, "f4"), np.zeros((n_tokens, 6), "f4"), np.full(n_tokens, -50, "f4")
    embedding[keys], embedding[queries] = np.split(state["emb.weight"], [N_KEYS])
    head[values], bias[values] = state["head.weight"], state["head.bias"]
    return state | {"emb.weight": embedding, "head.weight": head, "head.bias": bias}


def test_tokens_by_name_by_lists_and_in_order():
    state = state_of(5)
    expected = tensor_of(from_torch(state, FACTS, wiring=TWO))
    rng = np.random.default_rng(0)
    ids = np.split(rng.permutation(20)[:12], [N_KEYS, N_KEYS + N_QUERIES])
    given = with_rows(state, *ids)
    every_name = [name for names in FACTS.vocabularies for name in names]
    by_name = dict(zip(every_name, np.concatenate(ids).tolist(), strict=True))
    for tokens, database in ((by_name, FACTS), (tuple(ids), None), ((by_name, ids[1], ids[2].tolist()), FACTS)):
        layer = from_torch(given, database, wiring=TWO, tokens=tokens, other_outputs="ignore")
        assert np.array_equal(tensor_of(layer), expected)
    in_order = with_rows(state, *np.split(np.arange(12), [N_KEYS, N_KEYS + N_QUERIES]), n_tokens=12)
    assert np.array_equal(tensor_of(from_torch(in_order, FACTS, wiring=TWO, other_outputs="ignore")), expected)


def test_other_outputs_are_refused_or_counted():
    given = with_rows(state_of(5), *np.split(np.arange(12), [N_KEYS, N_KEYS + N_QUERIES]), n_tokens=12)
    with pytest.raises(InputError, match="the model has 12 outputs, 5 of them values of the database"):
        from_torch(given, FACTS, wiring=TWO)
    loud = given | {"head.bias": given["head.bias"] + 1000 * (np.arange(12) == 3).astype("f4")}
    with pytest.warns(InputWarning, match="at 5 of 5 facts an output that is no value"):
        from_torch(loud, FACTS, wiring=TWO, other_outputs="ignore")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"k0": 0}, "no token for 3 keys: 'k1', 'k2', 'k3'"),
        (([0, 1, 2, 7], range(4, 7), range(5)), "token 7 of the keys is no embedding row: they are 0 to 6"),
        (([0, 1, 2, 2], range(4, 7), range(5)), "two keys have the same token 2"),
        (([0, 1, 2], range(4, 7), range(5)), "expected the tokens of 4 keys; got 3"),
        (([0, 1, 2, 3], range(4, 7), ["a"] * 5), r"must be an integer below 2\^62; the values have 'a', 'a', 'a'"),
        (([[0], [1, 2], 2, 3], range(4, 7), range(5)), r"the keys have \[0\], \[1, 2\]"),
        (([0, 1, 2, 2**70], range(4, 7), range(5)), "the keys have 1180591620717411303424"),
        (([0], [1]), "tokens must be a mapping from names to ids, or three of them"),
        (("abcd", [1], [1]), "the tokens of the keys must be a mapping or a list of ids"),
    ],
)
def test_bad_tokens_are_named(tokens, message):
    with pytest.raises(InputError, match=message):
        from_torch(state_of(), FACTS, wiring=TWO, tokens=tokens)


def test_ambiguous_order_is_refused():
    state = state_of()
    with pytest.raises(InputError, match="which tokens are keys, queries and values"):
        from_torch(state | {"emb.weight": np.ones((9, 6), "f4")}, FACTS, wiring=TWO)
    with pytest.raises(InputError, match="Pass a database, or tokens="):
        from_torch(state, wiring=TWO)


# ---------------------------------------------------------------- what is refused


def gpt2():
    block = {"ln_1.weight": (6,), "attn.c_attn.weight": (6, 18), "mlp.c_fc.weight": (6, 24)}
    names = {f"transformer.h.{n}.{name}": size for n in range(12) for name, size in block.items()}
    return {name: np.zeros(size, "f4") for name, size in {"transformer.wte.weight": (9, 6), **names}.items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: gpt2(), "not a one-layer attention-only model: it has 12 layers and an MLP and norms"),
        (lambda s: s | {"mlp.fc1.weight": s["head.weight"]}, "it has an MLP, which cannot be folded"),
        (lambda s: s | {"norm.weight": s["head.bias"]}, "it has norms, which cannot be folded"),
        (lambda s: s | {"attn.bias_k": s["head.bias"]}, "extra keys and values"),
        (lambda s: s | {"attn.q_proj.weight": s["attn.q_proj.weight"].astype("f2")}, "has the type float16"),
        (lambda s: s | {"attn.q_proj.weight": s["attn.q_proj.weight"].astype("i1")}, "quantised weights must be"),
        (lambda s: s | {"head.weight": s["head.weight"] * np.nan}, "'head.weight' contains NaN"),
        (lambda s: s | {"head.weight": s["head.weight"][:, :0]}, "'head.weight' must not be empty"),
        (
            lambda s: s | {"emb.weight": np.ones((), "f4")},
            "'emb.weight' must not be empty or a single number",
        ),
        (lambda s: {k: v.astype("f8") * 1e200 for k, v in s.items()}, "so large that logits overflow"),
        (lambda s: s | {"head.bias": s["head.bias"][:3]}, r"the unembedding_bias must have shape \[5\]"),
        (lambda s: s | {"attn.q_proj.bias": s["attn.q_proj.bias"].reshape(3, 2)}, r"the q_bias must have shape \[6\]"),
        (lambda s: s | {"attn.q_proj.weight": s["attn.q_proj.weight"][:5]}, "the q_weight must map 6 dimensions"),
        (lambda s: s | {"attn.k_proj.weight": np.ones((8, 6), "f4"), "attn.k_proj.bias": np.ones(8, "f4")}, "k_weight"),
        (lambda s: s | {"pos_emb.weight": s["pos_emb.weight"][:1]}, "position_embedding must be"),
        (lambda s: s | {"head.weight": [1.0]}, "'head.weight' must be a tensor or an array; got list"),
        (lambda s: s | {"lm_head.weight": s["head.weight"]}, "'head.weight' and 'lm_head.weight' both look like"),
        (lambda s: {k: v for k, v in s.items() if "head" not in k}, "no tensor for unembedding"),
        (lambda s: {k: v for k, v in s.items() if "v_proj" not in k}, "no tensor for v_weight"),
        (lambda s: {k: v for k, v in s.items() if k != "emb.weight"}, "expected a token_embedding"),
        (lambda s: {3: s["head.weight"]}, "the names in a state dict must be strings"),
        (lambda _: {}, "the state dict is empty"),
        (lambda _: "model.pt", "expected a torch.nn.Module or a state dict"),
    ],
)
def test_what_is_no_such_model_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        from_torch(change(state_of()), FACTS, wiring=TWO)


def test_bad_wiring_and_names_are_refused():
    for wiring in ({"n_heads": 0}, {"scale": -1.0}, {"layout": "rows"}, {"layout": {"q": "linear"}}):
        with pytest.raises(InputError):
            Wiring(**wiring)
    with pytest.raises(InputError, match="does not record the number of heads"):
        from_torch(state_of(), FACTS)
    with pytest.raises(InputError, match="no tensor 'missing' in the state dict"):
        from_torch(state_of(), FACTS, wiring=TWO, names={"unembedding": "missing"})
    with pytest.raises(InputError, match="no role 'unembeding' in names; did you mean 'unembedding'"):
        from_torch(state_of(), FACTS, wiring=TWO, names={"unembeding": "head.weight"})
    with pytest.raises(InputError, match="other_outputs must be"):
        from_torch(state_of(), FACTS, wiring=TWO, other_outputs="drop")


def test_arrays_need_no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert from_torch(state_of(), FACTS, wiring=TWO).n_values == N_VALUES


# ---------------------------------------------------------------- modules


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="extra 'torch' is not installed: pip install 'factrank[torch]'")


@pytest.fixture(scope="module")
def module_class(torch):
    nn = torch.nn

    class Reader(nn.Module):
        def __init__(self, *, residual=True, **options):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(N_KEYS + N_QUERIES, 8), nn.Embedding(2, 8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5, **options)
            self.unembedding = nn.Linear(8, N_VALUES)
            self.residual = residual
            with torch.random.fork_rng():
                torch.manual_seed(0)
                for parameter in self.parameters():
                    nn.init.normal_(parameter, std=0.7)

        def forward(self, tokens):
            x = self.embedding(tokens) + self.positions(torch.arange(2))
            mixed, _ = self.attention(x, x, x, need_weights=False)
            return self.unembedding(x + mixed if self.residual else mixed)

    return Reader


def test_a_module_is_compared_with_its_own_forward_pass(torch, module_class):
    module = module_class()
    layer = from_torch(module, FACTS)
    assert module.training
    tokens = torch.cartesian_prod(torch.arange(N_KEYS), N_KEYS + torch.arange(N_QUERIES))
    logits = module.eval()(tokens)[:, -1].detach().numpy().reshape(N_KEYS, N_QUERIES, N_VALUES)
    assert worst(layer, logits) <= 1e-5
    same = from_torch(module.state_dict(), FACTS, wiring=TWO)
    assert equal(layer, same)


def test_a_module_that_computes_something_else_is_refused(torch, module_class):
    silent = module_class(residual=False)
    with pytest.raises(InputError, match=r"the module's own forward pass differ: by .*Wiring\(residual"):
        from_torch(silent, FACTS)
    assert from_torch(silent, FACTS, wiring=Wiring(residual=False)).shape.d_model == 17
    with pytest.raises(InputError, match="attends to extra keys"):
        from_torch(module_class(add_zero_attn=True), FACTS)
    with pytest.raises(InputError, match="attends to extra keys"):
        from_torch(module_class(add_bias_kv=True), FACTS)
    with pytest.raises(InputError, match="has 2 heads; the wiring says 4"):
        from_torch(module_class(), FACTS, wiring=Wiring(n_heads=4))
    with pytest.raises(InputError, match="could not run the module: TypeError"):
        from_torch(module_class(), FACTS, forward=lambda module: None)
    with pytest.raises(InputError, match="must return logits"):
        from_torch(module_class(), FACTS, forward=lambda module, keys, queries: keys)


def test_a_trained_module_is_certified_until_a_fact_changes(torch, module_class):
    module = module_class().eval()
    keys, queries, values = torch.from_numpy(FACTS.triples.astype(np.int64)).T
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(40):
        optimiser.zero_grad()
        logits = module(torch.stack([keys, N_KEYS + queries], dim=1))[:, -1]
        torch.nn.functional.cross_entropy(logits, values).backward()
        optimiser.step()
    layer = from_torch(module, FACTS)
    assert factrank.verify(layer, FACTS).certified
    changed = FACTS.triples.copy()
    changed[0, 2] = (changed[0, 2] + 1) % N_VALUES
    found = factrank.verify(layer, Database(changed, *FACTS.vocabularies))
    assert not found.certified
    assert found.recalled == len(FACTS) - 1
