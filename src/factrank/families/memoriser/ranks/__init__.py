"""Ranks of vectors and of memorisers: Kruskal ranks, features modulo a prime, the theorem's assumptions.

What lives here: exact and sampled ranks. What may enter: another rank that memorisation theorems ask for.
"""
