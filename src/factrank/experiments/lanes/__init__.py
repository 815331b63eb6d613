"""Lanes: any model by `jit(vmap(scan))` over trials of equal shape.

What lives here: compiled programs, bundles of lanes with their checkpoints, the ladder of widths, optimisers. What may
enter: what makes lanes faster or safer for every family.
"""
