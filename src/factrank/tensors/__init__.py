"""The mathematics of a table of facts: its tensor, and certified bounds on its three ranks.

What lives here: tensors and decompositions (`core`), exact ranks of matrices (`matrix`), CP decompositions (`cp`),
tables of low rank with a given readout (`codes`), and bounds (`bounds`). What may enter: exact mathematics on 3-tensors
and matrices. It needs NumPy, SciPy and, for exact ranks, python-flint; it knows no model.
"""
