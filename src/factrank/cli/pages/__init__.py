"""Commands that open pages in a browser.

Contains: the live explorer. Add here: another command whose result is a page rather than text.
"""
