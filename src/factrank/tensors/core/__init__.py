"""0/1 tensors and their exact decompositions: the values that the rest of the mathematics works on.

What lives here: tensors as coordinates of their ones, rank-one terms in rational arithmetic, exact margins. What may
enter: another elementary operation on them.
"""
