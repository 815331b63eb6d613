"""Upper bounds: decompositions of a table, which are their own witnesses.

What lives here: slices, fibers, spanning trees, reference values, CP searches. What may enter: another bound from above
that builds its `Decomposition`.
"""
