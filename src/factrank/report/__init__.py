"""What people see: tables for the terminal, charts for the page.

What lives here: the drawing of results that were computed elsewhere. What may enter: another table, another chart. It
computes nothing and writes only the file it is given.
"""
