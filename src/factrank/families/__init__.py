"""Families: kinds of models, each with everything specific to it.

Every family has a folder with its specification, model, task, measures, closed forms and proof. The rest of the package
sees only the `FAMILY` of its `family` module, which `experiments.registry` lists. Families do not import each other.
"""
