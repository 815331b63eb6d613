"""Families: a kind of model together with everything specific to it.

What lives here: a folder per family with its specification, model, task, measures, closed forms and proof. What may
enter: another family; it registers once, in `experiments.families`, and nothing else changes. Families do not import
each other.
"""
