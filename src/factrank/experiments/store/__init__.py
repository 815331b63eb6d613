"""The store: results of trials as Parquet parts that are written once, and weights beside them.

What lives here: rows and columns, parts and tables, kept weights, exports. What may enter: another kind of result that
every family can have.
"""
