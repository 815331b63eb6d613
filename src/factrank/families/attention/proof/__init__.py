"""Proofs that an attention layer recalls every fact, from its weights and the facts alone.

Contains: the forward pass on every fact, error bounds for attention and streams, and the prover. Add here: a bound that
covers more ways of evaluating a layer.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.proof.attention_prover import AttentionProver as AttentionProver
    from factrank.families.attention.proof.confidence_proofs import silent_pairs as silent_pairs
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
