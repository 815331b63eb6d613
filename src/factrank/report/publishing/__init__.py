"""Publishing: the results of a paper's studies in a folder that can be read, and checked, without a store.

What lives here: published tables, their checks, lab reports, restoring a store. What may enter: another check.
"""
