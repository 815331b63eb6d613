"""Lower bounds: what no decomposition of a table can do without.

What lives here: flattenings, Koszul flattenings, substitution, Forster's bound, counting. What may enter: another bound
from below, with its proof in the docstring.
"""
