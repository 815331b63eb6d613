"""Building blocks of models: weights, attention, named parts, sealed files.

Contains: code that several model families use. Add here: a block that a second family needs. Depends on JAX and
equinox, and on no family.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.nn.associative_matrices import MatrixForm as MatrixForm
    from factrank.nn.associative_matrices import closed_form as closed_form
    from factrank.nn.associative_matrices import logistic as logistic
    from factrank.nn.pair_attention import GRID as GRID
    from factrank.nn.pair_attention import AttentionKind as AttentionKind
    from factrank.nn.pair_attention import Pairing as Pairing
    from factrank.nn.pair_attention import attend as attend
    from factrank.nn.pair_attention import attention_scores as attention_scores
    from factrank.nn.pair_attention import attention_weights as attention_weights
    from factrank.nn.pair_reader import Codes as Codes
    from factrank.nn.pair_reader import PairReader as PairReader
    from factrank.nn.part_arrays import REAL as REAL
    from factrank.nn.part_arrays import PartArrays as PartArrays
    from factrank.nn.part_arrays import PartSizes as PartSizes
    from factrank.nn.part_arrays import checked_arrays as checked_arrays
    from factrank.nn.part_arrays import require_same_parts as require_same_parts
    from factrank.nn.part_arrays import stored_scalars as stored_scalars
    from factrank.nn.part_arrays import to_arrays as to_arrays
    from factrank.nn.part_arrays import to_jax as to_jax
    from factrank.nn.precision import SIGNIFICAND as SIGNIFICAND
    from factrank.nn.precision import Precision as Precision
    from factrank.nn.precision import dtype_of as dtype_of
    from factrank.nn.sealed_file import SUFFIX as SUFFIX
    from factrank.nn.sealed_file import Sealed as Sealed
    from factrank.nn.sealed_file import format_of as format_of
    from factrank.nn.sealed_file import read_sealed as read_sealed
    from factrank.nn.sealed_file import require_type as require_type
    from factrank.nn.sealed_file import write_sealed as write_sealed
    from factrank.nn.shown_model import ShownModel as ShownModel
    from factrank.nn.sizes import require_sizes as require_sizes
    from factrank.nn.stored_facts import FACT_TENSORS as FACT_TENSORS
    from factrank.nn.stored_facts import facts_from_tensors as facts_from_tensors
    from factrank.nn.stored_facts import facts_to_tensors as facts_to_tensors
    from factrank.nn.unreadable_files import unreadable as unreadable
    from factrank.nn.weights import AnyArray as AnyArray
    from factrank.nn.weights import RandomKey as RandomKey
    from factrank.nn.weights import constant as constant
    from factrank.nn.weights import draw as draw
    from factrank.nn.weights import generator_of as generator_of
    from factrank.nn.weights import on_device as on_device
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
