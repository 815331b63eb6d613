"""Statistics: quantities over rows of results, their intervals, and claims about them.

What lives here: expressions over columns, means and slopes, summaries, fits, claims. What may enter: another quantity.
"""
