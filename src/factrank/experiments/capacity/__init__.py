"""Capacity: the largest size that still meets a criterion, as an interval whose two ends were both run.

What lives here: brackets, the search, what it found. What may enter: another way to choose the sizes that are tried.
"""
