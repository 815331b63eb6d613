"""Audits: token vectors of real models and files, on which the assumptions of the theory are checked.

Contains: token vectors of a checkpoint, a small random model or a file; the checks themselves belong to families. Add
here: another analysis of a checkpoint.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.audit.tokens import Request as Request
    from factrank.audit.tokens import TokenVectors as TokenVectors
    from factrank.audit.tokens import token_vectors as token_vectors
    from factrank.audit.vector_files import read_array as read_array
    from factrank.audit.vector_files import read_vectors as read_vectors
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
