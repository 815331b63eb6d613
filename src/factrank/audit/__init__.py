"""Audits: what theory assumes, checked on the vectors of real models and on files of vectors.

What lives here: readers of token vectors, and the way from what a user names (a file, a checkpoint folder, a bundled or
random model) to contexts and queries. What may enter: another kind of source, another audit. It touches the models and
the mathematics; nothing that it reads is executed.
"""

from factrank.audit.token_vectors import read_vectors as read_vectors
from factrank.audit.tokens import TokenVectors as TokenVectors
from factrank.audit.tokens import token_vectors as token_vectors
