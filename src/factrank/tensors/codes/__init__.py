"""Codes: low-rank tensors whose readout is a given table.

Contains: parabola codes, label search, trained logits, and codes for sets, each with the proof of its readout.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.codes.distortion import ReadoutCode as ReadoutCode
    from factrank.tensors.codes.distortion import argmax_code as argmax_code
    from factrank.tensors.codes.parabola import CodeBound as CodeBound
    from factrank.tensors.codes.parabola import least_margin as least_margin
    from factrank.tensors.codes.parabola import shared_bias_bound as shared_bias_bound
    from factrank.tensors.codes.parabola import slicewise_bound as slicewise_bound
    from factrank.tensors.codes.set_codes import set_code as set_code
    from factrank.tensors.codes.set_codes import set_margin as set_margin
    from factrank.tensors.codes.trained_logits import ITERATIONS as ITERATIONS
    from factrank.tensors.codes.trained_logits import LARGEST_LOGITS as LARGEST_LOGITS
    from factrank.tensors.codes.trained_logits import PER_LOGIT as PER_LOGIT
    from factrank.tensors.codes.trained_logits import LogitGoal as LogitGoal
    from factrank.tensors.codes.trained_logits import expected_terms as expected_terms
    from factrank.tensors.codes.trained_logits import fewer_terms as fewer_terms
    from factrank.tensors.codes.trained_logits import n_logits as n_logits
    from factrank.tensors.codes.trained_logits import train_logits as train_logits
    from factrank.tensors.codes.trained_logits import trained_codes as trained_codes
    from factrank.tensors.codes.trained_logits import training_seconds as training_seconds
    from factrank.tensors.codes.value_labels import STEPS as STEPS
    from factrank.tensors.codes.value_labels import fits as fits
    from factrank.tensors.codes.value_labels import labelled_codes as labelled_codes
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
