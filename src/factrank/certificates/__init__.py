"""Certificates: error bounds of floating-point arithmetic, shared by the proofs of all families.

What lives here: what is assumed of a machine, what follows for sums of products, what certificates say of weights.
What may enter: a bound that a second family needs; proofs about one kind of model stay with it.
"""
