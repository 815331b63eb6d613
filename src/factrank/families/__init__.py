"""Families: a kind of model together with everything specific to it.

What lives here: a folder per family with its specification, model, task, measures, closed forms and proof. What may
enter: another family; the `FAMILY` of its `family` module is all that the core sees of it, and `experiments.registry`
lists that module. Families do not import each other.
"""
