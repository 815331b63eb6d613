"""File formats: databases from and to CSV, TSV, JSON Lines, N-Triples and Parquet.

What lives here: a module per format, and `formats`, which chooses among them by the suffix of a file. What may enter:
another format. Everything is text; nothing that a file says is executed.
"""
