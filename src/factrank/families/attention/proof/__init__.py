"""Proofs that an attention layer recalls every fact, from its weights and the facts alone.

What lives here: the forward pass on every fact, error bounds of attention and streams, the prover. What may
enter: a bound that covers more ways to evaluate a layer.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.proof.attention_prover import AttentionProver as AttentionProver
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
