"""Certificates: error bounds of floating-point arithmetic, shared by the proofs of all families.

What lives here: what is assumed of a machine, bounds for sums of products, attention and pooling, exact conditions.
What may enter: a bound that a second family needs; proofs about one kind of model stay with it.
"""
