"""Solving: a memoriser in closed form, and the certificate of what it answers.

What lives here: the linear problem, its range, the proof. What may enter: another solver.
"""
