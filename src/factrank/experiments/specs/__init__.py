"""Specifications: a trial as frozen data, its canonical JSON and its hash.

What lives here: the dataclasses of a trial, and their way to plain dictionaries and back. What may enter: a field that
every engine understands, with a default, so that no stored hash changes.
"""
