"""Bounds on the rank, the completion rank and the effective rank, each certified or called an estimate.

What lives here: the registry of bounds, the ledger that runs them within a budget, and the three brackets. Each bound
is in `lower` and `upper`. What may enter: another bound, as one module that registers itself.
"""
