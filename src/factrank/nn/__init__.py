"""Building blocks of models: weights, attention arithmetic, named parts, sealed files.

What lives here: what several families of models need and none owns. What may enter: a block that a second family asks
for. It needs JAX and equinox and knows no family.
"""
