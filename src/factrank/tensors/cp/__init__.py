"""CP decompositions: numerical searches, and proofs that what they found exists.

What lives here: Levenberg-Marquardt and alternating least squares, rational rounding, interval proofs. What may enter:
another search, or another way to prove what it found.
"""
