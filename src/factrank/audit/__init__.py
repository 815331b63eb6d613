"""Audits: what theory assumes, checked on the vectors of real models and on files of vectors.

What lives here: from what a user names to token vectors. What may enter: another question to a real checkpoint.
"""
