"""Audits: what theory assumes, checked on the vectors of real models and on files of vectors.

What lives here: from what a user names to token vectors. What may enter: another question to a real checkpoint.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.audit.tokens import Request as Request
    from factrank.audit.tokens import TokenVectors as TokenVectors
    from factrank.audit.tokens import token_vectors as token_vectors
    from factrank.audit.vector_files import read_array as read_array
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
