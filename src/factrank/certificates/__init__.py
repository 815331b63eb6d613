"""Certificates: proofs that a model of any family recalls every fact of its data.

Contains: `certify` and the `Prover` interface of families, the certificate, the assumptions about floating-point
arithmetic and the resulting error bounds of sums of products. Add here: a bound that a second family needs; proofs
about one kind of model belong to its family.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.certificates.arithmetic import ARITHMETIC as ARITHMETIC
    from factrank.certificates.arithmetic import EXPONENTIAL_UNITS as EXPONENTIAL_UNITS
    from factrank.certificates.arithmetic import LOGISTIC_UNITS as LOGISTIC_UNITS
    from factrank.certificates.arithmetic import OUR_BITS as OUR_BITS
    from factrank.certificates.arithmetic import SLACK as SLACK
    from factrank.certificates.arithmetic import Arithmetic as Arithmetic
    from factrank.certificates.arithmetic import greatest_unit as greatest_unit
    from factrank.certificates.arithmetic import integral as integral
    from factrank.certificates.arithmetic import most_nonzero as most_nonzero
    from factrank.certificates.arithmetic import powers_of_two as powers_of_two
    from factrank.certificates.arithmetic import roundings_of_product as roundings_of_product
    from factrank.certificates.arithmetic import why_refuted as why_refuted
    from factrank.certificates.blocks import RowBlock as RowBlock
    from factrank.certificates.blocks import row_blocks as row_blocks
    from factrank.certificates.certificate import CERTIFICATE_NOTE as CERTIFICATE_NOTE
    from factrank.certificates.certificate import ArithmeticUsed as ArithmeticUsed
    from factrank.certificates.certificate import Certificate as Certificate
    from factrank.certificates.certificate import certificate_from_json as certificate_from_json
    from factrank.certificates.certificate import claim_in as claim_in
    from factrank.certificates.certificate import storage as storage
    from factrank.certificates.certification import MarginBounds as MarginBounds
    from factrank.certificates.certification import Proof as Proof
    from factrank.certificates.certification import Prover as Prover
    from factrank.certificates.certification import certify as certify
    from factrank.certificates.certification import prove as prove
    from factrank.certificates.certified_weights import fingerprint_of as fingerprint_of
    from factrank.certificates.certified_weights import precision_of as precision_of
    from factrank.certificates.confidence import Abstention as Abstention
    from factrank.certificates.confidence import Confidence as Confidence
    from factrank.certificates.confidence import ConfidenceClaim as ConfidenceClaim
    from factrank.certificates.confidence import LogitIntervals as LogitIntervals
    from factrank.certificates.confidence import largest_probability as largest_probability
    from factrank.certificates.confidence import least_probability as least_probability
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
