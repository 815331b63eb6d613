"""Proofs that a model recalls every fact in every noise context, based only on its weights and the facts.

Contents: the prover, error bounds for pooling, and bounds of margins. Bounds for other evaluation orders belong here.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.factual_recall.proof.factual_recall_certificate import SequenceProver as SequenceProver
    from factrank.families.factual_recall.proof.factual_recall_certificate import (
        require_factual_recall as require_factual_recall,
    )
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
