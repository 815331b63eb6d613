"""Examples: a query vector and a context of vectors, with a label to be memorised.

What lives here: given, random and token examples, their vectors, and the batches of a step. What may enter: another
source of examples.
"""
