"""Verification: certify a model of any family."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from factrank.certificates import Certificate, certify, claim_in
from factrank.errors import InputError
from factrank.experiments.family import Family
from factrank.experiments.models.handed_models import handed_model
from factrank.nn import to_arrays


def verify(given: Any, data: Any = None, **options: Any) -> Certificate:
    """Check every fact with the model's forward pass, and prove that every other evaluation recalls it too.

    The certificate depends only on the weights and the facts, so trained models are certified like constructed ones.

    Arguments:
        given: A layer, memory, factual recall transformer, memoriser, or model of another family; or a training result,
            constructed or loaded object that contains one.
        data: Database that the model should recall, or the examples of a memoriser, or a description of either; by
            default, the data of `given`.
        options: Options of the family's proof: for attention layers `tau`, `abstain` and `unknown`, a claim about
            probabilities that is proved in addition (by default, the claim in the certificate of `given`); `length`,
            `contexts` and `seed` for factual recall; `tolerance` and `precision` for memorisers.

    Returns:
        The certificate. If it is not certified, `reason` explains why.

    Raises:
        InputError: If there is no model or no data, or they do not match, or an option is unknown.

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
    prover = family.prover(model, data, **{**family.proof_options(spec), **claimed_options(given), **options})
    return certify(prover, contradiction(model, family))


def claimed_options(given: Any) -> dict[str, Any]:
    """Return the claim about probabilities in the certificate of a constructed or loaded object, as proof options.

    Raises:
        InputError: If the certificate of a loaded object cannot be read.
    """
    certificate = getattr(given, "certificate", None)
    if isinstance(certificate, Certificate):
        claim = None if certificate.confidence is None else certificate.confidence.claim
    else:
        claim = claim_in(getattr(given, "notes", None) or {})
    return {} if claim is None else asdict(claim)


def contradiction(model: Any, family: Family) -> str:
    """Describe how the parts of a model contradict the sizes that proofs rely on; empty if they are consistent."""
    try:
        family.from_parts(family.spec_of(model), family.sizes(model), to_arrays(model))
    except InputError as error:
        return f"its parts are not those of its sizes: {error}"
    return ""
