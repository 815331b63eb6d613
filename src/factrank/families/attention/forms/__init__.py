"""Closed forms: attention layers written down by a formula, for a given database.

What lives here: a module per closed form, the choice among them, and what a construction returns. What may enter:
another closed form. What they are built from is in `building`.
"""
