"""Trials that show the options of every family, as plain data; what is given is named in the place of a fingerprint."""

from __future__ import annotations

from typing import Any

Trial = dict[str, Any]

FACTS = {"kind": "generated", "generator": "uniform"}
SMALL = FACTS | {"arguments": {"n_keys": 6, "n_queries": 3, "n_values": 5, "seed": 0}}
WIDE = FACTS | {"arguments": {"n_keys": 20, "n_queries": 10, "n_values": 20, "seed": 0}}
SPARSE = FACTS | {"arguments": {"n_keys": 9, "n_queries": 4, "n_values": 7, "n_facts": 20, "seed": 1}}
PAIRS = {
    "kind": "generated",
    "generator": "associations",
    "arguments": {"n_inputs": 10, "n_outputs": 6, "kind": "random", "seed": 0},
}
SPOKEN = {
    "kind": "generated",
    "generator": "answer-sets",
    "arguments": {"n_keys": 6, "n_queries": 3, "answers_per_query": 4, "structure": "structured", "seed": 0},
}
VECTORS = {"kind": "random_examples", "n_examples": 30, "context_size": 4, "d_input": 6}
TOKENS = {"kind": "token_examples", "n_examples": 6, "context_size": 4}

LAYER = {"kind": "attention", "d_model": 4, "n_heads": 2, "d_qk": 2, "d_vo": 2}
TRANSFORMER = LAYER | {"kind": "transformer"}
MEMORY = {"kind": "memory", "d_model": 4}
SEQUENCE = {"kind": "sequence", "d_model": 8, "n_heads": 2, "d_qk": 2, "d_vo": 4, "length": 8, "n_noise": 5}
ONE_HOT = {"kind": "one_hot", "length": 8, "n_noise": 5}
MEMORISER = {"kind": "memoriser", "n_heads": 2, "d_model": 6, "d_qk": 3}

CURVE = [0, 5, 20]
EVERYTHING = {
    "tau_recall": {"taus": [0.95, 0.5]},
    "hallucinations": {},
    "epochs_to": {},
    "ranks": {},
    "additive": {},
    "readings": {
        "taus": [0.5, 0.9],
        "temperatures": [0.5, 1.0],
        "precisions": ["float32", "float64"],
        "ranks": True,
    },
}


def _trial(
    data: Trial,
    model: Trial,
    *,
    epochs: int = 20,
    measures: dict[str, Trial] | None = None,
    start: str = "drawn",
    **training: Any,
) -> Trial:
    """A trial with a curve."""
    asked = {"curve": {"epochs": [epoch for epoch in CURVE if epoch <= epochs]}, **(measures or {})}
    return {
        "version": 2,
        "data": data,
        "model": model,
        "training": {"epochs": epochs, **training},
        "measures": [{"kind": kind, **options} for kind, options in asked.items()],
        "start": start,
        "seed": 3,
    }


def _lanes(data: Trial, model: Trial, **options: Any) -> Trial:
    return _trial(data, model, precision="float64", **options)


def _shown(kind: str, facts: Trial, **options: Any) -> Trial:
    return {"kind": kind, "facts": facts, **options}


def _given(name: str) -> Trial:
    return {"kind": "given", "fingerprint": name}


_FUSED = {
    "attention fused": _trial(SMALL, LAYER, epochs=200),
    "attention fused wide": _trial(WIDE, LAYER | {"d_model": 10, "d_qk": 5, "d_vo": 5}, epochs=500),
    "attention fused given": _trial(_given("astrid"), LAYER, epochs=500, stop="recall_tau"),
    "attention fused measured": _trial(SPARSE, LAYER, epochs=300, measures=EVERYTHING),
    "attention fused decay": _trial(SPARSE, LAYER, epochs=100, weight_decay=0.1),
    "attention fused frozen": _trial(SMALL, LAYER, epochs=100, frozen=["w_k", "w_q"], score_scale=0.5),
    "attention fused stopped": _trial(SMALL, LAYER | {"d_model": 8}, epochs=2000, stop="recall", check_every=5),
    "attention fused sets": _trial(_given("sets"), LAYER, epochs=100),
}

_ATTENTION = {
    "attention lanes": _lanes(SMALL, LAYER, engine="lanes"),
    "attention lanes float32": _trial(SMALL, LAYER, engine="lanes"),
    "attention lanes bfloat16": _trial(SMALL, LAYER, engine="lanes", precision="bfloat16"),
    "attention lanes measured": _lanes(SPARSE, LAYER, engine="lanes", measures=EVERYTHING),
    "attention lanes batches": _lanes(SPARSE, LAYER, engine="lanes", batch_size=7, weight_decay=0.1),
    "attention lanes sgd": _lanes(SMALL, LAYER, optimiser={"name": "sgd", "options": {"momentum": 0.9}}),
    "attention lanes adamw": _lanes(SMALL, LAYER, optimiser={"name": "adamw"}, schedule="cosine", warm_up=0.2),
    "attention lanes frozen": _lanes(SMALL, LAYER, engine="lanes", frozen=["embedding"], score_scale=0.5),
    "attention lanes sets": _lanes(_given("sets"), LAYER, engine="lanes"),
}

_TRANSFORMERS = {
    "transformer": _lanes(SMALL, TRANSFORMER),
    "transformer layers": _lanes(SMALL, TRANSFORMER | {"n_layers": 2, "positions": True}),
    "transformer mlp": _lanes(
        SMALL, TRANSFORMER | {"mlp_width": 6, "layer_norm": True}, measures={"hallucinations": {}}
    ),
    "transformer linear": _lanes(SMALL, TRANSFORMER | {"attention": "linear"}, measures={"additive": {}}),
    "transformer affine": _lanes(SMALL, TRANSFORMER | {"attention": "affine", "positions": True}),
    "transformer shared": _lanes(_given("shared names"), TRANSFORMER | {"share_tokens": True}),
    "transformer measured": _lanes(SPARSE, TRANSFORMER, measures=EVERYTHING),
}

_MEMORIES = {
    "memory linear": _lanes(PAIRS, MEMORY),
    "memory linear started": _lanes(PAIRS, MEMORY | {"trained_embeddings": True}, start="least squares"),
    "memory linear zero": _lanes(
        _shown("weighted_facts", PAIRS, key_exponent=1.0),
        MEMORY,
        start="zero",
        measures={"frequency_groups": {"groups": 2}},
    ),
    "memory linear outer product": _lanes(PAIRS, MEMORY, start="outer product", epochs=0),
    "memory mlp": _lanes(PAIRS, MEMORY | {"width": 8}),
    "memory mlp two-sided": _lanes(PAIRS, MEMORY | {"width": 8}, start="two-sided", epochs=0),
    "memory mlp logistic": _lanes(PAIRS, MEMORY | {"width": 8}, start="logistic", epochs=0),
    "memory mlp stopped": _lanes(PAIRS, MEMORY | {"width": 8}, stop="recall", stop_at=0.5, check_every=2),
}

_SEQUENCES = {
    "sequence": _lanes(SPOKEN, SEQUENCE, batch_size=16),
    "sequence mlp": _lanes(SPOKEN, SEQUENCE | {"mlp_width": 6}, batch_size=16, measures={"parts_alone": {}}),
    "sequence linear": _lanes(SPOKEN, SEQUENCE | {"linear": True, "trained_embeddings": True}, batch_size=16),
    "sequence copying": _lanes(
        _shown("fact_sequences", SPOKEN, copy_fraction=0.25, key_exponent=1.0),
        SEQUENCE | {"copy_groups": 2, "copy_size": 3},
        batch_size=16,
    ),
    "sequence measured": _lanes(
        _shown("fact_sequences", SPOKEN, query_exponent=0.5, contexts=2),
        SEQUENCE | {"mlp_width": 6},
        batch_size=16,
        measures={
            "parts_alone": {},
            "relation_alone": {},
            "frequency_groups": {"groups": 2},
            "test_recall": {"sequences": 32},
            "best": {},
        },
    ),
    "sequence stopped": _lanes(SPOKEN, SEQUENCE, batch_size=16, stop="recall_sequences", stop_at=0.2, check_every=5),
    "one-hot": _lanes(SPOKEN, ONE_HOT, batch_size=16, measures={"relation_alone": {}}),
    "one-hot softmax": _lanes(SPOKEN, ONE_HOT | {"n_heads": 2, "linear": False, "start_scale": 0.5}, batch_size=16),
}

_MEMORISERS = {
    "memoriser classes": _lanes(
        VECTORS | {"n_classes": 5}, MEMORISER, batch_size=8, measures={"saturation": {"threshold": 0.9}}
    ),
    "memoriser real": _lanes(
        VECTORS | {"n_contexts": 1},
        MEMORISER | {"positions": False},
        batch_size=8,
        measures={"tolerance": {"error": 0.1}},
    ),
    "memoriser plain": _lanes(
        VECTORS, MEMORISER | {"embedded": False, "scaled_by": "d_qk"}, batch_size=8, schedule="cosine", warm_up=0.2
    ),
    "memoriser solved": _lanes(VECTORS | {"n_examples": 7}, MEMORISER, start="solved", epochs=0),
    "memoriser vectors": _lanes(_given("vectors"), MEMORISER, batch_size=4, measures={"assumptions": {"subsets": 20}}),
    "memoriser vectors of classes": _lanes(_given("classes"), MEMORISER, batch_size=4),
    "memoriser uniform tokens": _lanes(
        TOKENS | {"source": "uniform", "family": "none"},
        MEMORISER,
        batch_size=4,
        measures={"assumptions": {"subsets": 20}},
    ),
    "memoriser bert tokens": _lanes(
        TOKENS | {"source": "passage", "family": "bert", "stage": "attention"}, MEMORISER, batch_size=4
    ),
    "memoriser gpt2 tokens": _lanes(
        TOKENS | {"source": "passage", "family": "gpt2", "query": "token + mean"}, MEMORISER, batch_size=4
    ),
    "memoriser vit tokens": _lanes(
        TOKENS | {"source": "digits", "family": "vit", "stage": "positions"}, MEMORISER, batch_size=4
    ),
}

TRAINED: dict[str, Trial] = _FUSED | _ATTENTION | _TRANSFORMERS | _MEMORIES | _SEQUENCES | _MEMORISERS
