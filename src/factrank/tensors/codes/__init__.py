"""Codes: tensors of low rank whose readout is a given table.

What lives here: parabola codes, labels, trained logits, distortion, codes of sets. What may enter: another code, with
the proof of its readout.
"""
