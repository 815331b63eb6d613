"""Readouts: from logits to answers, and how many of them are right.

What lives here: argmax, softmax and softmax>=tau, recall over all facts, artifacts, attribution to paths, diagnosis.
What may enter: another question to ask of a trained layer. It touches JAX and NumPy, and of factrank the databases,
tensors and models.
"""
