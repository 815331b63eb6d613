"""Verification: the certificate of a model of any family."""

from __future__ import annotations

from typing import Any

from factrank.certificates import Certificate, certify
from factrank.errors import InputError
from factrank.experiments.family import Family
from factrank.experiments.models.handed_models import handed_model
from factrank.nn import to_arrays


def verify(given: Any, data: Any = None, **options: Any) -> Certificate:
    """Check every fact with the model's own forward pass, and prove that every other evaluation recalls it too.

    The certificate follows from the weights and the facts alone, so that trained models are certified as constructed
    ones are.

    Arguments:
        given: a layer, a memory, a factual recall transformer, a memoriser, or a model of another family; or something
            trained, constructed or loaded that has one.
        data: the database that it should recall, or the examples of a memoriser; or what describes them. What came with
            its data needs none.
        options: those of the family's proof: `length`, `contexts` and `seed` of factual recall, `tolerance` and
            `precision` of memorisers.

    Returns:
        The certificate; where it is not certified, `reason` says why.

    >>> import numpy as np
    >>> from factrank import Database, layer_from_arrays
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> heads = {name: np.ones((1, 2, 1), np.float32) for name in ("w_q", "w_k", "w_v")}
    >>> layer = layer_from_arrays(
    ...     2, embedding=np.array([[120, 1], [120, -1], [1, 0]], np.float32), w_o=np.array([[[0, 1]]], np.float32),
    ...     unembedding=np.array([[0, 0], [1, -1]], np.float32), **heads
    ... )
    >>> found = verify(layer, facts)
    >>> found.certified, found.recalled, found.worst
    (False, 1, ('Lima', 'country', 'Peru'))
    """
    model, data, family, spec = handed_model(given, data)
    refusal = family.refusal(spec, data)
    if refusal is not None:
        raise InputError(refusal)
    unknown = sorted(options.keys() - set(family.proof_option_names))
    if unknown:
        known = ", ".join(family.proof_option_names) or "none"
        raise InputError(f"the proof of a {type(model).__name__} has no option {unknown[0]!r}; it has {known}")
    prover = family.prover(model, data, **{**family.proof_options(spec), **options})
    return certify(prover, contradiction(model, family))


def contradiction(model: Any, family: Family) -> str:
    """In words, that the parts of a model contradict the sizes that proofs rely on; empty if they agree."""
    try:
        family.from_parts(family.spec_of(model), family.sizes(model), to_arrays(model))
    except InputError as error:
        return f"its parts are not those of its sizes: {error}"
    return ""
