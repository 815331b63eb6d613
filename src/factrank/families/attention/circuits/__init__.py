"""Circuits: what the paths of a layer contribute, and why a fact is missing.

What lives here: the parts of a layer's tensor, attribution, routing, diagnosis, answers. What may enter: another
analysis of a single layer.
"""
