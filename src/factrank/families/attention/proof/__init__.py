"""Proofs that an attention layer recalls every fact, from its weights and the facts alone.

What lives here: the forward pass on every fact, error bounds of attention and streams, the certificate. What may
enter: a bound that covers more ways to evaluate a layer.
"""
