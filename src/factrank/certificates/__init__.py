"""Certificates: error bounds of floating-point arithmetic, shared by the proofs of all families.

What lives here: what is assumed of a machine, the bounds that follow for sums of products, the precision and the
fingerprint of certified weights, the part that several certificates share. What may enter: a bound that a second family
needs; proofs about one kind of model stay with it.
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
    from factrank.certificates.arithmetic import integral as integral
    from factrank.certificates.arithmetic import most_nonzero as most_nonzero
    from factrank.certificates.arithmetic import powers_of_two as powers_of_two
    from factrank.certificates.arithmetic import roundings_of_product as roundings_of_product
    from factrank.certificates.arithmetic import why_refuted as why_refuted
    from factrank.certificates.certified_weights import fingerprint_of as fingerprint_of
    from factrank.certificates.certified_weights import precision_of as precision_of
    from factrank.certificates.reader_certificate import ReaderCertificate as ReaderCertificate
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
