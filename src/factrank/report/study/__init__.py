"""The report of a study: its page, its charts and pictures, its tables.

What lives here: renderers of a study's results. What may enter: another renderer.
"""
